"""Which head is best? One rule for ties, so that every table names the same head.

The highest score wins; in a tie the lower layer, then the lower head, then the first direction.
Where penalties are tried from strong to weak, the stronger one wins (`first_best`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attlas.support.arrays import Array, Ints


def best_first(scores: Array, layers: Array, heads: Array, directions: Array | None = None) -> Ints:
    """Order heads from best to worst, NaN last: the number of each, all arguments being [head].

    >>> best_first(np.array([1.0, 2.0, 2.0]), np.array([0, 1, 0]), np.array([0, 0, 5])).tolist()
    [2, 1, 0]
    """
    first = np.zeros(len(scores)) if directions is None else directions
    return np.lexsort((first, heads, layers, -np.asarray(scores, dtype=np.float64)))


def ranked_places(scores: Array) -> Ints:
    """Order the cells of a grid [layer, head] or [direction, layer, head]: flat, best first.

    >>> ranked_places(np.array([[0.1, 0.3], [0.3, 0.2]])).tolist()
    [1, 2, 3, 0]
    """
    direction, layer, head = np.indices((1,) * (3 - scores.ndim) + scores.shape).reshape(3, -1)
    return best_first(scores.reshape(-1), layer, head, direction)


def best(scores: Array) -> int:
    """The best cell of a grid [layer, head] or [direction, layer, head], as a flat number.

    >>> best(np.array([[[0.2, 0.5]], [[0.5, 0.1]]]))  # layer 0, head 0 of the second direction
    2
    """
    return int(ranked_places(scores)[0])


def first_best(scores: Sequence[float]) -> int:
    """The number of the highest score, the first among equals.

    >>> first_best([0.1, 0.4, 0.4])
    1
    """
    return int(np.argmax(np.asarray(scores, dtype=np.float64)))
