"""Compiled loops over rows of attention on the CPU; each has a plain twin in the tests.

They hold no lock (`nogil`) and start no threads: a study has its own worker threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from attlas.stats.jit import numba
from attlas.support.arrays import Array, Floats, Floats32, Ints

_LN2 = np.float32(np.log(2.0))
_SQRT_HALF_BITS = np.int32(np.float32(np.sqrt(0.5)).view(np.int32))
_THIRD, _FIFTH, _SEVENTH, _NINTH = (np.float32(1 / n) for n in (3, 5, 7, 9))


@numba.extending.intrinsic
def _bits(_context: Any, _value: Any) -> Any:
    """The bits of a float32 as an int32."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return numba.types.int32(numba.types.float32), code


@numba.extending.intrinsic
def _float(_context: Any, _value: Any) -> Any:
    """The float32 that has the bits of an int32."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return numba.types.float32(numba.types.int32), code


_FAST = {"reassoc", "contract", "arcp", "nsz"}
_RUN = 64  # keys added up in float32 before they go to float64, so that long rows stay exact


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=_FAST, inline="always")
def _x_log_x(x: np.float32) -> np.float32:
    """x ln x, 0 where x is 0.

    ln x = e ln 2 + ln m with m between sqrt(1/2) and sqrt(2), and ln m = 2 atanh((m-1)/(m+1)) by
    five terms of its series (absolute error below 1e-7), so that loops are vector arithmetic.
    """
    bits = _bits(x)
    exponent = np.int32((bits - _SQRT_HALF_BITS) >> np.int32(23))
    mantissa = _float(np.int32(bits - np.int32(exponent << np.int32(23))))
    s = (mantissa - np.float32(1)) / (mantissa + np.float32(1))
    q = s * s
    return x * (
        np.float32(exponent) * _LN2
        + np.float32(2)
        * s
        * (np.float32(1) + q * (_THIRD + q * (_FIFTH + q * (_SEVENTH + q * _NINTH))))
    )


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=_FAST)
def row_entropy(weights: Floats32) -> Floats32:
    """Entropy of each row in nats: [row, key] -> [row]; about 20 times as fast as torch's."""
    out = np.empty(weights.shape[0], dtype=np.float32)
    for row in range(weights.shape[0]):
        entropy = 0.0
        for start in range(0, weights.shape[1], _RUN):
            total = np.float32(0)
            for key in range(start, min(start + _RUN, weights.shape[1])):
                total -= _x_log_x(weights[row, key])
            entropy += float(total)
        out[row] = max(entropy, 0.0)
    return out


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=_FAST)
def add_divergences(
    total: Floats,
    left: Floats32,
    right: Floats32,
    same: bool,
    smoothing: np.float32,
    even: np.float32,
) -> None:
    """Add the Jensen-Shannon divergence in nats of every pair of heads, summed over rows.

    `left` and `right` are [head, row, cell]. The sum over cells of half of
    a ln a + b ln b - (a + b) ln((a + b) / 2); a cell without a key adds 0. A row's heads are copied
    side by side, which fits a cache; only the mixture is computed for every pair, the rest once per
    head. If both are the `same`, only left < right is computed. With `smoothing` a weight becomes
    (1 - smoothing) weight + smoothing x even.
    """
    cells = left.shape[2]
    rows_left = np.empty((left.shape[0], cells), dtype=np.float32)
    rows_right = rows_left if same else np.empty((right.shape[0], cells), dtype=np.float32)
    own_left, own_right = np.empty(left.shape[0]), np.empty(right.shape[0])
    for row in range(left.shape[1]):
        _own(left, row, smoothing, even, rows_left, own_left)
        if same:
            own_right = own_left
        else:
            _own(right, row, smoothing, even, rows_right, own_right)
        for a in range(len(rows_left)):
            mine = rows_left[a]
            for b in range(a + 1 if same else 0, len(rows_right)):
                other = rows_right[b]
                mixed = 0.0
                for start in range(0, cells, _RUN):
                    part = np.float32(0)
                    for cell in range(start, min(start + _RUN, cells)):
                        part += _x_log_x(mine[cell] + other[cell])
                    mixed += float(part)
                total[a, b] += 0.5 * (own_left[a] + own_right[b] - mixed)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=_FAST)
def _own(
    weights: Floats32,
    row: int,
    smoothing: np.float32,
    even: np.float32,
    out: Floats32,
    own: Floats,
) -> None:
    """Copy a row of every head to [head, cell], and give for each the sum of w ln w + w ln 2."""
    for head in range(weights.shape[0]):
        total, mass = 0.0, 0.0
        for start in range(0, weights.shape[2], _RUN):
            part, some = np.float32(0), np.float32(0)
            for cell in range(start, min(start + _RUN, weights.shape[2])):
                weight = weights[head, row, cell] * (np.float32(1) - smoothing) + smoothing * even
                out[head, cell] = weight
                part += _x_log_x(weight)
                some += weight
            total += float(part)
            mass += float(some)
        own[head] = total + mass * np.log(2.0)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def by_offset(weights: Floats32, reach: int) -> Floats32:
    """Mean mass of a row at each offset up to `reach`, first further left, last further right.

    [group, query, key] -> [group, 2 reach + 3].
    """
    groups, n, _ = weights.shape
    out = np.zeros((groups, 2 * reach + 3))
    for group in range(groups):
        for query in range(n):
            first, stop = max(0, query - reach), min(n, query + reach + 1)
            left, right = np.float32(0), np.float32(0)
            for key in range(first):
                left += weights[group, query, key]
            for key in range(stop, n):
                right += weights[group, query, key]
            out[group, 0] += left
            out[group, -1] += right
            for key in range(first, stop):
                out[group, 1 + reach + key - query] += weights[group, query, key]
    return (out / n).astype(np.float32)


@numba.njit(nogil=True, cache=True, inline="always")
def offer(best: Any, where: Any, found: Any, value: Any, position: Any, k: Any) -> Any:
    """Put a cell into a list of the k largest, lowest position first among equals; its length."""
    if found == k and (value < best[k - 1] or (value == best[k - 1] and position > where[k - 1])):
        return found
    slot = found if found < k else k - 1
    while slot > 0 and (
        value > best[slot - 1] or (value == best[slot - 1] and position < where[slot - 1])
    ):
        best[slot] = best[slot - 1]
        where[slot] = where[slot - 1]
        slot -= 1
    best[slot] = value
    where[slot] = position
    return min(found + 1, k)


@numba.njit(nogil=True, cache=True)
def top_cells(values: Floats32, positions: Ints, k: int) -> tuple[Floats32, Ints]:
    """The k largest cells of each row, largest first and lowest position first among equals.

    `values` is [group, row, cell]; `positions` [group or 1, row or 1, cell] is each cell's key, -1
    if it does not count. Where a row has fewer than k cells, weight 0 at position -1.
    """
    groups, rows, cells = values.shape
    best = np.zeros((groups, rows, k), dtype=np.float32)
    where = np.full((groups, rows, k), -1, dtype=np.int64)
    for group in range(groups):
        for row in range(rows):
            keys = positions[
                group if positions.shape[0] > 1 else 0, row if positions.shape[1] > 1 else 0
            ]
            largest, at, found = best[group, row], where[group, row], 0
            for cell in range(cells):
                if keys[cell] >= 0:
                    found = offer(largest, at, found, values[group, row, cell], keys[cell], k)
    return best, where


@numba.njit(nogil=True, cache=True)
def add_moments(
    count: Floats,
    mean: Floats,
    squares: Floats,
    values: Array,
) -> None:
    """Add values [text, cell] to the moments of each cell, in place (Chan et al. 1979)."""
    for cell in range(values.shape[1]):
        number, total = 0, 0.0
        for text in range(values.shape[0]):
            if np.isfinite(values[text, cell]):
                number += 1
                total += values[text, cell]
        if number == 0:
            continue
        centre, spread = total / number, 0.0
        for text in range(values.shape[0]):
            if np.isfinite(values[text, cell]):
                spread += (values[text, cell] - centre) ** 2
        share = number / (count[cell] + number)
        delta = centre - mean[cell]
        squares[cell] += spread + delta**2 * count[cell] * share
        mean[cell] += delta * share
        count[cell] += number


@numba.njit(nogil=True, cache=True)
def add_weighted(total: Floats, drawn: Floats, values: Array, weights: Floats) -> None:
    """Add values [text, head, column], each as often as its text is drawn, in place.

    `weights` are [text, replicate], `total` [head, column, replicate] and `drawn`, how many texts
    that is, [column, replicate]. A text that has no value for one head counts for none.
    """
    n_heads, n_columns, n_replicates = total.shape
    for column in range(n_columns):
        for text in range(values.shape[0]):
            there = True
            for head in range(n_heads):
                there = there and np.isfinite(values[text, head, column])
            if not there:
                continue
            for replicate in range(n_replicates):
                drawn[column, replicate] += weights[text, replicate]
            for head in range(n_heads):
                value = float(values[text, head, column])
                for replicate in range(n_replicates):
                    total[head, column, replicate] += value * weights[text, replicate]


@numba.njit(nogil=True, cache=True)
def add_histogram(counts: Ints, values: Array, low: float, high: float) -> None:
    """Count values [row, value] in equal bins of [low, high], in place; others in the end bins."""
    bins = counts.shape[1]
    scale = bins / (high - low)
    for row in range(values.shape[0]):
        for number in range(values.shape[1]):
            value = values[row, number]
            if np.isfinite(value):
                counts[
                    row,
                    min(max(int(min(max((value - low) * scale, 0.0), float(bins))), 0), bins - 1),
                ] += 1


@numba.njit(nogil=True, cache=True)
def add_top(
    scores: Floats,
    indices: Ints,
    offered: Array,
    at: Ints,
) -> None:
    """Offer scores [text, cell] to each cell's list, in place; lower index first among equals."""
    size = scores.shape[1]
    for text in range(offered.shape[0]):
        for cell in range(offered.shape[1]):
            score = offered[text, cell]
            if not np.isfinite(score):
                continue
            slot = size
            while slot > 0 and (
                score > scores[cell, slot - 1]
                or (score == scores[cell, slot - 1] and at[text] < indices[cell, slot - 1])
            ):
                slot -= 1
            for later in range(size - 1, slot, -1):
                scores[cell, later] = scores[cell, later - 1]
                indices[cell, later] = indices[cell, later - 1]
            if slot < size:
                scores[cell, slot] = score
                indices[cell, slot] = at[text]
