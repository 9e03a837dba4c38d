"""Classifiers of a grid compared: intervals over seeds, and the usual scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

CELL = ("attention", "encoder", "scale")  # what classifiers differ in, but for the seed
USUAL = 10.0  # the scale in the figures of Sun and Lu (2020)


def with_intervals(summary: pd.DataFrame, rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Add `low` and `high` of a column: the interval of one seed, or the range over several."""
    if rows.empty:
        return summary.assign(low=np.nan, high=np.nan)
    ranges = []
    for cell, part in rows.groupby(list(CELL), sort=False):
        alone = len(part) == 1 and f"{what}_low" in part
        low, high = (
            (part[f"{what}_low"], part[f"{what}_high"]) if alone else (part[what], part[what])
        )
        ranges.append({**dict(zip(CELL, cell, strict=True)), "low": low.min(), "high": high.max()})
    return summary.merge(pd.DataFrame(ranges), on=list(CELL), how="left")


def nearest_scale(frame: pd.DataFrame) -> pd.Series[Any]:
    """The row whose scale is nearest to the usual one, by ratio."""
    return frame.loc[np.log(frame["scale"] / USUAL).abs().idxmin()]
