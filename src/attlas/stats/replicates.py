"""What do bootstrap replicates and halves of the texts say about means and rankings?"""

from __future__ import annotations

from typing import Any

import numpy as np

from attlas.stats.student import student_quantile
from attlas.support.arrays import Floats


def replicate_error(replicates: Any, texts: Any) -> Floats:
    """The standard error of means over `texts` from replicates [..., replicate].

    A replicate's variance is that of all texts, which n / (n - 1) makes an estimate for others.
    NaN replicates, in which no text was drawn, are skipped; fewer than two texts have no error.

    >>> replicate_error([[0.0, 1.0, 2.0]], 2).round(3)
    array([1.414])
    """
    values, n = np.asarray(replicates, dtype=np.float64), np.asarray(texts, dtype=np.float64)
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    mean = np.where(known, values, 0).sum(axis=-1) / np.maximum(count, 1)
    squares = (np.where(known, values - mean[..., None], 0) ** 2).sum(axis=-1)
    enough = (count > 1) & (n > 1)
    variance = squares / np.maximum(count - 1, 1) * n / np.maximum(n - 1, 1)
    return np.where(enough, np.sqrt(variance), np.nan)


def paired_interval(
    values: Any, others: Any, replicates: Any, other_replicates: Any, texts: Any
) -> tuple[Floats, Floats, Floats]:
    """The difference of two means over the same texts, and the ends of its 95% interval.

    `replicates` are [..., replicate], in both of the same draws of texts. The interval is Student's
    with the standard deviation of the replicates' differences: its half-width has a random error of
    5% with 200 replicates, that of percentiles 10%, and means over texts are nearly normal. Degrees
    of freedom are those of the fewer, texts or replicates.

    >>> paired_interval([0.5], [0.25], [[0.5, 0.75]], [[0.25, 0.5]], 100)
    (array([0.25]), array([0.25]), array([0.25]))
    """
    left, right = (np.asarray(one, dtype=np.float64) for one in (replicates, other_replicates))
    difference = np.asarray(values, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    fewer = np.minimum(np.asarray(texts), left.shape[-1])
    half = student_quantile(0.975, fewer) * replicate_error(left - right, texts)
    return difference, difference - half, difference + half


def spearman_brown(correlations: Floats) -> Floats:
    """The reliability of a ranking by all texts, from its correlation between two halves of them.

    By Spearman and Brown's formula; of a negative correlation the mirror image (Krus and
    Helmstadter 1993), so that -1 stays -1.

    >>> spearman_brown(np.array([0.5, 1.0, -0.5])).round(3)
    array([ 0.667,  1.   , -0.667])
    """
    return 2 * correlations / (1 + np.abs(correlations))
