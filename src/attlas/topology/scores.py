"""Scores of classifiers with their intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DRAWS = 2000


@dataclass(frozen=True)
class Score:
    """Matthews' correlation and accuracy on `n` texts, each with the 95 % interval of a bootstrap over texts."""

    mcc: float
    mcc_low: float
    mcc_high: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(labels: Any, guesses: Any, seed: int = 0) -> Score:
    """How well guesses meet labels.

    Drawing texts with replacement is drawing cells of the confusion table, so the bootstrap is one multinomial draw each.

    >>> score(["a", "b", "a", "b"], ["a", "b", "a", "a"]).accuracy
    0.75
    """
    names, codes = np.unique(np.concatenate([np.asarray(labels), np.asarray(guesses)]), return_inverse=True)
    n = len(codes) // 2
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, (codes[:n], codes[n:]), 1)
    draws = np.random.default_rng(seed).multinomial(n, table.reshape(-1) / n, size=DRAWS).reshape(-1, *table.shape)
    low, high = (np.quantile([mcc(draws), accuracy(draws)], share, axis=1) for share in (0.025, 0.975))
    ends = [float(end) for end in (low[0], high[0], low[1], high[1])]
    return Score(float(mcc(table)), ends[0], ends[1], float(accuracy(table)), ends[2], ends[3], n)


def mcc(table: Array) -> Array:
    """Matthews' correlation of confusion tables [..., label, guess], for any number of labels; 0 where only one label or guess occurs.

    >>> float(mcc(np.array([[2, 0], [0, 2]])))
    1.0
    """
    table = table.astype(np.float64)
    labels, guesses = table.sum(-1), table.sum(-2)
    total, right = labels.sum(-1), np.trace(table, axis1=-2, axis2=-1)
    above = right * total - (labels * guesses).sum(-1)
    below = np.sqrt((total**2 - (labels**2).sum(-1)) * (total**2 - (guesses**2).sum(-1)))
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0)


def accuracy(table: Array) -> Array:
    """The share of texts on the diagonal of confusion tables [..., label, guess]."""
    return np.trace(table, axis1=-2, axis2=-1) / table.sum((-1, -2))
