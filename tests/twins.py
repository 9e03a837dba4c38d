"""Slow twins: what the fast code must give, in loops anyone can check by eye. `head` is one head's
square matrix, `visible` what its queries see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import networkx as nx
import numpy as np


def each_head(
    twin: Callable[..., Any], weights: np.ndarray, *per_text: Sequence[Any], **options: Any
) -> np.ndarray:
    """A twin on every head of every text: weights [text, head, query, key], further arguments by
    text."""
    lists = np.asarray(weights, dtype=np.float64).tolist()
    return np.array(
        [
            [twin(head, *(argument[text] for argument in per_text), **options) for head in heads]
            for text, heads in enumerate(lists)
        ]
    )


def received(head):
    return [sum(row[key] for row in head) for key in range(len(head))]


def row_entropy(head):
    return [-sum(weight * math.log(weight) for weight in row if weight > 0) for row in head]


def mass_to(head, marked):
    return [sum(weight for key, weight in enumerate(row) if marked[key]) for row in head]


def by_offset(head, reach):
    out = [0.0] * (2 * reach + 3)
    for query, row in enumerate(head):
        for key, weight in enumerate(row):
            if key - query < -reach:
                out[0] += weight / len(head)
            elif key - query > reach:
                out[-1] += weight / len(head)
            else:
                out[1 + reach + key - query] += weight / len(head)
    return out


def top_keys(head, visible, keep=None, *, k):
    """(weight, position) pairs: [query, k, 2]."""
    out = []
    for query, row in enumerate(head):
        seen = [
            (weight, key)
            for key, weight in enumerate(row)
            if visible[query][key] and (keep is None or keep[key])
        ]
        best = sorted(seen, key=lambda cell: (-cell[0], cell[1]))[:k]
        out.append(best + [(0.0, -1)] * (k - len(best)))
    return out


def top_queries(head, visible, keep=None, *, k):
    return top_keys(turned(head), turned(visible), keep, k=k)


def grid(head, size, span=None):
    """Attention between bins: every cell spread over the bins its query and key lie in, then a
    mean over each bin's queries."""
    n = len(head)
    length = (n if span is None else span) / size

    def share(token, number):
        return max(0.0, min(token + 1, (number + 1) * length) - max(token, number * length))

    out = [[0.0] * size for _ in range(size)]
    for row in range(size):
        held = sum(share(query, row) for query in range(n))
        for column in range(size):
            mass = sum(
                share(query, row) * share(key, column) * head[query][key]
                for query in range(n)
                for key in range(n)
            )
            out[row][column] = mass / held if held > 1e-12 else 0.0
    return out


def turned(matrix):
    return [[row[column] for row in matrix] for column in range(len(matrix))]


def n_visible_keys(visible):
    return [sum(map(bool, row)) for row in visible]


def n_visible_queries(visible):
    return n_visible_keys(turned(visible))


def uniform(visible):
    return [
        [1 / seen if sees else 0.0 for sees in row]
        for row, seen in zip(visible, n_visible_keys(visible), strict=True)
    ]


def to_words(head, of):
    """To a word: the sum over its tokens; from a word: the mean."""
    of = list(of)
    out = np.zeros((max(of) + 1,) * 2)
    for query, row in enumerate(head):
        for key, weight in enumerate(row):
            out[of[query], of[key]] += weight / of.count(of[query])
    return out


def visible_words(visible, of):
    """A word sees another if one of its tokens sees one of the other's."""
    out = np.zeros((max(of) + 1,) * 2, dtype=bool)
    for query, row in enumerate(visible):
        for key, sees in enumerate(row):
            out[of[query], of[key]] |= bool(sees)
    return out


def surface(head, cls, sep, punctuation):
    """Clark et al. 2019, figure 2: masked attention over the number of rows it could come from;
    NaN if there is no such row or token."""
    n = len(head)
    rest = [not mark for mark in sep]

    def share(cells, rows):
        return sum(head[query][key] for query, key in cells) / rows if rows else math.nan

    def cells(queries, keys):
        return [
            (query, key) for query in range(n) for key in range(n) if queries[query] and keys[key]
        ]

    every = [True] * n
    return [
        share([(query, query) for query in range(n)], n),
        share([(query, query - 1) for query in range(1, n)], n),
        share([(query, query + 1) for query in range(n - 1)], n),
        share([(query, 0) for query in range(n)], n),
        share(cells(every, cls), n if any(cls) else 0),
        share(cells(every, sep), n if any(sep) else 0),
        share(cells(sep, sep), sum(sep)),
        share(cells(rest, sep), sum(rest) if any(sep) else 0),
        share(cells(every, punctuation), n),
    ]


def totals(layers, visibles):
    """Of one text, [layer][head][query][key] and [layer][query][key]: by token `all`, `uniform`,
    `all_per_query`, `L0`, ..., `L0_per_query`, ..."""
    n = len(visibles[0])
    out = []
    for token in range(n):
        got = [sum(row[token] for head in heads for row in head) / len(heads) for heads in layers]
        even = [sum(row[token] for row in uniform(visible)) for visible in visibles]
        per_query = [
            total / n_visible_queries(visible)[token]
            for total, visible in zip(got, visibles, strict=True)
        ]
        out.append(
            [
                sum(got) / len(got),
                sum(even) / len(even),
                sum(per_query) / len(per_query),
                *got,
                *per_query,
            ]
        )
    return out


def at_each(
    twin: Callable[..., Any], weights: Any, thresholds: Sequence[float], **options: Any
) -> np.ndarray:
    """A twin on every graph [..., n, n] at every threshold: [..., threshold, number]. Which
    weights reach a threshold is what numpy or torch says."""
    lead = tuple(weights.shape[:-2])
    found = [
        [twin((weights[place] >= threshold).tolist(), **options) for threshold in thresholds]
        for place in np.ndindex(lead)
    ]
    return np.array(found).reshape(*lead, len(thresholds), -1)


def betti(edges, loops):
    """Components and independent cycles of one graph of networkx: `edges` [query][key] says which
    weights reach the threshold."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(edges)))
    graph.add_edges_from(
        (query, key)
        for query, key in np.argwhere(np.array(edges)).tolist()
        if loops or query != key
    )
    components = nx.number_connected_components(graph)
    return components, graph.number_of_edges() - graph.number_of_nodes() + components


def digraph(edges, cap):
    """Strong components, edges with loops, mean degree, simple cycles up to `cap` and mutual pairs
    of one graph of networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(edges)))
    graph.add_edges_from(np.argwhere(np.array(edges)).tolist())
    degrees = [degree for _, degree in graph.degree()]
    return (
        nx.number_strongly_connected_components(graph),
        graph.number_of_edges(),
        sum(degrees) / len(degrees),
        sum(1 for _ in islice(nx.simple_cycles(graph), cap)),
        sum(graph.has_edge(key, query) for query, key in graph.edges if query < key),
    )


def spread(lengths):
    """Sum and entropy of lengths."""
    total = sum(lengths)
    return total, -sum(length / total * math.log(length / total) for length in lengths)


def rips(head):
    """The 14 numbers of a head's Rips barcode, from all triangles."""
    import gudhi

    head = np.asarray(head, dtype=np.float64).tolist()
    near = [[weight if weight > 1e-3 else 0.0 for weight in row] for row in head]
    distance = [
        [
            0.0 if query == key else 1 - max(near[query][key], near[key][query])
            for key in range(len(head))
        ]
        for query in range(len(head))
    ]
    tree = gudhi.RipsComplex(distance_matrix=distance).create_simplex_tree(max_dimension=2)
    tree.compute_persistence()
    h0, h1 = (
        [
            bar
            for bar in tree.persistence_intervals_in_dimension(dimension).tolist()
            if math.isfinite(bar[1])
        ]
        for dimension in (0, 1)
    )
    deaths, births, lengths = (
        [bar[1] for bar in h0],
        [bar[0] for bar in h1],
        [death - birth for birth, death in h1],
    )
    mean = sum(lengths) / max(len(lengths), 1)
    longest = max(
        zip(lengths, births, strict=True), key=lambda bar: (bar[0], -bar[1]), default=(0, 0)
    )
    return [
        *spread(deaths),
        max(deaths, default=0),
        sum(death >= 0.75 for death in deaths),
        sum(death >= 0.5 for death in deaths),
        sum(death <= 0.25 for death in deaths),
        longest[1],
        sum(birth >= 0.25 for birth in births),
        sum(birth <= 0.95 for birth in births),
        sum(birth <= 0.7 for birth in births),
        *spread(lengths),
        math.sqrt(sum((length - mean) ** 2 for length in lengths) / max(len(lengths), 1)),
        len(lengths),
    ]


def templates(head, comma, full_stop, separator):
    """|A - T| / sqrt(|A|^2 + |T|^2) for each template T, written out in full."""
    n = len(head)

    def square(cell):
        return [[float(cell(query, key)) for key in range(n)] for query in range(n)]

    def norm(matrix):
        return math.sqrt(sum(cell**2 for row in matrix for cell in row))

    def evenly(marked):
        return square(lambda query, key: marked[key] / max(sum(marked), 1))

    patterns = [
        square(lambda query, key: key == query),
        square(lambda query, key: key == 0),
        square(lambda query, key: key == query - 1),
        square(lambda query, key: key == query + 1),
        evenly(comma),
        evenly(full_stop),
        evenly(separator),
    ]
    return [
        norm(square(lambda query, key, pattern=pattern: head[query][key] - pattern[query][key]))
        / math.hypot(norm(head), norm(pattern))
        for pattern in patterns
    ]
