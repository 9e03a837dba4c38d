"""The ranking of Hou 2022: ties in the order in which numpy 1.21 leaves them."""

from __future__ import annotations

import numpy as np

from attlas.stats.jit import numba
from attlas.stats.rankings import cosine, jaccard, ranks_of, surplus
from attlas.support.arrays import Floats, Ints

_RUN = 16  # numpy's quicksort leaves runs of at most 17 to insertion sort


@numba.njit(nogil=True, cache=True)
def published(
    left: Floats, right: Floats, where: Ints, size: int, tops: tuple[int, int], rows: Ints
) -> Floats:
    """The four metrics over all `size` positions, with zeros outside `where`: [row, metric].

    `where` is the position of the item at each rank on the left. Tau has no ties then, and overlap
    is the mean over all depths.
    """
    out = np.empty((rows.shape[0], 4))
    one, two = np.zeros(size), np.zeros(size)
    for item in range(where.size):
        one[where[item]] = left[item]
    first, singles, starts = ranks_of(descending(one)), np.arange(1, size + 1), np.arange(size)
    right_ranks, tree = np.empty(size, dtype=np.int64), np.empty(size + 1, dtype=np.int64)
    for row in range(rows.shape[0]):
        for item in range(where.size):
            two[where[item]] = right[rows[row, item]]
        second = ranks_of(descending(two))
        for position in range(size):
            right_ranks[first[position]] = second[position]
        out[row, 0] = cosine(left, right, rows[row])
        out[row, 1] = surplus(right_ranks, singles, starts, singles, tree) / (size * (size - 1) / 2)
        out[row, 2] = _mean_overlap(right_ranks, tree)
        out[row, 3] = jaccard(tops[0], tops[1], rows[row])
    return out


@numba.njit(nogil=True, cache=True)
def _mean_overlap(right_ranks: Ints, deepest: Ints) -> float:
    """The mean over all depths of the overlap of two rankings without ties: p = 1."""
    n = right_ranks.size
    deepest[:] = 0
    for item in range(n):
        deepest[max(item, right_ranks[item])] += 1
    common, total = 0, 0.0
    for depth in range(1, n + 1):
        common += deepest[depth - 1]
        total += common / depth
    return total / n


@numba.njit(nogil=True, cache=True)
def descending(values: Floats) -> Ints:
    """The order of values, the highest first, with ties as in numpy 1.21 on any machine.

    `values.argsort()[::-1]` is not stable there: a quicksort (Hoare) around the median of the
    first, middle and last value, which is moved next to last, with insertion sort for short runs
    (and heapsort for degenerate ones, which is omitted here). So which of many zeros comes first
    depends on all other values. Later numpy does this only for types without vector instructions;
    for float64 it depends on the processor.
    """
    order = np.arange(values.size)
    waiting = [(0, values.size - 1)]
    while len(waiting) > 0:
        first, last = waiting.pop()
        if last - first < _RUN:
            _insert(values, order, first, last)
        else:
            split = _split(values, order, first, last)
            waiting.append((first, split - 1))
            waiting.append((split + 1, last))
    return order[::-1].copy()


@numba.njit(nogil=True, cache=True)
def _split(values: Floats, order: Ints, first: int, last: int) -> int:
    """Move a pivot to its final position, lower values before it, higher ones after it."""
    middle = first + (last - first) // 2
    for low, high in ((first, middle), (middle, last), (first, middle)):
        if values[order[high]] < values[order[low]]:
            order[low], order[high] = order[high], order[low]
    pivot = values[order[middle]]
    order[middle], order[last - 1] = order[last - 1], order[middle]
    up, down = first + 1, last - 2
    while True:
        while values[order[up]] < pivot:
            up += 1
        while pivot < values[order[down]]:
            down -= 1
        if up >= down:
            break
        order[up], order[down] = order[down], order[up]
        up, down = up + 1, down - 1
    order[up], order[last - 1] = order[last - 1], order[up]
    return up


@numba.njit(nogil=True, cache=True)
def _insert(values: Floats, order: Ints, first: int, last: int) -> None:
    """Sort the order from first to last by insertion."""
    for start in range(first + 1, last + 1):
        item, slot = order[start], start
        while slot > first and values[item] < values[order[slot - 1]]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = item
