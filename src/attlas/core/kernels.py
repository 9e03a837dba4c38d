"""Compiled loops over rows of attention, for weights on the CPU; each has a plain twin in the tests.

They hold no lock (`nogil`) and start no threads: a study runs one text per worker thread, so the cores are busy anyway.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_LN2 = np.float32(np.log(2.0))
_SQRT_HALF_BITS = np.int32(np.float32(np.sqrt(0.5)).view(np.int32))
_THIRD, _FIFTH, _SEVENTH, _NINTH = (np.float32(1 / n) for n in (3, 5, 7, 9))


@intrinsic
def _bits(_context: Any, _value: Any) -> Any:
    """The bits of a float32 as an int32."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), code


@intrinsic
def _float(_context: Any, _value: Any) -> Any:
    """The float32 that has the bits of an int32."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), code


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def row_entropy(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Entropy of each row in nats: [row, key] -> [row].

    The logarithm is split as ln x = e ln 2 + ln m with m between sqrt(1/2) and sqrt(2), and ln m = 2 atanh((m-1)/(m+1)) by five terms
    of its series (absolute error below 1e-7), so that the loop is nothing but vector arithmetic: some twenty times as
    fast as `torch.special.entr` on one core. Runs of 64 keys are added up in float64, so that long rows lose nothing. A weight of exactly 0 adds 0.
    """
    out = np.empty(weights.shape[0], dtype=np.float32)
    one = np.float32(1)
    for row in range(weights.shape[0]):
        entropy = 0.0
        for start in range(0, weights.shape[1], 64):
            total = np.float32(0)
            for key in range(start, min(start + 64, weights.shape[1])):
                weight = weights[row, key]
                bits = _bits(weight)
                exponent = np.int32((bits - _SQRT_HALF_BITS) >> np.int32(23))
                mantissa = _float(np.int32(bits - np.int32(exponent << np.int32(23))))
                s = (mantissa - one) / (mantissa + one)
                q = s * s
                total -= weight * (
                    np.float32(exponent) * _LN2
                    + np.float32(2) * s * (one + q * (_THIRD + q * (_FIFTH + q * (_SEVENTH + q * _NINTH))))
                )
            entropy += float(total)
        out[row] = max(entropy, 0.0)
    return out


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def by_offset(weights: npt.NDArray[np.float32], reach: int) -> npt.NDArray[np.float32]:
    """Mean mass of a row at each offset from -reach to reach, all further left before and all further right after: [group, query, key] -> [group, 2 reach + 3]."""
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


@numba.njit(nogil=True, cache=True)
def top_cells(
    values: npt.NDArray[np.float32], positions: npt.NDArray[np.int64], k: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The k largest cells of each row, largest first and lowest position first among equals.

    `values` is [group, row, cell]; `positions` [group or 1, row or 1, cell] says which key each cell is, -1 for a cell that does
    not count. Where a row has fewer than k cells the rest is weight 0 at position -1.
    """
    groups, rows, cells = values.shape
    best = np.zeros((groups, rows, k), dtype=np.float32)
    where = np.full((groups, rows, k), -1, dtype=np.int64)
    for group in range(groups):
        for row in range(rows):
            place = positions[group if positions.shape[0] > 1 else 0, row if positions.shape[1] > 1 else 0]
            found = 0
            for cell in range(cells):
                position = place[cell]
                if position < 0:
                    continue
                value = values[group, row, cell]
                if found == k and (
                    value < best[group, row, k - 1]
                    or (value == best[group, row, k - 1] and position > where[group, row, k - 1])
                ):
                    continue
                slot = found if found < k else k - 1
                while slot > 0 and (
                    value > best[group, row, slot - 1]
                    or (value == best[group, row, slot - 1] and position < where[group, row, slot - 1])
                ):
                    best[group, row, slot] = best[group, row, slot - 1]
                    where[group, row, slot] = where[group, row, slot - 1]
                    slot -= 1
                best[group, row, slot] = value
                where[group, row, slot] = position
                found = min(found + 1, k)
    return best, where
