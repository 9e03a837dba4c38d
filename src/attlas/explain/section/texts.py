"""Explained texts as they are shown: a line about each, words shaded by their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from attlas.explain.kinds import METHODS, UNIFORM
from attlas.explain.section.findings import named
from attlas.views.numbers import decimal, percent
from attlas.views.overlay import Overlay, score_overlay
from attlas.views.section import Tables

NOT_METHODS = ("text", "token", "start", "stop", "string")


def is_signed(method: str) -> bool:
    """Whether the scores of a method are for and against; those of an unknown method may be."""
    return METHODS[method].signed if method in METHODS else True


def methods_of(tokens: pd.DataFrame) -> list[str]:
    """The methods that a table of attributions has scores of."""
    names = [str(name) for name in tokens.columns if name not in NOT_METHODS]
    return [name for name in names if not name.endswith(UNIFORM)]


def uniform_of(method: str) -> str:
    """The column of a method's scores by uniform attention.

    >>> uniform_of("rollout")
    'rollout_uniform'
    """
    return f"{method}{UNIFORM}"


def explained_line(row: Mapping[Any, Any], of: str = "probability") -> str:
    """What was explained of a text and how well, in one line."""
    label = "" if pd.isna(row["label"]) else f"label {row['label']} · "
    target = "" if row["target"] == row["predicted"] else f"explained {row['target']} · "
    late = "" if row["converged"] else ", not converged"
    gap = "" if pd.isna(row["gap"]) else f", gap {percent(row['gap'], 2)}{late}"
    start = "" if pd.isna(row["baseline"]) else f" from {decimal(row['baseline'])} at the baseline"
    return (
        f"{label}predicted {row['predicted']} ({decimal(row['probability'])}) · {target}{of} "
        f"{decimal(row['value'])}{start}, total {decimal(row['total'])}{gap} · "
        f"{int(row['evaluations'])} evaluations"
    )


def study_overlay(study: Tables, row: Mapping[str, Any]) -> tuple[str, Overlay]:
    """A text of a study with explanations, shaded by each of its methods, and its line."""
    tokens = study.table("attributions", text=row["text"])
    methods = methods_of(tokens)
    scores = {
        method: np.nan_to_num(tokens[method].to_numpy(dtype=np.float64)) for method in methods
    }
    rows = study.table("explanations", text=row["text"]).set_index("method")
    about = rows.loc[methods[0]] if methods[0] in rows.index else rows.iloc[0]
    line = f"{row['text']} · {explained_line(about, str(about.get('of', 'probability')))}"
    signed = {method: is_signed(method) for method in methods}
    shown = score_overlay(row["content"], tokens, scores, signed)
    return line, replace(shown, says=tints_line(methods[0]))


def tints_line(method: str) -> str:
    """What the tints of a picture without a script mean.

    >>> tints_line("integrated_gradients"), tints_line("rollout")
    ('Tints: integrated gradients (green supports, purple opposes)', 'Tints: attention rollout')
    """
    sides = " (green supports, purple opposes)" if is_signed(method) else ""
    return f"Tints: {named(method)}{sides}"
