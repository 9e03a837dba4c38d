"""Directed graphs as sparse rows: components, pairs and cycles (numba, no GIL, one thread)."""

from __future__ import annotations

import numpy as np

from attlas.stats.jit import numba
from attlas.support.arrays import Array


@numba.njit(nogil=True, cache=True)
def add_digraph_counts(
    start: Array, key: Array, level: Array, n: int, cap: int, out: Array
) -> None:
    """Strong components, edges, mutual pairs, simple cycles up to `cap`: [4, graph, threshold]."""
    _, graphs, steps = out.shape
    begin = np.zeros(n + 1, np.int64)
    for graph in range(graphs):
        first, last = start[graph * n], start[(graph + 1) * n]
        heads = np.empty(last - first, np.int32)
        for step in range(steps):
            used = 0
            for query in range(n):
                begin[query] = used
                for entry in range(start[graph * n + query], start[graph * n + query + 1]):
                    if level[entry] > step:
                        heads[used] = key[entry]
                        used += 1
            begin[n] = used
            members, parts = strong_components(begin, heads, n)
            out[0, graph, step], out[1, graph, step] = parts, used
            out[2, graph, step] = _pairs(begin, heads, n)
            out[3, graph, step] = simple_cycles(begin, heads, n, members, parts, cap)


@numba.njit(nogil=True, cache=True)
def _pairs(begin: Array, heads: Array, n: int) -> int:
    """How many pairs of tokens point at each other."""
    there = np.full(n, -1, np.int64)
    into = np.zeros(n + 1, np.int64)
    for entry in range(begin[n]):
        into[heads[entry] + 1] += 1
    for vertex in range(n):
        into[vertex + 1] += into[vertex]
    fill, source = into[:-1].copy(), np.empty(begin[n], np.int32)
    for vertex in range(n):
        for entry in range(begin[vertex], begin[vertex + 1]):
            source[fill[heads[entry]]] = vertex
            fill[heads[entry]] += 1
    pairs = 0
    for vertex in range(n):
        for entry in range(begin[vertex], begin[vertex + 1]):
            there[heads[entry]] = vertex
        for entry in range(into[vertex], into[vertex + 1]):
            if source[entry] > vertex and there[source[entry]] == vertex:
                pairs += 1
    return pairs


@numba.njit(nogil=True, cache=True)
def strong_components(begin: Array, heads: Array, n: int) -> tuple[Array, int]:
    """The strong component of each vertex, and their number (Tarjan 1972, not recursive)."""
    index, low = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    member = np.full(n, -1, np.int64)
    at = np.zeros(n, np.int64)
    path, stack = np.empty(n, np.int64), np.empty(n, np.int64)
    clock, deep, high, parts = 0, 0, 0, 0
    for root in range(n):
        if index[root] >= 0:
            continue
        path[0], deep = root, 1
        stack[high] = root
        high += 1
        index[root] = low[root] = clock
        clock += 1
        at[root] = begin[root]
        while deep:
            vertex = path[deep - 1]
            if at[vertex] < begin[vertex + 1]:
                other = heads[at[vertex]]
                at[vertex] += 1
                if index[other] < 0:
                    index[other] = low[other] = clock
                    clock += 1
                    at[other] = begin[other]
                    path[deep] = other
                    deep += 1
                    stack[high] = other
                    high += 1
                elif member[other] < 0:
                    low[vertex] = min(low[vertex], index[other])
            else:
                deep -= 1
                if deep:
                    low[path[deep - 1]] = min(low[path[deep - 1]], low[vertex])
                if low[vertex] == index[vertex]:
                    while True:
                        high -= 1
                        member[stack[high]] = parts
                        if stack[high] == vertex:
                            break
                    parts += 1
    return member, parts


@numba.njit(nogil=True, cache=True)
def simple_cycles(begin: Array, heads: Array, n: int, member: Array, parts: int, cap: int) -> int:
    """The number of simple directed cycles, loops and pairs included, up to `cap` (Johnson 1975).

    Between two cycles, and for each start vertex, every edge is visited a bounded number of times:
    the time is at most proportional to (vertices + cap) x (vertices + edges).
    """
    cycles = 0
    size = np.zeros(parts, np.int64)
    for vertex in range(n):
        size[member[vertex]] += 1
        for entry in range(begin[vertex], begin[vertex + 1]):
            if heads[entry] == vertex:
                cycles += 1
    if cycles >= cap:
        return cap
    edges = begin[n]
    source = np.empty(edges, np.int32)
    for vertex in range(n):
        source[begin[vertex] : begin[vertex + 1]] = vertex
    blocked, closed, at = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.int64)
    waiting, following, listed = (
        np.full(n, -1, np.int64),
        np.full(edges, -1, np.int64),
        np.zeros(edges, np.bool_),
    )
    path, free, touched = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for root in range(n):
        own = member[root]
        if size[own] < 2:
            continue
        path[0], deep, touches = root, 1, 1
        touched[0], blocked[root], closed[root], at[root] = root, True, False, begin[root]
        seen = np.zeros(n, np.bool_)
        seen[root] = True
        while deep:
            vertex = path[deep - 1]
            if at[vertex] < begin[vertex + 1]:
                other = heads[at[vertex]]
                at[vertex] += 1
                if other < root or other == vertex or member[other] != own:
                    continue
                if other == root:
                    cycles += 1
                    if cycles >= cap:
                        return cap
                    closed[vertex] = True
                elif not blocked[other]:
                    path[deep] = other
                    deep += 1
                    blocked[other], closed[other], at[other] = True, False, begin[other]
                    if not seen[other]:
                        seen[other] = True
                        touched[touches] = other
                        touches += 1
                continue
            deep -= 1
            if closed[vertex]:
                if deep:
                    closed[path[deep - 1]] = True
                _unblock(vertex, blocked, waiting, following, listed, source, free)
            else:
                for entry in range(begin[vertex], begin[vertex + 1]):
                    other = heads[entry]
                    if (
                        other > root
                        and other != vertex
                        and member[other] == own
                        and not listed[entry]
                    ):
                        listed[entry] = True
                        following[entry] = waiting[other]
                        waiting[other] = entry
        for number in range(touches):  # reset for the next root
            vertex = touched[number]
            blocked[vertex], waiting[vertex] = False, -1
            for entry in range(begin[vertex], begin[vertex + 1]):
                listed[entry] = False
    return cycles


@numba.njit(nogil=True, cache=True)
def _unblock(
    vertex: int,
    blocked: Array,
    waiting: Array,
    following: Array,
    listed: Array,
    source: Array,
    free: Array,
) -> None:
    """Unblock a vertex and, in turn, all that wait for it."""
    free[0], count = vertex, 1
    blocked[vertex] = False
    while count:
        count -= 1
        one = free[count]
        entry = waiting[one]
        waiting[one] = -1
        while entry >= 0:
            listed[entry] = False
            if blocked[source[entry]]:
                blocked[source[entry]] = False
                free[count] = source[entry]
                count += 1
            entry = following[entry]
