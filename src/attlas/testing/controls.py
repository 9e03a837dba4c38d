"""Every score has a control: a column of its table, or rows of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd


def check_control(frame: pd.DataFrame, score: str, control: str | Mapping[str, str]) -> None:
    """The control of a score is there, and finite wherever it is compared with the score.

    >>> frame = pd.DataFrame({"who": ["head", "random"], "accuracy": [0.5, 0.1]})
    >>> check_control(frame, "accuracy", {"who": "random"})
    >>> check_control(frame, "accuracy", {"who": "nearest"})
    Traceback (most recent call last):
        ...
    AssertionError: no row of {'who': 'nearest'} has an accuracy
    """
    scored = frame[frame[score].notna()]
    if isinstance(control, str):
        assert control in frame, f"{score} has no control {control}"
        unknown = ~np.isfinite(pd.to_numeric(scored[control]))
        assert not unknown.any(), f"{control} is missing in {int(unknown.sum())} rows with {score}"
        return
    rows = scored[np.logical_and.reduce([scored[name] == value for name, value in control.items()])]
    assert len(rows) or scored.empty, f"no row of {dict(control)} has an {score}"
