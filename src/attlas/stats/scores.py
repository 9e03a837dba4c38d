"""Confusion tables and the scores that follow from them, for any number of classes.

A table is [..., label, guess]; all scores take one table or many at once. A score of each class is
[..., class]; `macro` averages it over the classes that have cases, as scikit-learn does with
`labels=np.unique(labels)` and `zero_division=0`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attlas.support.arrays import Array


def codes_of(*answers: Any) -> tuple[Array, list[Array]]:
    """Find all classes that occur, in order, and the number of each answer's class.

    >>> classes, (labels, guesses) = codes_of(["b", "a"], ["b", "c"])
    >>> classes.tolist(), labels.tolist(), guesses.tolist()
    (['a', 'b', 'c'], [1, 0], [1, 2])
    """
    parts = [np.asarray(part) for part in answers]
    classes, codes = np.unique(np.concatenate(parts), return_inverse=True)
    return classes, np.split(codes, np.cumsum([len(part) for part in parts])[:-1])


def confusion(labels: Array, guesses: Array, classes: int) -> Array:
    """Count how often each label got each guess, from numbers below `classes`: [label, guess].

    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2)
    array([[1, 0],
           [1, 1]])
    """
    return np.bincount(labels * classes + guesses, minlength=classes**2).reshape(classes, classes)


def mcc(table: Array) -> Array:
    """Matthews' correlation; 0 where only one label or guess occurs.

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
    """The share of cases whose guess is their label: [...]."""
    return np.trace(table, axis1=-2, axis2=-1) / table.sum((-1, -2))


def precision(table: Array) -> Array:
    """The share of the guesses of each class that are right, 0 without a guess: [..., class]."""
    return _share(_right(table), table.sum(-2))


def recall(table: Array) -> Array:
    """The share of the cases of each class that are guessed, 0 without a case: [..., class]."""
    return _share(_right(table), table.sum(-1))


def f1(table: Array) -> Array:
    """The harmonic mean of precision and recall of each class: [..., class].

    >>> f1(np.array([[1, 1], [0, 2]])).round(3)
    array([0.667, 0.8  ])
    """
    return _share(2 * _right(table), table.sum(-1) + table.sum(-2))


def macro(by_class: Array, table: Array) -> Array:
    """The mean of a score over the classes that have cases; NaN if none has: [...]."""
    has_cases = table.sum(-1) > 0
    return _share((by_class * has_cases).sum(-1), has_cases.sum(-1), np.nan)


def macro_f1(table: Array) -> Array:
    """The mean F1 of the classes that have cases: [...]."""
    return macro(f1(table), table)


def balanced_accuracy(table: Array) -> Array:
    """The mean recall of the classes that have cases, which count equally: [...].

    >>> float(balanced_accuracy(np.array([[3, 1], [0, 1]])))
    0.875
    """
    return macro(recall(table), table)


def retrieval_scores(right: Any, predicted: Any, hit: Any, wanted: Any) -> dict[str, Any]:
    """Precision, recall and F1 of predicted items; 0 where there is nothing to divide by.

    `right` of the predicted items are among the wanted ones, and `hit` of the wanted ones were
    predicted: these may differ where several predictions match one item. Counts are numbers, or
    arrays of one shape.

    >>> retrieval_scores(1, 2, 1, 4)["recall"]
    0.25
    """
    right, predicted, hit, wanted = map(np.asarray, (right, predicted, hit, wanted))
    scores = {
        "precision": _share(right, predicted),
        "recall": _share(hit, wanted),
        "f1": _share(2 * right * hit, right * wanted + hit * predicted),
    }
    return {name: one if one.ndim else float(one) for name, one in scores.items()}


def majority_share(labels: Any) -> float:
    """The accuracy of always guessing the most frequent label.

    >>> majority_share(["a", "b", "a", "a"])
    0.75
    """
    return float(np.unique(np.asarray(labels), return_counts=True)[1].max() / len(labels))


def _right(table: Array) -> Array:
    return np.diagonal(table, axis1=-2, axis2=-1)


def _share(part: Array, whole: Array, undefined: float = 0.0) -> Array:
    out = np.full(np.shape(whole), undefined)
    return np.divide(part, whole, out=out, where=np.asarray(whole) > 0)


def mcc_and_accuracy(labels: Any, logits: Any) -> dict[str, float]:
    """Matthews' correlation and accuracy of the most likely labels.

    >>> mcc_and_accuracy([0, 1], [[2.0, 1.0], [0.0, 3.0]])
    {'mcc': 1.0, 'accuracy': 1.0}
    """
    scores = np.asarray(logits[0] if isinstance(logits, tuple) else logits)
    return scores_of(np.asarray(labels), scores.argmax(-1), scores.shape[-1])


def scores_of(labels: Array, guesses: Array, classes: int) -> dict[str, float]:
    """Matthews' correlation and accuracy of guesses."""
    table = confusion(labels, guesses, classes)
    return {"mcc": float(mcc(table)), "accuracy": float(accuracy(table))}
