"""How alike are two lists of numbers? Correlations of the items that have both."""

from __future__ import annotations

from typing import Any

import numpy as np

from attlas.support.arrays import Floats


def pearson(left: Any, right: Any) -> float:
    """Pearson's correlation over the items that have both values.

    NaN for fewer than two items, or if either side has one value for all.

    >>> round(pearson([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]), 6), pearson([0.1, 0.1], [1.0, 2.0])
    (1.0, nan)
    """
    one, two = _paired(left, right)
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return float("nan")
    return float(np.corrcoef(one, two)[0, 1])


def spearman(left: Any, right: Any) -> float:
    """Spearman's correlation: Pearson's of the ranks, ties having their mean rank.

    >>> round(spearman([0.1, 0.2, 0.9, 0.2], [1, 2, 8, 3]), 6)
    0.948683
    """
    one, two = _paired(left, right)
    return pearson(mean_ranks(one), mean_ranks(two))


def mean_ranks(values: Floats) -> Floats:
    """Ranks from 1 in ascending order, ties having the mean of theirs.

    >>> mean_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return ((2 * last - sizes + 1) / 2)[group]


def _paired(left: Any, right: Any) -> tuple[Floats, Floats]:
    """The values of items that have both."""
    one, two = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    both = ~(np.isnan(one) | np.isnan(two))
    return one[both], two[both]
