"""Do two means of different texts differ? Variances may differ too (Welch 1947)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attlas.stats.student import student_quantile
from attlas.support.arrays import Floats

Ends = tuple[Floats, Floats, Floats]  # differences, and the ends of their intervals


@dataclass(frozen=True)
class Estimate:
    """Means of heads with their standard errors and numbers of texts: each [head]."""

    mean: Floats
    error: Floats
    texts: Floats

    @property
    def free(self) -> Floats:
        """Degrees of freedom of the error."""
        out: Floats = np.maximum(self.texts - 1, 1)
        return out


def pooled(parts: Sequence[Estimate]) -> tuple[Estimate, Floats]:
    """The mean over the texts of several groups together, and the squared error per freedom.

    Groups weigh as much as they have texts, and their sizes count as given; one without an error
    (fewer than two texts) is left out of the heads where it has none.
    """
    known = np.array([np.isfinite(one.mean) & np.isfinite(one.error) for one in parts])
    texts = np.array([one.texts for one in parts]) * known
    total = texts.sum(axis=0)
    weights = np.divide(texts, total, out=np.zeros(texts.shape), where=total > 0)
    means = np.where(known, np.array([one.mean for one in parts]), 0)
    squares = weights**2 * np.where(known, np.array([one.error for one in parts]), 0) ** 2
    mean = np.where(total > 0, (weights * means).sum(axis=0), np.nan)
    error = np.where(total > 0, np.sqrt(squares.sum(axis=0)), np.nan)
    per_freedom = (squares**2 / np.array([one.free for one in parts])).sum(axis=0)
    return Estimate(mean, error, total), per_freedom


def welch(group: Estimate, others: Sequence[Estimate]) -> Ends:
    """The difference between a group and others together, and the ends of its 95% interval.

    Variances may differ (Welch 1947), as may those of the groups that are joined.

    >>> one = Estimate(np.array([0.5]), np.array([0.03]), np.array([40.0]))
    >>> two = Estimate(np.array([0.4]), np.array([0.04]), np.array([40.0]))
    >>> [float(end.round(3)[0]) for end in welch(one, [two])]
    [0.1, 0.0, 0.2]
    """
    rest, per_freedom = pooled(others)
    squares = group.error**2 + rest.error**2
    ratio = squares**2 / np.maximum(group.error**4 / group.free + per_freedom, 1e-300)
    free = np.floor(np.clip(np.nan_to_num(ratio, nan=1.0), 1, 1e9))
    half = student_quantile(0.975, free + 1) * np.sqrt(squares)
    difference = group.mean - rest.mean
    return difference, difference - half, difference + half


def beyond_both(own: Ends, apart: Ends) -> Ends:
    """How far differences exceed both none and that of a control, with intervals.

    `own` are the differences, `apart` the same without that of the control. A head whose number is
    the same in both groups does not differ, even where that of uniform attention does: between
    none and the control there is nothing, and the interval spans both.

    >>> own, apart = (np.array([0.3, 0.0, -0.1]),) * 3, (np.array([0.2, 0.4, -0.5]),) * 3
    >>> [end.tolist() for end in beyond_both(own, apart)]
    [[0.2, 0.0, -0.1], [0.2, 0.0, -0.1], [0.2, 0.4, -0.1]]
    """
    is_beyond = own[0] * apart[0] > 0
    is_nearer = np.abs(own[0]) <= np.abs(apart[0])
    value, low, high = (
        np.where(is_nearer, one, other) for one, other in zip(own, apart, strict=True)
    )
    nothing = np.where(np.isnan(own[0] + apart[0]), np.nan, 0.0)
    return (
        np.where(is_beyond, value, nothing),
        np.where(is_beyond, low, np.minimum(own[1], apart[1])),
        np.where(is_beyond, high, np.maximum(own[2], apart[2])),
    )


def own_estimate(frame: pd.DataFrame, name: str, texts: int) -> Estimate:
    """A column of a table of heads; `texts` are those of the study, unless the table says."""
    counts = frame.get(f"{name}_texts", pd.Series(texts, index=frame.index))
    columns = (frame[name], frame[f"{name}_error"], counts)
    return Estimate(*(one.to_numpy(dtype=np.float64) for one in columns))


def from_control(frame: pd.DataFrame, name: str, texts: int) -> Estimate:
    """A number minus its control, with the error of that; without a control the number itself."""
    own, control, error = (
        own_estimate(frame, name, texts),
        f"{name}_uniform",
        f"{name}_difference_error",
    )
    if control not in frame or error not in frame:
        return own
    mean = own.mean - frame[control].to_numpy(dtype=np.float64)
    return Estimate(mean, frame[error].to_numpy(dtype=np.float64), own.texts)
