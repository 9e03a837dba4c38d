"""Intervals of 95 %."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

Z = 1.96  # of a 95 % interval


def wilson(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n.

    >>> [round(end, 3) for end in wilson(0.9, 100)]
    [0.826, 0.945]
    """
    middle, half = share + z * z / (2 * n), z * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


class Ranked(NamedTuple):
    """An area under the ROC curve with its interval."""

    auc: float
    low: float
    high: float


def auc(above: npt.NDArray[Any], below: npt.NDArray[Any]) -> Ranked:
    """How likely a value of the first is above one of the second (ties count half), with the interval of DeLong et al. (1988); NaN if one is empty.

    Where all pairs agree its variance is 0: then it is no surer than Wilson's interval of the smaller of the two.

    >>> auc(np.array([3, 2, 4]), np.array([1, 2])).auc
    0.9166666666666666
    """
    first, second = len(above), len(below)
    if not first or not second:
        return Ranked(*[float("nan")] * 3)
    ranks = rankdata(np.concatenate([above, below]))
    beaten = (ranks[:first] - rankdata(above)) / second  # of each of the first, the share of the second below it
    beating = 1 - (ranks[first:] - rankdata(below)) / first
    area = float(beaten.mean())
    spread = float(beaten.var(ddof=1) / first if first > 1 else 0) + float(beating.var(ddof=1) / second if second > 1 else 0)  # fmt: skip
    if spread < np.finfo(float).eps or min(first, second) < 2:
        return Ranked(area, *wilson(area, min(first, second)))
    half = Z * float(np.sqrt(spread))
    return Ranked(area, max(0.0, area - half), min(1.0, area + half))
