"""Maximum spanning trees of attention graphs (numba, no GIL, one thread)."""

from __future__ import annotations

import numpy as np

from attlas.stats.jit import numba
from attlas.support.arrays import Array


@numba.njit(nogil=True, cache=True)
def dense_tree(weights: Array) -> tuple[Array, Array]:
    """The maximum spanning tree of max(W, W^T) for square matrices [graph, n, n] (Prim).

    Each vertex's parent and the weight of that edge, [graph, n]; the first vertex has parent -1.
    """
    graphs, n = weights.shape[0], weights.shape[1]
    parent, joined = np.full((graphs, n), -1, np.int64), np.zeros((graphs, n), weights.dtype)
    for graph in range(graphs):
        matrix, in_tree = weights[graph], np.zeros(n, np.bool_)
        best = np.full(n, -1.0, weights.dtype)
        vertex = 0
        for _ in range(n - 1):
            in_tree[vertex] = True
            following, highest = -1, -1.0
            for other in range(n):
                if in_tree[other]:
                    continue
                weight = max(matrix[vertex, other], matrix[other, vertex])
                if weight > best[other]:
                    best[other], parent[graph, other] = weight, vertex
                if best[other] > highest:
                    following, highest = other, best[other]
            vertex = following
            joined[graph, vertex] = best[vertex]
    return parent, joined


@numba.njit(nogil=True, cache=True)
def band_tree(band: Array, columns: Array, rows: Array, positions: Array) -> Array:
    """The weights that `dense_tree` gives, for a band; tokens that do not see each other have 0."""
    graphs, n, width = band.shape
    reach = width // 2
    joined = np.zeros((graphs, n), band.dtype)
    for graph in range(graphs):
        number_of = np.full(n, -1, np.int64)
        for number in range(positions.shape[1]):
            number_of[positions[graph, number]] = number
        in_tree, best = np.zeros(n, np.bool_), np.zeros(n, band.dtype)
        vertex = 0
        for _ in range(n - 1):
            in_tree[vertex] = True
            own = number_of[vertex]
            if own >= 0:
                for other in range(n):
                    if number_of[other] >= 0:
                        back = rows[graph, number_of[other], vertex]
                    else:
                        back = columns[graph, other, own]
                    best[other] = max(best[other], max(rows[graph, own, other], back))
            else:
                for other in range(max(0, vertex - reach), min(n, vertex + reach + 1)):
                    if number_of[other] < 0:
                        weight = max(
                            band[graph, vertex, other - vertex + reach],
                            band[graph, other, vertex - other + reach],
                        )
                        best[other] = max(best[other], weight)
                for number in range(positions.shape[1]):
                    other = positions[graph, number]
                    weight = max(columns[graph, vertex, number], rows[graph, number, vertex])
                    best[other] = max(best[other], weight)
            following, highest = -1, -1.0
            for other in range(n):
                if not in_tree[other] and best[other] > highest:
                    following, highest = other, best[other]
            vertex = following
            joined[graph, vertex] = best[vertex]
    return joined


@numba.njit(nogil=True, cache=True)
def other_edges(weights: Array, parent: Array, loops: bool) -> Array:
    """The weights of all edges of max(W, W^T) outside the tree, and of loops: [graph, edge]."""
    graphs, n = weights.shape[0], weights.shape[1]
    size = n * (n - 1) // 2 - max(0, n - 1) + (n if loops else 0)
    out = np.empty((graphs, size), weights.dtype)
    for graph in range(graphs):
        used = 0
        for one in range(n):
            if loops:
                out[graph, used] = weights[graph, one, one]
                used += 1
            for two in range(one + 1, n):
                if parent[graph, one] != two and parent[graph, two] != one:
                    out[graph, used] = max(weights[graph, one, two], weights[graph, two, one])
                    used += 1
    return out
