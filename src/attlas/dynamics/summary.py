"""Classifiers compared: what tells them apart, and how far a number of theirs reaches over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

CELL = ("attention", "encoder", "scale")  # what tells classifiers apart, but for the seed
USUAL = 10.0  # the scale that Sun & Lu 2020 draw


def with_intervals(summary: pd.DataFrame, rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """The summary of classifiers with `low` and `high` of a number: the interval of the one seed, or the lowest and highest of several."""
    if rows.empty:
        return summary.assign(low=np.nan, high=np.nan)
    found = []
    for cell, part in rows.groupby(list(CELL), sort=False):
        alone = len(part) == 1 and f"{what}_low" in part
        low, high = (
            (part[f"{what}_low"], part[f"{what}_high"]) if alone else (part[what], part[what])
        )
        found.append({**dict(zip(CELL, cell, strict=True)), "low": low.min(), "high": high.max()})
    return summary.merge(pd.DataFrame(found), on=list(CELL), how="left")


def nearest_scale(frame: pd.DataFrame) -> pd.Series[Any]:
    """The row whose scale is nearest to the usual one, by ratio."""
    return frame.loc[np.log(frame["scale"] / USUAL).abs().idxmin()]
