"""The tokens of one explained text, from the highest score to the lowest."""

from __future__ import annotations

import numpy as np
import pandas as pd


def by_type(tokens: pd.DataFrame, method: str) -> pd.DataFrame:
    """The scores of one text's tokens summed by string: string, score, occurrences."""
    ordinary = tokens[tokens["start"] >= 0]
    summed = ordinary.groupby("string", sort=True)[method].agg(["sum", "size"]).reset_index()
    return (
        summed.set_axis(["string", "score", "occurrences"], axis=1)
        .sort_values("score", ascending=False, kind="stable")
        .reset_index(drop=True)
    )


def by_position(tokens: pd.DataFrame, method: str) -> pd.DataFrame:
    """The scores of one text's tokens: string (with its position), score."""
    ordinary = tokens[tokens["start"] >= 0].sort_values(method, ascending=False, kind="stable")
    names = ordinary["string"].astype(str) + "@" + ordinary["token"].astype(str)
    return pd.DataFrame(
        {"string": names.to_numpy(), "score": ordinary[method].to_numpy(dtype=np.float64)}
    )
