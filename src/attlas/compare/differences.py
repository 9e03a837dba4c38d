"""By how much do the numbers of every head differ between two studies, A and B?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attlas.stats.student import student_quantile
from attlas.stats.verdicts import Comparison, corrected
from attlas.stats.welch import Estimate, beyond_both, from_control, own_estimate, welch
from attlas.support.arrays import Floats

HEADS = ["layer", "head"]
COLUMNS = (
    "measure",
    "column",
    *HEADS,
    "value_a",
    "value_b",
    "uniform_a",
    "uniform_b",
    "difference",
    "difference_low",
    "difference_high",
    "uniform_difference",
    "beyond",
    "beyond_low",
    "beyond_high",
    "halves",
    "seed_difference",
    "texts",
    "free",
    "paired",
)
SAME = 1e-4  # relative: of uniform attention over the same tokens


@dataclass(frozen=True, eq=False)
class HeadTables:
    """A table of heads in both studies, each with the number of its texts.

    `paired` are the differences B minus A with intervals from the same draws of texts, by column,
    with the number of `replicates`; None if the texts differ. `seed` is the table of another
    training run of B.
    """

    measure: str
    a: pd.DataFrame
    b: pd.DataFrame
    texts: tuple[int, int]
    paired: pd.DataFrame | None = None
    replicates: int = 0
    seed: pd.DataFrame | None = None


def head_changes(tables: HeadTables) -> pd.DataFrame:
    """B minus A for every column with a standard error; a row per column and head.

    `beyond` is how far the difference exceeds both none and that of uniform attention, which is
    none on the same tokens.
    `halves` is the control: 95% of the differences between two random halves of A's texts are
    smaller, since those have twice the standard error of the mean over all of them.
    """
    names = [str(name) for name in tables.a if f"{name}_error" in tables.a]
    parts = [_changes_of(tables, name) for name in names if f"{name}_error" in tables.b]
    known = [one for one in parts if len(one)]
    return pd.concat(known, ignore_index=True) if known else pd.DataFrame(columns=list(COLUMNS))


def with_corrections(changes: pd.DataFrame) -> pd.DataFrame:
    """The changes of all tables, corrected for all heads and columns (Benjamini-Hochberg at 5%).

    `significant`, and the ends of the interval of `beyond`, widened to match.
    """
    comparisons = [comparison_of(row) for row in changes.to_dict("records")]
    return changes.assign(**corrected(comparisons))


def comparison_of(row: dict[str, float]) -> Comparison:
    """How far a change exceeds both none and that of uniform attention, with its interval."""
    return Comparison(
        float(row["beyond"]),
        0.0,
        float(row["beyond_low"]),
        float(row["beyond_high"]),
        int(row["free"]),
        "either",
    )


def _changes_of(tables: HeadTables, name: str) -> pd.DataFrame:
    own = [own_estimate(*one) for one in _both(tables, name)]
    apart = [from_control(*one) for one in _both(tables, name)]
    uniform = [one.mean - other.mean for one, other in zip(own, apart, strict=True)]
    fewer = np.minimum(own[0].texts, own[1].texts)
    if _has_pairs(tables, name, uniform):
        ends = without = _paired_ends(tables, name)
        free, half = np.minimum(fewer, tables.replicates), halves(own[0])
    else:
        ends, without = welch(own[1], [own[0]]), welch(apart[1], [apart[0]])
        free, half = fewer, halves(apart[0])
    beyond = beyond_both(ends, without)
    frame = pd.DataFrame(
        {
            "measure": tables.measure,
            "column": name,
            **{one: tables.a[one].to_numpy() for one in HEADS},
            "value_a": own[0].mean,
            "value_b": own[1].mean,
            "uniform_a": uniform[0],
            "uniform_b": uniform[1],
            **dict(zip(("difference", "difference_low", "difference_high"), ends, strict=True)),
            "uniform_difference": ends[0] - without[0],
            **dict(zip(("beyond", "beyond_low", "beyond_high"), beyond, strict=True)),
            "halves": half,
            "seed_difference": _seed_difference(tables, name),
            "texts": fewer.astype(np.int64),
            "free": free.astype(np.int64),
            "paired": without is ends,
        }
    )
    return frame[np.isfinite(frame["beyond"])][list(COLUMNS)]


def halves(one: Estimate) -> Floats:
    """What 95% of the differences between two random halves of the texts do not exceed.

    The mean over half of the texts has twice the variance of that over all, and the difference of
    two such means twice as much again.
    """
    return 2 * student_quantile(0.975, one.texts) * one.error


def _both(tables: HeadTables, name: str) -> list[tuple[pd.DataFrame, str, int]]:
    return [
        (one, name, count) for one, count in zip((tables.a, tables.b), tables.texts, strict=True)
    ]


def _has_pairs(tables: HeadTables, name: str, uniform: Sequence[Floats]) -> bool:
    """Whether texts are paired: the same ones, and of the same tokens in both."""
    if tables.paired is None or f"{name}_difference" not in tables.paired:
        return False
    return np.allclose(uniform[0], uniform[1], rtol=SAME, atol=SAME, equal_nan=True)


def _paired_ends(tables: HeadTables, name: str) -> tuple[Floats, Floats, Floats]:
    assert tables.paired is not None
    difference, low, high = (
        tables.paired[f"{name}_{end}"].to_numpy(dtype=np.float64)
        for end in ("difference", "low", "high")
    )
    return difference, low, high


def _seed_difference(tables: HeadTables, name: str) -> Floats:
    """The other training run minus A; NaN if there is none."""
    if tables.seed is None or name not in tables.seed:
        return np.full(len(tables.a), np.nan)
    return (tables.seed[name] - tables.a[name]).to_numpy(dtype=np.float64)
