"""Compiled loops over a band with global columns and rows, on the CPU; each cell is read once.

Shapes: band [group, query, 2 reach + 1], columns [group, query, global], rows [group, global, key];
a group is a head of a text, and `of` is its text. `positions` [text, global] are those of the
global tokens, which are not in the band.
As in kernels.py nothing holds a lock or starts threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attlas.core.kernels import offer
from attlas.stats.jit import numba
from attlas.support.arrays import Bools, Floats, Floats32, Ints


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def received(
    band: Floats32, columns: Floats32, rows: Floats32, positions: Ints, of: Ints
) -> Floats32:
    """Attention received: [group, key]. Rows of global queries are 0 in band and columns."""
    groups, n, width = band.shape
    reach = width // 2
    out = np.zeros((groups, n), dtype=np.float32)
    total = np.empty(n)
    for group in range(groups):
        total[:] = 0.0
        for query in range(n):
            first, stop = max(0, query - reach), min(n, query + reach + 1)
            cells = band[group, query]
            for key in range(first, stop):
                total[key] += cells[key - query + reach]
        for number in range(columns.shape[2]):
            mass = 0.0
            for query in range(n):
                mass += columns[group, query, number]
            total[positions[of[group], number]] += mass
            for key in range(n):
                total[key] += rows[group, number, key]
        for key in range(n):
            out[group, key] = total[key]
    return out


@numba.njit(nogil=True, cache=True)
def _global_tokens(positions: Any, n: Any) -> Any:
    """Which tokens are global, so that they are not in the band: [text, token]."""
    out = np.zeros((len(positions), n), dtype=np.bool_)
    for text in range(len(positions)):
        for position in positions[text]:
            out[text, position] = True
    return out


@numba.njit(nogil=True, cache=True)
def top_keys(
    band: Floats32,
    columns: Floats32,
    rows: Floats32,
    positions: Ints,
    seen: Bools,
    mask: Bools,
    of: Ints,
    k: int,
) -> tuple[Floats32, Ints]:
    """The k kept keys with the largest weights for each query: [group, query, k], and positions."""
    groups, n, width = band.shape
    reach = width // 2
    best = np.zeros((groups, n, k), dtype=np.float32)
    where = np.full((groups, n, k), -1, dtype=np.int64)
    hidden = _global_tokens(positions, n)
    for group in range(groups):
        text = of[group]
        for query in range(n):
            if hidden[text, query]:
                continue
            largest, at, found = best[group, query], where[group, query], 0
            for number in range(positions.shape[1]):
                key = positions[text, number]
                if mask[text, key]:
                    found = offer(largest, at, found, columns[group, query, number], key, k)
            least = largest[k - 1] if found == k else np.float32(-np.inf)
            for key in range(max(0, query - reach), min(n, query + reach + 1)):
                value = band[group, query, key - query + reach]
                if value < least or hidden[text, key] or not mask[text, key]:
                    continue
                if seen.shape[0] and not seen[text, query, key - query + reach]:
                    continue
                found = offer(largest, at, found, value, key, k)
                if found == k:
                    least = largest[k - 1]
        for number in range(positions.shape[1]):
            query, found = positions[text, number], 0
            largest, at = best[group, query], where[group, query]
            for key in range(n):
                if mask[text, key]:
                    found = offer(largest, at, found, rows[group, number, key], key, k)
    return best, where


@numba.njit(nogil=True, cache=True)
def top_queries(
    band: Floats32,
    columns: Floats32,
    rows: Floats32,
    positions: Ints,
    seen: Bools,
    mask: Bools,
    of: Ints,
    k: int,
) -> tuple[Floats32, Ints]:
    """The k kept queries that attend most to each key: [group, key, k], and positions."""
    groups, n, width = band.shape
    reach = width // 2
    best = np.zeros((groups, n, k), dtype=np.float32)
    where = np.full((groups, n, k), -1, dtype=np.int64)
    hidden = _global_tokens(positions, n)
    found = np.zeros(n, dtype=np.int64)
    least = np.empty(n, dtype=np.float32)
    for group in range(groups):
        text, largest, at = of[group], best[group], where[group]
        found[:] = 0
        least[:] = -np.inf
        for query in range(n):
            if hidden[text, query] or not mask[text, query]:
                continue
            for key in range(max(0, query - reach), min(n, query + reach + 1)):
                value = band[group, query, key - query + reach]
                if value < least[key] or hidden[text, key]:
                    continue
                if seen.shape[0] and not seen[text, query, key - query + reach]:
                    continue
                found[key] = offer(largest[key], at[key], found[key], value, query, k)
                if found[key] == k:
                    least[key] = largest[key, k - 1]
            for number in range(positions.shape[1]):
                key, value = positions[text, number], columns[group, query, number]
                found[key] = offer(largest[key], at[key], found[key], value, query, k)
        for number in range(positions.shape[1]):
            query = positions[text, number]
            if mask[text, query]:
                for key in range(n):
                    value = rows[group, number, key]
                    found[key] = offer(largest[key], at[key], found[key], value, query, k)
    return best, where


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _spread(cells: Any, first: int, stop: int, shift: int, edges: Any, line: Any) -> None:
    """Add the cells of keys `first` to `stop` to their bins; a key on an edge is shared."""
    bins = len(line)
    length = edges[1] - edges[0]
    number = min(int(first / length), bins - 1)
    while number > 0 and edges[number] > first:
        number -= 1
    key = first
    while key < stop:
        while number < bins - 1 and edges[number + 1] <= key:
            number += 1
        # keys up to here lie inside
        whole = stop if number == bins - 1 else min(stop, int(np.floor(edges[number + 1])))
        total = np.float32(0)
        for position in range(key, whole):
            total += cells[position + shift]
        line[number] += total
        key = max(key, whole)
        if key < stop and number < bins - 1:  # this one lies across the edge
            inside = edges[number + 1] - key
            line[number] += cells[key + shift] * inside
            line[number + 1] += cells[key + shift] * (1.0 - inside)
            key += 1


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def grid(
    band: Floats32,
    columns: Floats32,
    rows: Floats32,
    positions: Ints,
    of: Ints,
    edges: Floats,
    heads: int,
) -> Floats:
    """Mass between bins of at least one token, summed over texts: [head, query bin, key bin]."""
    groups, n, width = band.shape
    reach, bins = width // 2, len(edges) - 1
    length = edges[1] - edges[0]
    out = np.zeros((heads, bins, bins))
    line = np.empty(bins)
    is_global = np.zeros(n, dtype=np.int64)
    for group in range(groups):
        head, text = group % heads, of[group]
        is_global[:] = -1
        for number in range(positions.shape[1]):
            is_global[positions[text, number]] = number
        for query in range(n):
            line[:] = 0.0
            if is_global[query] >= 0:
                _spread(rows[group, is_global[query]], 0, n, 0, edges, line)
            else:
                _spread(
                    band[group, query],
                    max(0, query - reach),
                    min(n, query + reach + 1),
                    reach - query,
                    edges,
                    line,
                )
                for number in range(positions.shape[1]):
                    position = positions[text, number]
                    _spread(
                        columns[group, query, number : number + 1],
                        position,
                        position + 1,
                        -position,
                        edges,
                        line,
                    )
            number = min(int(query / length), bins - 1)
            while number > 0 and edges[number] > query:
                number -= 1
            while number < bins - 1 and edges[number + 1] <= query:
                number += 1
            inside = 1.0 if number == bins - 1 else min(1.0, edges[number + 1] - query)
            for cell in range(bins):
                out[head, number, cell] += line[cell] * inside
            if inside < 1.0:
                for cell in range(bins):
                    out[head, number + 1, cell] += line[cell] * (1.0 - inside)
    return out
