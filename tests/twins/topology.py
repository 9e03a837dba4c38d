"""Slow twins of graphs, barcodes and templates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import networkx as nx
import numpy as np

import attlas
from attlas import topology
from attlas.models.model import Model
from attlas.stats.scores import mcc


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


def bootstrap_slowly(
    parts: list[np.ndarray], what: Callable[..., Any], spread: bool, draws: int = 1500
) -> np.ndarray:
    """The 95% bootstrap interval; with `spread`, one more text is any cell of the table."""
    rng, out = np.random.default_rng(1), []
    n, classes = len(parts[0]), max(part.max() for part in parts) + 1
    for _ in range(draws):
        chosen = rng.integers(0, n + spread, n)
        strange = rng.integers(0, classes, (len(parts), n))
        out.append(
            what(
                *(
                    np.where(chosen < n, part[chosen % n], any_)
                    for part, any_ in zip(parts, strange, strict=True)
                )
            )
        )
    return np.quantile(out, [0.025, 0.975], axis=0)


def mcc_slowly(labels: np.ndarray, guesses: np.ndarray) -> float:
    table = np.zeros((4, 4))
    for label, guess in zip(labels, guesses, strict=True):
        table[label, guess] += 1
    return float(mcc(table))


def row_slowly(
    model: Model, text: str, kinds: list[str], thresholds: tuple[float, ...]
) -> dict[str, float]:
    """The features of one text from its attention and the pure functions."""
    seen = attlas.attention(model, text)
    weights = np.asarray(seen.weights)
    out: dict[str, float] = {}
    for kind in kinds:
        for layer in range(weights.shape[0]):
            for head in range(weights.shape[1]):
                one = weights[layer, head]
                if kind == "betti":
                    beta0, beta1 = topology.betti(one, thresholds)
                    named = [(f"b0@{t:g}", v) for t, v in zip(thresholds, beta0, strict=True)]
                    named += [(f"b1@{t:g}", v) for t, v in zip(thresholds, beta1, strict=True)]
                else:
                    found = topology.digraph(one, thresholds)
                    named = [
                        (f"{name}@{t:g}", v)
                        for name, values in found._asdict().items()
                        for t, v in zip(thresholds, values, strict=True)
                    ]
                out.update({f"L{layer}.H{head}.{name}": float(value) for name, value in named})
    return out
