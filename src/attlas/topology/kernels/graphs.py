"""Weights to sparse rows and to Betti numbers (numba, no GIL, one thread).

Callers are parallel over graphs. Weights are the bit patterns of non-negative floats, which have
the order of the floats: comparing integers is exact and vectorises. `marks` are the patterns of
infinity and minus zero. Digraphs are sparse rows: `start` [graph * n + 1] is where the entries of a
row begin, `key` the token attended to, `level` how many thresholds the weight reaches (at least
one). A band is (band [graph, n, 2 reach + 1], columns [graph, n, global], rows [graph, global, n],
positions [graph, global]).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attlas.stats.jit import numba
from attlas.support.arrays import Array

BLOCK = 32


@numba.njit(nogil=True, cache=True)
def _is_bad(value: Any, marks: tuple[Any, Any]) -> bool:
    infinity, minus_zero = marks
    return (value < 0 and value != minus_zero) or value >= infinity


@numba.njit(nogil=True, cache=True)
def _level(value: Any, steps: Array) -> int:
    level = 0
    for number in range(steps.shape[0]):
        level += value >= steps[number]
    return level


@numba.njit(nogil=True, cache=True)
def _with_room(columns: Array, used: int, more: int) -> Array:
    """The columns [name, entry] with room for `more` entries after the used ones."""
    if used + more <= columns.shape[1]:
        return columns
    out = np.empty((columns.shape[0], max(used + more, 2 * columns.shape[1])), columns.dtype)
    out[:, :used] = columns[:, :used]
    return out


@numba.njit(nogil=True, cache=True)
def _passing(row: Array, floor: Any, marks: tuple[Any, Any], cells: Array) -> int:
    """Write the cells of a row that reach the floor into `cells`; how many, -1 if one is bad."""
    n, count = row.shape[0], 0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        most, least = row[begin], row[begin]
        for cell in range(begin, end):
            most, least = max(most, row[cell]), min(least, row[cell])
        if least < 0 or most >= marks[0]:
            for cell in range(begin, end):
                if _is_bad(row[cell], marks):
                    return -1
        if most >= floor:
            for cell in range(begin, end):  # no branch: branches here are hard to predict
                cells[count] = cell
                count += row[cell] >= floor
    return count


@numba.njit(nogil=True, cache=True)
def dense_entries(
    bits: Array, steps: Array, marks: tuple[Any, Any]
) -> tuple[Array, Array, Array, int]:
    """Sparse rows of square matrices [graph, n, n]: start, key, level, first bad graph or -1."""
    graphs, n = bits.shape[0], bits.shape[1]
    start = np.zeros(graphs * n + 1, np.int64)
    entries, used = np.empty((2, 8 * n + 64), np.int32), 0  # key, level
    cells = np.empty(n, np.int32)
    for graph in range(graphs):
        for query in range(n):
            row = bits[graph, query]
            entries = _with_room(entries, used, n)
            count = _passing(row, steps[0], marks, cells)
            if count < 0:
                return start, entries[0], entries[1], graph
            for number in range(count):
                entries[0, used] = cells[number]
                entries[1, used] = _level(row[cells[number]], steps)
                used += 1
            start[graph * n + query + 1] = used
    return start, entries[0, :used], entries[1, :used], -1


@numba.njit(nogil=True, cache=True)
def band_entries(
    parts: tuple[Array, Array, Array, Array], steps: Array, marks: tuple[Any, Any]
) -> tuple[Array, Array, Array, int]:
    """What `dense_entries` gives, for a band with global tokens."""
    band, columns, rows, positions = parts
    graphs, n, width = band.shape
    reach, n_global = width // 2, columns.shape[2]
    start = np.zeros(graphs * n + 1, np.int64)
    entries, used = np.empty((2, 8 * n + 64), np.int32), 0  # key, level
    row, cells = np.zeros(n, band.dtype), np.empty(n, np.int32)
    for graph in range(graphs):
        for query in range(n):
            entries = _with_room(entries, used, n)
            own, count = -1, 0
            for number in range(n_global):
                if positions[graph, number] == query:
                    own = number
            if own >= 0:
                row[:] = rows[graph, own]
                for cell in range(n):
                    cells[count] = cell
                    count += 1
            else:
                left, right = max(0, query - reach), min(n, query + reach + 1)
                for cell in range(left, right):
                    row[cell] = band[graph, query, cell - query + reach]
                    cells[count] = cell
                    count += 1
                for number in range(n_global):
                    cell = positions[graph, number]
                    row[cell] = columns[graph, query, number]
                    if not left <= cell < right:
                        cells[count] = cell
                        count += 1
            for number in range(count):
                value = row[cells[number]]
                if _is_bad(value, marks):
                    return start, entries[0], entries[1], graph
                if value >= steps[0]:
                    entries[0, used], entries[1, used] = cells[number], _level(value, steps)
                    used += 1
            start[graph * n + query + 1] = used
    return start, entries[0, :used], entries[1, :used], -1


@numba.njit(nogil=True, cache=True)
def _root(parent: Array, vertex: int) -> int:
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@numba.njit(nogil=True, cache=True)
def _count_cycles(
    edges: Array, count: int, loop: Array, n: int, beta0: Array, beta1: Array
) -> None:
    """Betti numbers of one graph from its undirected edges: left, right, thresholds reached.

    `loop` counts loops by the number of thresholds. Edges join components from the highest
    threshold down, which is Kruskal's maximum spanning tree cut at the thresholds; cycles are
    edges - vertices + components.
    """
    steps = beta0.shape[0]
    until = np.zeros(steps + 2, np.int64)  # edges of a level and above
    for edge in range(count):
        until[edges[2, edge] - 1] += 1
    for step in range(steps - 2, -1, -1):
        until[step] += until[step + 1]
    at, order = np.zeros(steps + 2, np.int64), np.empty(count, np.int32)
    at[1 : steps + 1] = until[1 : steps + 1]
    for edge in range(count):
        level = edges[2, edge]
        order[at[level]] = edge
        at[level] += 1
    parent = np.arange(n)
    components, loops, used = n, 0, 0
    for step in range(steps - 1, -1, -1):
        loops += loop[step + 1]
        while used < until[step] and components > 1:
            edge = order[used]
            one, two = _root(parent, edges[0, edge]), _root(parent, edges[1, edge])
            if one != two:
                parent[one] = two
                components -= 1
            used += 1
        beta0[step], beta1[step] = components, loops + until[step] - n + components


@numba.njit(nogil=True, cache=True)
def dense_betti(
    bits: Array, steps: Array, marks: tuple[Any, Any], loops: bool, betti: Array
) -> int:
    """Components and cycles of square matrices [graph, n, n], into [2, graph, threshold].

    Direction is dropped: an edge is there if either direction is. Returns the first graph with a
    bad weight, or -1.
    """
    graphs, n = bits.shape[0], bits.shape[1]
    floor = steps[0]
    cells = np.empty(n, np.int32)
    loop = np.zeros(steps.shape[0] + 1, np.int64)
    edges = np.empty((3, 8 * n), np.int32)  # left, right, thresholds reached
    for graph in range(graphs):
        matrix, used = bits[graph], 0
        loop[:] = 0
        for query in range(n):
            row = matrix[query]
            count = _passing(row, floor, marks, cells)
            if count < 0:
                return graph
            edges = _with_room(edges, used, count)
            for number in range(count):
                cell = cells[number]
                back = matrix[cell, query]
                if cell == query:
                    loop[_level(back, steps)] += loops
                elif cell > query or back < floor:  # else it was met from the other side
                    edges[0, used], edges[1, used] = query, cell
                    edges[2, used] = _level(max(row[cell], back), steps)
                    used += 1
        _count_cycles(edges, used, loop, n, betti[0, graph], betti[1, graph])
    return -1


@numba.njit(nogil=True, cache=True)
def _local_edges(
    band: Array,
    query: int,
    number_of: Array,
    steps: Array,
    marks: tuple[Any, Any],
    edges: Array,
    used: int,
) -> tuple[int, int]:
    """Add the edges of a token to others in its window; how many there are, thresholds of its loop.

    Global tokens are skipped. Both are -1 if a weight is bad.
    """
    n, reach, floor, loop = band.shape[0], band.shape[1] // 2, steps[0], 0
    for cell in range(max(0, query - reach), min(n, query + reach + 1)):
        value = band[query, cell - query + reach]
        if _is_bad(value, marks):
            return -1, -1
        if value < floor or number_of[cell] >= 0:
            continue
        back = band[cell, query - cell + reach]
        if cell == query:
            loop = _level(value, steps)
        elif cell > query or back < floor:
            edges[0, used], edges[1, used] = query, cell
            edges[2, used] = _level(max(value, back), steps)
            used += 1
    return used, loop


@numba.njit(nogil=True, cache=True)
def band_betti(
    parts: tuple[Array, Array, Array, Array],
    steps: Array,
    marks: tuple[Any, Any],
    loops: bool,
    betti: Array,
) -> int:
    """What `dense_betti` gives, for a band with global tokens."""
    band, columns, rows, positions = parts
    graphs, n, _ = band.shape
    floor = steps[0]
    loop = np.zeros(steps.shape[0] + 1, np.int64)
    edges = np.empty((3, 8 * n), np.int32)  # left, right, thresholds reached
    number_of = np.full(n, -1, np.int64)
    for graph in range(graphs):
        used = 0
        loop[:] = 0
        number_of[:] = -1
        for number in range(positions.shape[1]):
            number_of[positions[graph, number]] = number
        for query in range(n):
            edges = _with_room(edges, used, n)
            own = number_of[query]
            if own < 0:
                used, level = _local_edges(band[graph], query, number_of, steps, marks, edges, used)
                if used < 0:
                    return graph
                loop[level] += loops  # of level 0 none are counted
                for number in range(positions.shape[1]):
                    if _is_bad(columns[graph, query, number], marks):
                        return graph
                continue
            for cell in range(n):  # a global token: its edges to all others, from here alone
                value, other = rows[graph, own, cell], number_of[cell]
                if _is_bad(value, marks):
                    return graph
                if cell == query:
                    loop[_level(value, steps)] += loops
                    continue
                if other >= 0 and cell < query:
                    continue
                back = rows[graph, other, query] if other >= 0 else columns[graph, cell, own]
                value = max(value, back)
                if value >= floor:
                    edges[0, used], edges[1, used] = query, cell
                    edges[2, used] = _level(value, steps)
                    used += 1
        _count_cycles(edges, used, loop, n, betti[0, graph], betti[1, graph])
    return -1
