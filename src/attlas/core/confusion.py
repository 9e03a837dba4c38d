"""Confusion tables and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def confusion(labels: Array, guesses: Array, classes: int) -> Array:
    """How often each label got each guess, from numbers below `classes`: [label, guess].

    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2)
    array([[1, 0],
           [1, 1]])
    """
    return np.bincount(labels * classes + guesses, minlength=classes**2).reshape(classes, classes)


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
