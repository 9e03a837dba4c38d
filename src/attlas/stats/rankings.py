"""How similar are two rankings? Rank-biased overlap, and the compiled loops behind `agreement`.

A ranking is `order`, the item at each position, best first, with `stops`, where the group of ties
that holds a position ends (the position after its last). The loops hold no lock and start no
threads, like those of `attlas.core.kernels`; each has a slow twin in the tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from attlas.stats.jit import numba
from attlas.support.arrays import Array, Floats, Ints
from attlas.support.errors import MeasureError

TIES = ("w", "a", "b")
_W, _A, _B = range(3)  # numbers of TIES
# stages of an item: its group of ties is still to come, is being read, has been read
_AHEAD, _OPEN, _PAST = range(3)
_NOTHING = 1e-18  # a weight that changes no float64 between 0 and 1


def rbo(left: Any, right: Any, p: float = 0.9, ties: str = "a") -> float:
    """Extrapolated rank-biased overlap of two rankings, from 0 to 1.

    After Webber, Moffat and Zobel (2010), equation 32; the weight of depth d is (1 - p) p^(d - 1).
    `left` and `right` are scores of the same items (floats, the highest is best), or ranked lists
    of items, best first, in which a set, tuple or list is a group of ties; lists may differ in
    length and in items.

    Ties as in Corsi and Urbano (2024): `w` counts a group in full as soon as it begins, `a` is the
    mean over all orders of the tied items, `b` divides `a` by what ties take from each ranking, so
    that a ranking agrees with itself by 1. The default is `a`: equal scores do not order tokens, so
    they must not count as agreement. (Past the end of a shorter list, an item that it does not have
    counts in the longer list's ties by its mean share, as in that paper; only this is not exactly
    the mean over orders.)

    >>> round(rbo([1, 2, 3, 4, 5], [2, 3, 4, 1, 5]), 3)
    0.828
    >>> round(rbo(["red", {"blue", "green"}, "pink"], ["red", "blue", "pink", "green"]), 4)
    0.9505
    >>> round(rbo([0.5, 0.3, 0.2], [0.6, 0.1, 0.3]), 3)
    0.955
    """
    if not 0 < p < 1:
        raise MeasureError(
            f"p is {p}; it must be above 0 and below 1 (0.9 gives the first ten items most weight)"
        )
    if ties not in TIES:
        raise MeasureError(f"ties is {ties!r}; it must be {' or '.join(TIES)}")
    (short, short_stops), (long, long_stops), items = _rankings(
        _plain(left, "left"), _plain(right, "right")
    )
    if len(short) > len(long):
        short, short_stops, long, long_stops = long, long_stops, short, short_stops
    return float(overlap(short, short_stops, long, long_stops, items, float(p), TIES.index(ties)))


def ranked(scores: Floats) -> tuple[Ints, Ints]:
    """Rank scores without NaN, the highest first, ties in their order: `order` and `stops`.

    >>> order, stops = ranked(np.array([0.1, 0.7, 0.1]))
    >>> order.tolist(), stops.tolist()
    ([1, 0, 2], [1, 3, 3])
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(scores))
    return order, np.repeat(ends, np.diff(ends, prepend=0))


def _plain(given: Any, name: str) -> list[Any]:
    """A ranking as a list, whatever it came as."""
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise MeasureError(
            f"{name} is a {type(given).__name__}; give a list of scores, or of items, best first"
        )
    if isinstance(given, set | frozenset):
        raise MeasureError(
            f"{name} is a set, which has no order; give a list, in which a set is a group of ties"
        )
    entries = given.tolist() if hasattr(given, "tolist") else list(given)
    if not isinstance(entries, list) or not entries:
        raise MeasureError(f"{name} is empty; rbo needs at least one item in each ranking")
    return entries


def _rankings(
    left: list[Any], right: list[Any]
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints], int]:
    """Both rankings with items as numbers, and how many items there are in all."""
    if _are_scores(left) != _are_scores(right):
        raise MeasureError(
            "one of left and right has scores (floats), the other items; give two of a kind"
        )
    if _are_scores(left):
        return _of_scores(left, "left"), _of_scores(right, "right", len(left)), len(left)
    numbers: dict[Hashable, int] = {}
    return _of_items(left, "left", numbers), _of_items(right, "right", numbers), len(numbers)


def _are_scores(entries: list[Any]) -> bool:
    return any(isinstance(entry, float | np.floating) for entry in entries) and all(
        isinstance(entry, int | float | np.number) for entry in entries
    )


def _of_scores(entries: list[Any], name: str, expected: int | None = None) -> tuple[Ints, Ints]:
    scores = np.array(entries, dtype=np.float64)
    if expected not in (None, len(scores)):
        raise MeasureError(
            f"left has {expected} scores and right {len(scores)}; give one score per item in both"
        )
    if np.isnan(scores).any():
        raise MeasureError(
            f"score {int(np.isnan(scores).argmax())} of {name} is NaN; remove the item from both"
        )
    return ranked(scores)


def _of_items(entries: list[Any], name: str, numbers: dict[Hashable, int]) -> tuple[Ints, Ints]:
    """A ranked list of items and groups of tied items; new items get the next numbers."""
    order: list[int] = []
    stops: list[int] = []
    for entry in entries:
        group = list(entry) if isinstance(entry, set | frozenset | tuple | list) else [entry]
        if not group:
            raise MeasureError(f"{name} has an empty group of ties; remove it")
        for item in group:
            if not isinstance(item, Hashable):
                raise MeasureError(
                    f"{name} has an item of type {type(item).__name__}; use strings or numbers"
                )
            order.append(numbers.setdefault(item, len(numbers)))
        stops += [len(order)] * len(group)
    if len(set(order)) < len(order):
        known = list(numbers)
        twice = next(known[item] for at, item in enumerate(order) if item in order[:at])
        raise MeasureError(
            f"{name} ranks {twice!r} twice; rank each item once (if these are scores, use floats)"
        )
    return np.array(order, dtype=np.int64), np.array(stops, dtype=np.int64)


@numba.njit(nogil=True, cache=True)
def _advance(order: Ints, start: int, stop: int, stages: Array, counts: Ints, step: int) -> None:
    """Move the items from start to stop of one ranking to their next stage, and update counts."""
    for position in range(start, stop):
        item = order[position]
        counts[stages[item]] -= 1
        stages[item] += step
        counts[stages[item]] += 1


@numba.njit(nogil=True, cache=True)
def overlap(
    left: Ints, left_stops: Ints, right: Ints, right_stops: Ints, items: int, p: float, ties: int
) -> float:
    """Rank-biased overlap of rankings of numbers below `items`, the left no longer than the right.

    `ties` is an index into TIES. Items only move from ahead to open to past, so all overlaps
    together cost one step per item and stage, and are exact.
    """
    short, long = left.size, right.size
    stages = np.zeros(items, dtype=np.int8)  # of each item: 3 x stage on the left + on the right
    counts = np.zeros(9, dtype=np.int64)
    counts[0] = items
    pairs = counts.reshape((3, 3))  # the same: stage on the left, stage on the right
    left_start = left_stop = right_start = right_stop = 0
    total, weight, at_short = 0.0, 1.0, 0.0
    for depth in range(1, long + 1):
        if left_stop < depth <= short:
            _advance(left, left_start, left_stop, stages, counts, 3)
            left_start, left_stop = left_stop, left_stops[left_stop]
            _advance(left, left_start, left_stop, stages, counts, 3)
        if right_stop < depth:
            _advance(right, right_start, right_stop, stages, counts, 1)
            right_start, right_stop = right_stop, right_stops[right_stop]
            _advance(right, right_start, right_stop, stages, counts, 1)
        share_left = share_right = 1.0
        if ties != _W:
            share_left = min(1.0, (depth - left_start) / (left_stop - left_start))
            share_right = (depth - right_start) / (right_stop - right_start)
        common = (
            pairs[_PAST, _PAST]
            + share_left * pairs[_OPEN, _PAST]
            + share_right * (pairs[_PAST, _OPEN] + share_left * pairs[_OPEN, _OPEN])
        )
        if depth > short:
            full, part = pairs[_AHEAD, _PAST], pairs[_AHEAD, _OPEN]
            common += (depth - short) * at_short * (full + share_right * part) / (full + part)
        size = float(depth)
        if ties == _W:
            size = ((left_stop if depth <= short else depth) + right_stop) / 2
        elif ties == _B:
            of_left = float(depth)
            if depth <= short:
                of_left = left_start + share_left**2 * (left_stop - left_start)
            size = np.sqrt(of_left * (right_start + share_right**2 * (right_stop - right_start)))
        if depth <= short:
            at_short = common / size
        total += (1 - p) * weight * common / size
        weight *= p
        if weight < _NOTHING:
            return min(1.0, total)
    both = pairs[_OPEN, _OPEN] + pairs[_OPEN, _PAST] + pairs[_PAST, _OPEN] + pairs[_PAST, _PAST]
    return min(1.0, total + weight * (both + (long - short) * at_short) / long)


@numba.njit(nogil=True, cache=True)
def surplus(
    positions: Ints, left_stops: Ints, right_starts: Ints, right_stops: Ints, tree: Ints
) -> int:
    """Concordant minus discordant pairs; item i of the left is at `positions[i]` on the right.

    As fast as Knight's (1966) merge sort, n log n, but with a tree of running counts (Fenwick
    1994), in which ties need no second sort: the items of a group on the left are first all looked
    up, then all entered. `tree` has n + 1 cells and is overwritten.
    """
    pairs, start = 0, 0
    tree[:] = 0
    while start < positions.size:
        stop = left_stops[start]
        for item in range(start, stop):
            position = positions[item]
            better = _entered_before(tree, right_starts[position])
            same = 0
            if right_stops[position] - right_starts[position] > 1:
                same = _entered_before(tree, right_stops[position]) - better
            pairs += 2 * better + same - start
        for item in range(start, stop):
            cell = right_starts[positions[item]] + 1
            while cell < tree.size:
                tree[cell] += 1
                cell += cell & -cell
        start = stop
    return pairs


@numba.njit(nogil=True, cache=True)
def _entered_before(tree: Ints, position: int) -> int:
    """How many entries of a tree of running counts are before this position."""
    count = 0
    while position > 0:
        count += tree[position]
        position &= position - 1
    return count


@numba.njit(nogil=True, cache=True)
def _untied_pairs(stops: Ints) -> int:
    """How many pairs of a ranking are not tied."""
    pairs, start = 0, 0
    while start < stops.size:
        pairs += (stops[start] - start) * (stops.size - stops[start])
        start = stops[start]
    return pairs


@numba.njit(nogil=True, cache=True)
def starts_of(stops: Ints) -> Ints:
    """Where the group of ties that holds each position begins."""
    starts = np.empty_like(stops)
    start = 0
    for position in range(stops.size):
        if position == stops[start]:
            start = position
        starts[position] = start
    return starts


@numba.njit(nogil=True, cache=True)
def cosine(left: Floats, right: Floats, positions: Ints) -> float:
    """The cosine of values on the left with those at `positions` on the right; NaN if all are 0."""
    product = left_square = right_square = 0.0
    for item in range(positions.size):
        one, two = left[item], right[positions[item]]
        product += one * two
        left_square += one * one
        right_square += two * two
    squares = left_square * right_square
    return product / np.sqrt(squares) if squares > 0 else np.nan


@numba.njit(nogil=True, cache=True)
def jaccard(top_left: int, top_right: int, positions: Ints) -> float:
    """The share of the items in either top that is in both; NaN if both tops are empty."""
    both = 0
    for item in range(top_left):
        both += positions[item] < top_right
    return both / (top_left + top_right - both) if top_left + top_right > 0 else np.nan


@numba.njit(nogil=True, cache=True)
def taus(left_stops: Ints, right_stops: Ints, rows: Ints) -> Floats:
    """Kendall's tau-b of each pairing of two rankings, with `rows` as in `sound`: [row]."""
    out = np.empty(rows.shape[0])
    starts, tree = starts_of(right_stops), np.empty(left_stops.size + 1, dtype=np.int64)
    scale = np.sqrt(float(_untied_pairs(left_stops)) * float(_untied_pairs(right_stops)))
    for row in range(rows.shape[0]):
        pairs = surplus(rows[row], left_stops, starts, right_stops, tree)
        out[row] = pairs / scale if scale > 0 else np.nan
    return out


@numba.njit(nogil=True, cache=True)
def sound(
    left: Floats,
    right: Floats,
    left_stops: Ints,
    right_stops: Ints,
    tops: tuple[int, int],
    p: float,
    rows: Ints,
) -> Floats:
    """Cosine, tau-b, overlap and Jaccard of each pairing of two rankings: [row, metric].

    `left` and `right` are values, the highest first; `rows` [row, item] has the position on the
    right of each item of the left.
    """
    n = left.size
    out = np.empty((rows.shape[0], 4))
    numbers = np.arange(n)
    out[:, 1] = taus(left_stops, right_stops, rows)
    for row in range(rows.shape[0]):
        positions = rows[row]
        out[row, 0] = cosine(left, right, positions)
        out[row, 2] = overlap(numbers, left_stops, ranks_of(positions), right_stops, n, p, _A)
        out[row, 3] = jaccard(tops[0], tops[1], positions)
    return out


@numba.njit(nogil=True, cache=True)
def ranks_of(order: Ints) -> Ints:
    """The position of each item in an order."""
    ranks = np.empty_like(order)
    for position in range(order.size):
        ranks[order[position]] = position
    return ranks
