"""Numbers of heads joined to one, each head weighing the same or as much as it is important."""

from __future__ import annotations

import numpy as np
import pandas as pd

from attlas.support.arrays import Array, Floats
from attlas.support.errors import MeasureError


def scaled(values: Array, importance: Array) -> Floats:
    """The mean of [layer, head, ...] over layers and heads, weighted by importance [layer, head].

    >>> scaled(np.array([[[1.0, 3.0], [5.0, 5.0]]]), np.array([[1.0, 0.0]]))
    array([1., 3.])
    """
    weights = np.asarray(importance, dtype=np.float64)
    if not weights.sum() > 0:
        raise MeasureError("no head has an importance above 0; there is nothing to scale by")
    return np.tensordot(weights / weights.sum(), np.asarray(values, dtype=np.float64), axes=2)


def importance_of(table: pd.DataFrame, column: str = "importance") -> Floats:
    """A column of the table `importance` as [layer, head]."""
    return table.pivot(index="layer", columns="head", values=column).to_numpy(dtype=np.float64)


def received_by(
    values: Array,
    layer: int | None = None,
    head: int | None = None,
    importance: Array | None = None,
) -> Array:
    """Attention received in a layer, a head, or all: [layer, head, token] -> [token].

    The mean over heads is weighted by importance if that is given.
    """
    chosen = values if layer is None else values[layer : layer + 1]
    chosen = chosen if head is None else chosen[:, head : head + 1]
    if importance is None:
        return chosen.mean((0, 1))
    weights = importance if layer is None else importance[layer : layer + 1]
    return scaled(chosen, weights if head is None else weights[:, head : head + 1])
