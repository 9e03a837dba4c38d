"""Sums over attention weights (numba, no GIL, one thread)."""

from __future__ import annotations

from typing import Any

import numpy as np

from attlas.stats.jit import numba
from attlas.support.arrays import Array


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})
def dense_sums(weights: Array) -> tuple[Array, Array, Array]:
    """Sums over square matrices [graph, n, n] in double precision.

    Of squares [graph]; of the cells one left of, on and one right of the diagonal [graph, 3]; of
    columns [graph, n].
    """
    graphs, n = weights.shape[0], weights.shape[1]
    squares, near, received = np.zeros(graphs), np.zeros((graphs, 3)), np.zeros((graphs, n))
    for graph in range(graphs):
        column = received[graph]
        total = 0.0
        for query in range(n):
            row = weights[graph, query]
            for cell in range(n):
                value = np.float64(row[cell])
                total += value * value
                column[cell] += value
            for offset in range(-1, 2):
                if 0 <= query + offset < n:
                    near[graph, offset + 1] += row[query + offset]
        squares[graph] = total
    return squares, near, received


@numba.njit(nogil=True, cache=True)
def _add(sums: tuple[Array, Array, Array], graph: int, query: int, key: int, cell: Any) -> None:
    squares, near, received = sums
    value = np.float64(cell)
    squares[graph] += value * value
    received[graph, key] += value
    if -1 <= key - query <= 1:
        near[graph, key - query + 1] += value


@numba.njit(nogil=True, cache=True)
def band_sums(
    band: Array, columns: Array, rows: Array, positions: Array
) -> tuple[Array, Array, Array]:
    """The sums of `dense_sums` for a band with global columns and rows."""
    graphs, n, width = band.shape
    reach = width // 2
    sums = np.zeros(graphs), np.zeros((graphs, 3)), np.zeros((graphs, n))
    for graph in range(graphs):
        for query in range(n):
            for key in range(max(0, query - reach), min(n, query + reach + 1)):
                _add(sums, graph, query, key, band[graph, query, key - query + reach])
            for number in range(positions.shape[1]):
                _add(sums, graph, query, positions[graph, number], columns[graph, query, number])
        for number in range(positions.shape[1]):
            for key in range(n):
                _add(sums, graph, positions[graph, number], key, rows[graph, number, key])
    return sums
