"""95% intervals with a closed form.

One kind of number has one kind of interval. A share of independent texts (accuracy) is Wilson's; a
share of cases that belong to texts is that of `attlas.stats.clustered`, which is Wilson's if each
text has one case; a mean over texts is Student's; an area under the ROC curve is DeLong's. Scores
without a closed form (MCC, F1, differences of them) are in `attlas.stats.bootstrap`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from attlas.stats.student import student_quantile
from attlas.support.arrays import Array

Z = float(ndtri(0.975))  # standard errors to each side, if the error is known


@cache
def student(count: int) -> float:
    """Standard errors to each side, if the error is estimated from `count` texts (at least two).

    >>> round(student(10), 2), round(student(1000), 2)
    (2.26, 1.96)
    """
    return float(student_quantile(0.975, np.array([max(2, count)]))[0])


def wilson(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval of a share of n.

    >>> [round(end, 3) for end in wilson(0.9, 100)]
    [0.826, 0.945]
    """
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return min(share, max(0.0, low)), max(share, min(1.0, high))  # rounding excludes no share


def mean_interval(values: Any) -> tuple[float, float, float]:
    """The mean of the values of texts and its interval by Student's t.

    NaN is excluded; fewer than two values have no interval.

    >>> [round(number, 2) for number in mean_interval([0.1, 0.2, 0.3, float("nan")])]
    [0.2, -0.05, 0.45]
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return float(known[0]) if len(known) else math.nan, math.nan, math.nan
    mean, error = float(known.mean()), float(known.std(ddof=1)) / math.sqrt(len(known))
    return mean, mean - student(len(known)) * error, mean + student(len(known)) * error


def interval_over_seeds(lows: Any, highs: Any) -> tuple[float, float]:
    """The interval of a typical seed: the means of both ends over seeds that share their texts.

    It is about which texts (or words) were scored, as the interval of each seed is; the spread over
    seeds is not in it and is reported as a standard deviation.

    >>> interval_over_seeds([0.5, 0.75], [0.75, 1.0])
    (0.625, 0.875)
    """
    return _mean(lows), _mean(highs)


def _mean(values: Any) -> float:
    """The mean without NaN; NaN of nothing."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else math.nan


class Ranked(NamedTuple):
    """An area under the ROC curve with its interval."""

    auc: float
    low: float
    high: float


def auc(above: Array, below: Array) -> Ranked:
    """The probability that a value of the first is above one of the second (ties count half).

    The interval is that of DeLong et al. (1988). Where all pairs agree its variance is 0: then it
    is Wilson's for the smaller of the two. NaN if one is empty.

    >>> auc(np.array([3, 2, 4]), np.array([1, 2])).auc
    0.9166666666666666
    """
    first, second = len(above), len(below)
    if not first or not second:
        return Ranked(math.nan, math.nan, math.nan)
    ranks = rankdata(np.concatenate([above, below]))
    beaten = (ranks[:first] - rankdata(above)) / second  # share of the second below each value
    beating = 1 - (ranks[first:] - rankdata(below)) / first
    area = float(beaten.mean())
    variance = _variance_of_mean(beaten) + _variance_of_mean(beating)
    if variance < np.finfo(float).eps or min(first, second) < 2:
        return Ranked(area, *wilson(area, min(first, second)))
    half = Z * math.sqrt(variance)
    return Ranked(area, max(0.0, area - half), min(1.0, area + half))


def _variance_of_mean(values: Array) -> float:
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 0.0
