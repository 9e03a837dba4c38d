"""Is the agreement in one text more than chance? Kendall's tau under circular shifts.

Scores of neighbouring tokens are alike, so shuffled scores agree less by chance than real ones do.
Shifting one side along the text, its end joined to its beginning, keeps that likeness.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attlas.explain import numpy_order
from attlas.explain.agreement import compared_scores
from attlas.stats import rankings
from attlas.support.arrays import Bools, Floats, Ints

SHIFTS = 199  # at most, so that 5 are in each tail
LEVEL = 0.95


class Band(NamedTuple):
    """Where tau falls by chance in one text: by how many shifts, and at which level."""

    low: float
    high: float
    level: float
    shifts: int


def spread_shifts(n: int, most: int = SHIFTS) -> Ints:
    """Different shifts of n tokens other than none, spread evenly: [shift].

    >>> spread_shifts(5).tolist(), spread_shifts(1000, most=4).tolist()
    ([1, 2, 3, 4], [1, 334, 666, 999])
    """
    return np.unique(np.rint(np.linspace(1, n - 1, min(n - 1, most))).astype(np.int64))


def band(values: Floats) -> Band:
    """The band that leaves out equally many of the highest and lowest values, at most 5% of them.

    Its ends are the r-th lowest and the r-th highest of k values. A further value falls inside with
    a probability of 1 - 2r / (k + 1) if all k + 1 are exchangeable; below 39 values that is less
    than 95%, and the band is their whole range.

    >>> band(np.arange(199.0))
    Band(low=4.0, high=194.0, level=0.95, shifts=199)
    >>> band(np.array([0.2, -0.1, 0.4]))
    Band(low=-0.1, high=0.4, level=0.5, shifts=3)
    """
    count = len(values)
    if not count or np.isnan(values).any():
        return Band(math.nan, math.nan, math.nan, count)
    rank = max(1, math.floor((1 - LEVEL) / 2 * (count + 1) + 1e-9))
    ordered = np.sort(values)
    level = 1 - 2 * rank / (count + 1)
    return Band(float(ordered[rank - 1]), float(ordered[-rank]), round(level, 12), count)


def shifted_taus(
    a: Floats, b: Floats, keep: Bools | None = None, convention: str = "sound"
) -> Floats:
    """Kendall's tau of `compare` with b's kept scores shifted along the kept tokens: [shift].

    Empty if there is nothing to compare.
    """
    where, one, two = compared_scores(a, b, keep, convention)
    n = len(one)
    if not n:
        return np.empty(0)
    (left, left_stops), (right, right_stops) = rankings.ranked(one), rankings.ranked(two)
    ranks = np.empty_like(right)
    ranks[right] = np.arange(n)
    rows = ranks[(left - spread_shifts(n)[:, None]) % n]
    if convention == "published":
        scores = (one[left], two[right], where[left], len(a), (0, 0), rows)
        return numpy_order.published(*scores)[:, 1]
    return rankings.taus(left_stops, right_stops, rows)


def tau_band(a: Floats, b: Floats, keep: Bools | None = None, convention: str = "sound") -> Band:
    """Where Kendall's tau of one text falls by chance, by circular shifts of b's scores."""
    return band(shifted_taus(a, b, keep, convention))
