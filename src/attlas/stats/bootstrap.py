"""95% intervals of scores without a closed form (MCC, F1, differences): a bootstrap over texts.

Texts are drawn with replacement, with all their cases, 2,000 times. One more, unknown text can be
drawn: it has as many cases as a text has on average, all with the same random label (of those that
occur) and the same random guess. Without it, a classifier that is right on all of 20 texts would
have the interval [1, 1].

The interval covers the choice of test texts, not the variation of refitting the classifier.
Accuracy on independent texts does not need a bootstrap: its interval is Wilson's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from attlas.stats.intervals import wilson
from attlas.stats.scores import accuracy, codes_of, confusion, mcc
from attlas.support.arrays import Array
from attlas.support.errors import MeasureError

Statistic = Callable[[Array], Array]  # of confusion tables: [draw, label, guess] -> [draw]
DRAWS = 2000
AT_ONCE = 100  # draws whose tables are in memory


def bootstrap(
    labels: Array,
    guesses: Sequence[Array],
    classes: int,
    statistic: Statistic,
    *,
    texts: tuple[Array, int] | None = None,
    seed: int = 0,
) -> Array:
    """Compute a statistic of several classifiers on the same draws of texts: [classifier, draw].

    Labels and guesses are numbers below `classes`, one per case; a statistic takes confusion
    tables. `texts` is the text of each case and the number of texts; by default each case is one.
    """
    rng = np.random.default_rng(seed)
    of, times = _groups(labels, guesses) if texts is None else (texts[0], np.ones(texts[1], int))
    total, occurring = int(times.sum()), np.unique(labels)
    shares, size = np.append(times, 1) / (total + 1), len(labels) / total
    counts = [_counts(labels, each, classes, of, times, texts is None) for each in guesses]
    out = np.empty((len(guesses), DRAWS))
    for start in range(0, DRAWS, AT_ONCE):
        times_drawn = rng.multinomial(total, shares, size=AT_ONCE)
        draw = np.repeat(np.arange(AT_ONCE), times_drawn[:, -1])  # of each unknown text
        label = rng.choice(occurring, len(draw))
        for row, each in enumerate(counts):
            tables = (each.T @ times_drawn[:, :-1].T).T.reshape(-1, classes, classes)
            np.add.at(tables, (draw, label, rng.integers(classes, size=len(draw))), size)
            out[row, start : start + AT_ONCE] = statistic(tables)
    return out


def _groups(labels: Array, guesses: Sequence[Array]) -> tuple[Array, Array]:
    """Put cases with the same label and guesses in one group: the group of each, and the sizes."""
    joint = np.stack([labels, *guesses])
    _, of, times = np.unique(joint, axis=1, return_inverse=True, return_counts=True)
    return of.reshape(-1), times


def _counts(
    labels: Array, guesses: Array, classes: int, of: Array, times: Array, alone: bool
) -> csr_array:
    """The cells of the confusion table that one text of each group adds: [group, cell]."""
    share = 1 / times[of] if alone else np.ones(len(labels))
    cells = labels * classes + guesses
    return csr_array((share, (of, cells)), shape=(len(times), classes**2))


def ends(values: Array) -> tuple[float, float]:
    """The 95% interval of bootstrapped values, by percentiles.

    >>> ends(np.arange(201.0))
    (5.0, 195.0)
    """
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True)
class Score:
    """Matthews' correlation and accuracy on `n` texts, with their 95% intervals."""

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
    """Score guesses: the interval of MCC is a bootstrap's, that of accuracy Wilson's.

    >>> score(["a", "b", "a", "b"], ["a", "b", "a", "a"]).accuracy
    0.75
    """
    classes, (known, guessed) = _checked(labels, guesses)
    table = confusion(known, guessed, len(classes))
    low, high = ends(bootstrap(known, [guessed], len(classes), mcc, seed=seed)[0])
    right = float(accuracy(table))
    return Score(float(mcc(table)), low, high, right, *wilson(right, len(known)), len(known))


def difference(labels: Any, guesses: Any, others: Any, seed: int = 0) -> dict[str, float]:
    """The difference in MCC of two classifiers on the same texts, and its interval.

    >>> apart = difference(["a", "b"] * 50, ["a", "b"] * 50, ["a", "b"] * 50)
    >>> apart["mcc"], apart["low"] < 0 < apart["high"]
    (0.0, True)
    """
    classes, (known, one, two) = _checked(labels, guesses, others)
    reached = [float(mcc(confusion(known, each, len(classes)))) for each in (one, two)]
    first, second = bootstrap(known, [one, two], len(classes), mcc, seed=seed)
    low, high = ends(first - second)
    return {"mcc": reached[0] - reached[1], "low": low, "high": high}


def _checked(labels: Any, *guesses: Any) -> tuple[Array, list[Array]]:
    """Labels and guesses as class numbers; refused unless they are equally many."""
    parts = [np.asarray(part) for part in (labels, *guesses)]
    if any(part.ndim != 1 or part.shape != parts[0].shape for part in parts) or not len(parts[0]):
        shapes = ", ".join(str(part.shape) for part in parts)
        raise MeasureError(
            f"labels and guesses have the shapes {shapes}; give lists of one length, at least 1"
        )
    return codes_of(*parts)
