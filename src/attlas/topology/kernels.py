"""Hot loops on attention graphs (numba, no GIL, one thread: callers are parallel over graphs).

Weights come as the bit patterns of non-negative floats, which are ordered as the floats are: comparing integers is exact, and the
compiler makes wide instructions of it. Digraphs are kept as sparse rows: `start` [graph * n + 1] says where the entries of a row begin, `key`
is the token looked at, `level` how many thresholds the weight reaches (at least one: smaller weights are not kept).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.support.jit import numba

Array = npt.NDArray[Any]
BLOCK = 32


@numba.njit(nogil=True, cache=True)
def _is_bad(value: Any, infinity: Any, minus_zero: Any) -> bool:
    return (value < 0 and value != minus_zero) or value >= infinity


@numba.njit(nogil=True, cache=True)
def _level(value: Any, steps: Array) -> int:
    level = 0
    for number in range(steps.shape[0]):
        level += value >= steps[number]
    return level


@numba.njit(nogil=True, cache=True)
def _grown(array: Array, used: int, size: int) -> Array:
    out = np.empty(size, array.dtype)
    out[:used] = array[:used]
    return out


@numba.njit(nogil=True, cache=True)
def _passing(row: Array, floor: Any, infinity: Any, minus_zero: Any, found: Array) -> int:
    """Write the cells of a row that reach the floor into `found`, in order; how many, or -1 if a weight is none."""
    n, count = row.shape[0], 0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        most, least = row[begin], row[begin]
        for cell in range(begin, end):
            most, least = max(most, row[cell]), min(least, row[cell])
        if least < 0 or most >= infinity:
            for cell in range(begin, end):
                if _is_bad(row[cell], infinity, minus_zero):
                    return -1
        if most >= floor:
            for cell in range(begin, end):  # no branch: which cells pass is hard to guess
                found[count] = cell
                count += row[cell] >= floor
    return count


@numba.njit(nogil=True, cache=True)
def dense_entries(
    bits: Array, steps: Array, infinity: Any, minus_zero: Any
) -> tuple[Array, Array, Array, int]:
    """Sparse rows of square matrices [graph, n, n]; the last value is the first graph with a weight that is none, or -1."""
    graphs, n = bits.shape[0], bits.shape[1]
    start = np.zeros(graphs * n + 1, np.int64)
    key, level = np.empty(8 * n + 64, np.int32), np.empty(8 * n + 64, np.int32)
    floor, used, found = steps[0], 0, np.empty(n, np.int32)
    for graph in range(graphs):
        for query in range(n):
            row = bits[graph, query]
            if key.shape[0] < used + n:
                size = max(used + n, 2 * key.shape[0])
                key, level = _grown(key, used, size), _grown(level, used, size)
            count = _passing(row, floor, infinity, minus_zero, found)
            if count < 0:
                return start, key, level, graph
            for number in range(count):
                key[used], level[used] = found[number], _level(row[found[number]], steps)
                used += 1
            start[graph * n + query + 1] = used
    return start, key[:used], level[:used], -1


@numba.njit(nogil=True, cache=True)
def band_entries(
    band: Array,
    columns: Array,
    rows: Array,
    places: Array,
    steps: Array,
    infinity: Any,
    minus_zero: Any,
) -> tuple[Array, Array, Array, int]:
    """Sparse rows of a band [graph, n, 2 reach + 1] with global columns [graph, n, global], rows [graph, global, n] at places [graph, global]."""
    graphs, n, width = band.shape
    reach, globals_ = width // 2, columns.shape[2]
    start = np.zeros(graphs * n + 1, np.int64)
    key, level = np.empty(8 * n + 64, np.int32), np.empty(8 * n + 64, np.int32)
    floor, used = steps[0], 0
    row = np.zeros(n, band.dtype)
    for graph in range(graphs):
        for query in range(n):
            if key.shape[0] < used + n:
                size = max(used + n, 2 * key.shape[0])
                key, level = _grown(key, used, size), _grown(level, used, size)
            own = -1
            for number in range(globals_):
                if places[graph, number] == query:
                    own = number
            left, right = (0, n) if own >= 0 else (max(0, query - reach), min(n, query + reach + 1))
            if own >= 0:
                row[:] = rows[graph, own]
            else:
                for cell in range(left, right):
                    row[cell] = band[graph, query, cell - query + reach]
                for number in range(globals_):
                    place = places[graph, number]
                    row[place] = columns[graph, query, number]
            for cell in range(left, right):
                if _is_bad(row[cell], infinity, minus_zero):
                    return start, key, level, graph
                if row[cell] >= floor:
                    key[used], level[used] = cell, _level(row[cell], steps)
                    used += 1
            if own < 0:
                for number in range(globals_):
                    place = places[graph, number]
                    if left <= place < right:
                        continue
                    if _is_bad(row[place], infinity, minus_zero):
                        return start, key, level, graph
                    if row[place] >= floor:
                        key[used], level[used] = place, _level(row[place], steps)
                        used += 1
            start[graph * n + query + 1] = used
    return start, key[:used], level[:used], -1


@numba.njit(nogil=True, cache=True)
def _root(parent: Array, vertex: int) -> int:
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@numba.njit(nogil=True, cache=True)
def _count_pieces(
    left: Array,
    right: Array,
    high: Array,
    edges: int,
    loop: Array,
    n: int,
    loops: bool,
    beta0: Array,
    beta1: Array,
) -> None:
    """Betti numbers of one graph from its undirected edges, each with the number of thresholds it reaches; `loop` counts loops by that number.

    Edges join components from the highest threshold down, which is Kruskal's maximum spanning tree cut at the thresholds; cycles are
    edges - vertices + components.
    """
    steps = beta0.shape[0]
    place = np.zeros(steps + 2, np.int64)  # where the edges of a level begin, highest level first
    for edge in range(edges):
        place[high[edge] - 1] += 1
    for step in range(steps - 2, -1, -1):
        place[step] += place[step + 1]
    at, order = np.zeros(steps + 2, np.int64), np.empty(edges, np.int32)
    at[1 : steps + 1] = place[1 : steps + 1]
    for edge in range(edges):
        level = high[edge]
        order[at[level]] = edge
        at[level] += 1
    parent = np.arange(n)
    components, present, done = n, 0, 0
    for step in range(steps - 1, -1, -1):
        present += loop[step + 1] if loops else 0
        until = place[step]
        while done < until and components > 1:
            one, two = _root(parent, left[order[done]]), _root(parent, right[order[done]])
            if one != two:
                parent[one] = two
                components -= 1
            done += 1
        beta0[step], beta1[step] = components, present + until - n + components


@numba.njit(nogil=True, cache=True)
def dense_betti(
    bits: Array,
    steps: Array,
    infinity: Any,
    minus_zero: Any,
    loops: bool,
    beta0: Array,
    beta1: Array,
) -> int:
    """Components and independent cycles of square matrices [graph, n, n] at every threshold, into arrays [graph, threshold].

    Direction is dropped: an edge is there if either direction is. The value is the first graph with a weight that is none, or -1.
    """
    graphs, n = bits.shape[0], bits.shape[1]
    floor = steps[0]
    found = np.empty(n, np.int32)
    loop = np.zeros(steps.shape[0] + 1, np.int64)
    left, right, high = (
        np.empty(8 * n, np.int32),
        np.empty(8 * n, np.int32),
        np.empty(8 * n, np.int32),
    )
    for graph in range(graphs):
        matrix, edges = bits[graph], 0
        loop[:] = 0
        for query in range(n):
            row = matrix[query]
            count = _passing(row, floor, infinity, minus_zero, found)
            if count < 0:
                return graph
            if edges + count > left.shape[0]:
                size = max(edges + count, 2 * left.shape[0])
                left, right, high = (
                    _grown(left, edges, size),
                    _grown(right, edges, size),
                    _grown(high, edges, size),
                )
            for number in range(count):
                cell = found[number]
                back = matrix[cell, query]
                if cell == query:
                    loop[_level(back, steps)] += 1
                elif cell > query or back < floor:  # else it was met from the other side
                    left[edges], right[edges] = query, cell
                    high[edges] = _level(max(row[cell], back), steps)
                    edges += 1
        _count_pieces(left, right, high, edges, loop, n, loops, beta0[graph], beta1[graph])
    return -1


@numba.njit(nogil=True, cache=True)
def band_betti(
    band: Array,
    columns: Array,
    rows: Array,
    places: Array,
    steps: Array,
    infinity: Any,
    minus_zero: Any,
    loops: bool,
    beta0: Array,
    beta1: Array,
) -> int:
    """What `dense_betti` gives, for a band [graph, n, 2 reach + 1] with global columns [graph, n, global], rows [graph, global, n] at places [graph, global]."""
    graphs, n, width = band.shape
    reach, floor = width // 2, steps[0]
    loop = np.zeros(steps.shape[0] + 1, np.int64)
    left, right, high = (
        np.empty(8 * n, np.int32),
        np.empty(8 * n, np.int32),
        np.empty(8 * n, np.int32),
    )
    number_of = np.full(n, -1, np.int64)
    for graph in range(graphs):
        edges = 0
        loop[:] = 0
        number_of[:] = -1
        for number in range(places.shape[1]):
            number_of[places[graph, number]] = number
        for query in range(n):
            if edges + n > left.shape[0]:
                size = max(edges + n, 2 * left.shape[0])
                left, right, high = (
                    _grown(left, edges, size),
                    _grown(right, edges, size),
                    _grown(high, edges, size),
                )
            own = number_of[query]
            if own < 0:
                for cell in range(max(0, query - reach), min(n, query + reach + 1)):
                    value = band[graph, query, cell - query + reach]
                    if _is_bad(value, infinity, minus_zero):
                        return graph
                    if value < floor or number_of[cell] >= 0:
                        continue
                    back = band[graph, cell, query - cell + reach]
                    if cell == query:
                        loop[_level(value, steps)] += 1
                    elif cell > query or back < floor:
                        left[edges], right[edges], high[edges] = (
                            query,
                            cell,
                            _level(max(value, back), steps),
                        )
                        edges += 1
                for number in range(places.shape[1]):
                    if _is_bad(columns[graph, query, number], infinity, minus_zero):
                        return graph
                continue
            for cell in range(n):  # a global token: its edges to all others, from here alone
                value, other = rows[graph, own, cell], number_of[cell]
                if _is_bad(value, infinity, minus_zero):
                    return graph
                if cell == query:
                    if value >= floor:
                        loop[_level(value, steps)] += 1
                    continue
                if other >= 0 and cell < query:
                    continue
                back = rows[graph, other, query] if other >= 0 else columns[graph, cell, own]
                value = max(value, back)
                if value >= floor:
                    left[edges], right[edges], high[edges] = query, cell, _level(value, steps)
                    edges += 1
        _count_pieces(left, right, high, edges, loop, n, loops, beta0[graph], beta1[graph])
    return -1


@numba.njit(nogil=True, cache=True)
def digraph_counts(start: Array, key: Array, level: Array, n: int, steps: int, cap: int) -> Array:
    """Of every digraph at every threshold: strong components, edges with loops, pairs that point at each other, simple cycles up to `cap`.

    An array [4, graph, threshold].
    """
    graphs = (start.shape[0] - 1) // n if n else 0
    out = np.zeros((4, graphs, steps), np.int64)
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
    return out


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
    """Which strong component each vertex belongs to, and how many there are (Tarjan 1972, without recursion)."""
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
    """How many simple directed cycles there are, loops and pairs included, counting no further than `cap` (Johnson 1975).

    Between two cycles found, and for each vertex begun from, every edge is looked at a bounded number of times: the time is at most
    proportional to (vertices + cap) x (vertices + edges), however many cycles there are.
    """
    found = 0
    size = np.zeros(parts, np.int64)
    for vertex in range(n):
        size[member[vertex]] += 1
        for entry in range(begin[vertex], begin[vertex + 1]):
            if heads[entry] == vertex:
                found += 1
    if found >= cap:
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
                    found += 1
                    if found >= cap:
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
                free[0], frees = vertex, 1
                blocked[vertex] = False
                while frees:
                    frees -= 1
                    one = free[frees]
                    entry = waiting[one]
                    waiting[one] = -1
                    while entry >= 0:
                        listed[entry] = False
                        if blocked[source[entry]]:
                            blocked[source[entry]] = False
                            free[frees] = source[entry]
                            frees += 1
                        entry = following[entry]
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
        for number in range(touches):  # as before the root, for the next one
            vertex = touched[number]
            blocked[vertex], waiting[vertex] = False, -1
            for entry in range(begin[vertex], begin[vertex + 1]):
                listed[entry] = False
    return found


@numba.njit(nogil=True, cache=True)
def dense_tree(weights: Array) -> tuple[Array, Array]:
    """The maximum spanning tree of max(W, W^T) for square matrices [graph, n, n] (Prim): each vertex's parent and the weight of that edge.

    Both [graph, n]; the first vertex has parent -1.
    """
    graphs, n = weights.shape[0], weights.shape[1]
    parent, joined = np.full((graphs, n), -1, np.int64), np.zeros((graphs, n), weights.dtype)
    for graph in range(graphs):
        matrix, done = weights[graph], np.zeros(n, np.bool_)
        best = np.full(n, -1.0, weights.dtype)
        vertex = 0
        for _ in range(n - 1):
            done[vertex] = True
            following, highest = -1, -1.0
            for other in range(n):
                if done[other]:
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
def band_tree(band: Array, columns: Array, rows: Array, places: Array) -> Array:
    """Weights of the maximum spanning tree of a band with global tokens, as `dense_tree` gives them; tokens that do not see each other have 0."""
    graphs, n, width = band.shape
    reach = width // 2
    joined = np.zeros((graphs, n), band.dtype)
    for graph in range(graphs):
        number_of = np.full(n, -1, np.int64)
        for number in range(places.shape[1]):
            number_of[places[graph, number]] = number
        done, best = np.zeros(n, np.bool_), np.zeros(n, band.dtype)
        vertex = 0
        for _ in range(n - 1):
            done[vertex] = True
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
                for number in range(places.shape[1]):
                    other = places[graph, number]
                    weight = max(columns[graph, vertex, number], rows[graph, number, vertex])
                    best[other] = max(best[other], weight)
            following, highest = -1, -1.0
            for other in range(n):
                if not done[other] and best[other] > highest:
                    following, highest = other, best[other]
            vertex = following
            joined[graph, vertex] = best[vertex]
    return joined


@numba.njit(nogil=True, cache=True)
def other_edges(weights: Array, parent: Array, loops: bool) -> Array:
    """The weights of all edges of max(W, W^T) that are not in the tree, and of loops if asked: [graph, edge]."""
    graphs, n = weights.shape[0], weights.shape[1]
    out = np.empty((graphs, max(0, (n - 1) * (n - 2) // 2) + (n if loops else 0)), weights.dtype)
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


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})
def dense_sums(weights: Array) -> tuple[Array, Array, Array]:
    """Sums over square matrices [graph, n, n] in double precision.

    Of squares [graph]; of the cells one left of, on and one right of the diagonal [graph, 3]; of columns [graph, n].
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
def band_sums(
    band: Array, columns: Array, rows: Array, places: Array
) -> tuple[Array, Array, Array]:
    """The sums of `dense_sums` for a band with global columns and rows."""
    graphs, n, width = band.shape
    reach = width // 2
    squares, near, received = np.zeros(graphs), np.zeros((graphs, 3)), np.zeros((graphs, n))
    for graph in range(graphs):
        for query in range(n):
            for key in range(max(0, query - reach), min(n, query + reach + 1)):
                value = np.float64(band[graph, query, key - query + reach])
                squares[graph] += value * value
                received[graph, key] += value
                if -1 <= key - query <= 1:
                    near[graph, key - query + 1] += value
            for number in range(places.shape[1]):
                key = places[graph, number]
                value = np.float64(columns[graph, query, number])
                squares[graph] += value * value
                received[graph, key] += value
                if -1 <= key - query <= 1:
                    near[graph, key - query + 1] += value
        for number in range(places.shape[1]):
            query = places[graph, number]
            for key in range(n):
                value = np.float64(rows[graph, number, key])
                squares[graph] += value * value
                received[graph, key] += value
                if -1 <= key - query <= 1:
                    near[graph, key - query + 1] += value
    return squares, near, received
