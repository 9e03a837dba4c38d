"""Quantiles of Student's t. No scipy: pages are drawn without it."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from attlas.support.arrays import Array

MANY = 200  # degrees of freedom from which Cornish and Fisher's series is exact to 1e-9
TINY = 1e-30  # in place of 0 in a continued fraction


def student_quantile(share: float, texts: Array) -> Array:
    """Quantiles of Student's t for `texts` - 1 degrees of freedom.

    >>> student_quantile(0.975, np.array([4, 31, 1001])).round(3)
    array([3.182, 2.042, 1.962])
    """
    free = np.maximum(np.asarray(texts, dtype=np.float64) - 1, 1)
    several, of = np.unique(free, return_inverse=True)
    each = [_quantile(share, float(one)) for one in several]
    return np.array(each)[of].reshape(free.shape)


@cache
def _quantile(share: float, free: float) -> float:
    if share < 0.5:
        return -_quantile(1 - share, free)
    if free in (1, 2):  # closed forms
        wide = math.sqrt(2 * share * (1 - share))
        return math.tan(math.pi * (share - 0.5)) if free == 1 else (2 * share - 1) / wide
    if free >= MANY:
        return _series(share, free)
    at = NormalDist().inv_cdf(share)  # below the quantile, where the distribution is concave
    norm = math.exp(math.lgamma((free + 1) / 2) - math.lgamma(free / 2))
    for _ in range(200):
        density = norm / math.sqrt(free * math.pi) * (1 + at * at / free) ** (-(free + 1) / 2)
        step = (_tail(at, free) - (1 - share)) / density
        at += step
        if abs(step) <= 1e-13 * max(1.0, at):
            break
    return at


def _series(share: float, free: float) -> float:
    """Cornish and Fisher's series."""
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / free**power for power, term in enumerate(terms, 1))


def _tail(at: float, free: float) -> float:
    """The probability of more than `at`: half of the incomplete beta function."""
    x, a, b = free / (free + at * at), free / 2, 0.5
    if x <= (a + 1) / (a + b + 2):
        return _beta(x, a, b) / 2
    return (1 - _beta(1 - x, b, a)) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function by its continued fraction (Lentz)."""
    if x <= 0:
        return 0.0
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logs + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            d, c = 1 / (1 + part * d or TINY), 1 + part / c or TINY
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * value
