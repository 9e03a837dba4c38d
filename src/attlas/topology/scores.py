"""Scores of classifiers with their intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.confusion import accuracy, confusion, mcc
from attlas.support.errors import MeasureError

Array = npt.NDArray[Any]
DRAWS = 2000


@dataclass(frozen=True)
class Score:
    """Matthews' correlation and accuracy on `n` texts, each with the 95 % interval of a bootstrap over texts.

    The interval is about which texts the test has; that fitting again would give another classifier is not in it.
    """

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

    Drawing texts with replacement is drawing cells of the confusion table, so the bootstrap is one multinomial draw each. The weight of one text is
    spread over the whole table, so that a classifier without a single error, or with a single guess, still has an interval.

    >>> score(["a", "b", "a", "b"], ["a", "b", "a", "a"]).accuracy
    0.75
    """
    known, said = np.asarray(labels), np.asarray(guesses)
    if known.shape != said.shape or known.ndim != 1 or not len(known):
        raise MeasureError(
            f"there are {len(known)} labels and {len(said)} guesses; give one guess for each of some labels"
        )
    names, codes = np.unique(np.concatenate([known, said]), return_inverse=True)
    n = len(known)
    table = confusion(codes[:n], codes[n:], len(names))
    shares = (table.reshape(-1) + 1 / table.size) / (n + 1)
    draws = np.random.default_rng(seed).multinomial(n, shares, size=DRAWS).reshape(-1, *table.shape)
    low, high = (np.quantile([mcc(draws), accuracy(draws)], share, axis=1) for share in (0.025, 0.975))
    ends = [float(end) for end in (low[0], high[0], low[1], high[1])]
    return Score(float(mcc(table)), ends[0], ends[1], float(accuracy(table)), ends[2], ends[3], n)


def difference(labels: Any, guesses: Any, others: Any, seed: int = 0) -> dict[str, float]:
    """How much better in MCC one classifier's guesses are than another's on the same texts: `mcc` and its 95 % interval, `low` to `high`.

    A bootstrap over texts that draws both guesses together.

    >>> difference(["a", "b"] * 50, ["a", "b"] * 50, ["a", "b"] * 50)
    {'mcc': 0.0, 'low': 0.0, 'high': 0.0}
    """
    parts = [np.asarray(part) for part in (labels, guesses, others)]
    if parts[0].ndim != 1 or not len(parts[0]) or any(part.shape != parts[0].shape for part in parts):
        raise MeasureError("labels, guesses and the others' guesses must be lists of one length, of at least one text")
    names, codes = np.unique(np.concatenate(parts), return_inverse=True)
    known, one, two = codes.reshape(3, -1)
    size, n = len(names), len(known)
    joint = np.bincount((known * size + one) * size + two, minlength=size**3)
    draws = np.random.default_rng(seed).multinomial(n, joint / n, size=DRAWS).reshape(-1, size, size, size)
    gaps = mcc(draws.sum(-1)) - mcc(draws.sum(-2))
    whole = joint.reshape(size, size, size)
    low, high = np.quantile(gaps, (0.025, 0.975))
    return {"mcc": float(mcc(whole.sum(-1)) - mcc(whole.sum(-2))), "low": float(low), "high": float(high)}
