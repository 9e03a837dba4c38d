"""Attention graphs of texts as a part of a figure: tokens in a circle, edges from a threshold.

Each graph has its undirected edges with their weights, down to a weight below which they are not
all known; connected components and cycles at any threshold above it follow exactly (graph.js).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.views.modules import View
from attlas.views.numbers import decimal, head_name
from attlas.views.picture import SANS, SOFT, heading_svg, shortened, stacked, xml_text
from attlas.views.section import Tables

GRAPH = View("graph", __name__.rpartition(".")[0])
MOST_TOKENS = 256  # so that a token is a byte
USUAL = 0.1  # the threshold that is shown first
SIZE = 520  # of a picture
CYCLES = "b1@0.1"  # the column by which a graph is chosen to be shown first
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class HeadGraph:
    """The edges of one head in one text, heaviest first; all with at least the weight `least`."""

    name: str
    text: int  # which of the texts of a part
    pairs: Ints  # edge 2: tokens; a loop has one twice
    weights: npt.NDArray[np.float32]  # edge
    least: float

    @classmethod
    def of_weights(
        cls, name: str, text: int, keys: tuple[Ints, Ints, Floats], least: float
    ) -> HeadGraph:
        """A graph from the queries, keys and weights of one head.

        An edge has the larger weight of its two directions.

        >>> one = HeadGraph.of_weights("L0H0", 0, ([0, 1, 1], [1, 0, 1], [0.25, 0.5, 0.75]), 0.1)
        >>> one.pairs.tolist(), one.weights.tolist()
        ([[1, 1], [0, 1]], [0.75, 0.5])
        """
        query, key, weight = (np.asarray(part) for part in keys)
        weight = np.asarray(weight, dtype=np.float32)
        known = weight >= np.float32(least)
        low, high = np.minimum(query, key)[known], np.maximum(query, key)[known]
        order = np.lexsort((high, low, -weight[known].astype(np.float64)))
        pairs = np.stack([low, high], -1)[order].astype(np.int64)
        _, first = np.unique(pairs, axis=0, return_index=True)
        first.sort()
        weights: npt.NDArray[np.float32] = weight[known][order][first].astype(np.float32)
        return cls(name, text, pairs[first], weights, least)

    def at(self, threshold: float) -> Ints:
        """The edges at a threshold, which is rounded as weights are: [edge, 2]."""
        return self.pairs[self.weights >= np.float32(threshold)]

    @property
    def data(self) -> dict[str, Any]:
        return {
            "head": self.name,
            "text": self.text,
            "least": self.least,
            "pairs": base64.b64encode(self.pairs.astype(np.uint8).tobytes()).decode(),
            "weights": base64.b64encode(self.weights.astype("<f4").tobytes()).decode(),
        }


@dataclass(frozen=True)
class GraphText:
    """The tokens of a text, and which keys each query sees: from, to; unknown if None."""

    text: str
    tokens: tuple[str, ...]
    seen: tuple[tuple[int, int], ...] | None = None
    words: tuple[int, ...] | None = None  # the word of each token

    @property
    def data(self) -> dict[str, Any]:
        seen = None if self.seen is None else [list(one) for one in self.seen]
        words = None if self.words is None else list(self.words)
        return {"text": self.text, "tokens": list(self.tokens), "seen": seen, "words": words}


@dataclass(frozen=True, eq=False)
class AttentionGraphs:
    """Attention graphs, one shown at a time, with a slider for the threshold."""

    texts: tuple[GraphText, ...]
    graphs: tuple[HeadGraph, ...]
    thresholds: tuple[float, ...]  # that have marks on the slider
    first: int = 0
    kept: str = "This page has the larger weights"
    view: View = field(default=GRAPH)

    @property
    def data(self) -> Any:
        return {
            "texts": [one.data for one in self.texts],
            "graphs": [one.data for one in self.graphs],
            "thresholds": list(self.thresholds),
            "first": self.first,
            "usual": USUAL,
            "kept": self.kept,
        }

    def html(self, number: int) -> str:
        return self.view.html(number, kind="attlas-graph")

    def pictures(self) -> list[str]:
        one = self.graphs[self.first]
        return [graph_svg(one, self.texts[one.text])]


def components(n: int, pairs: Ints) -> int:
    """How many connected components n tokens have with some edges.

    >>> components(4, np.array([[0, 1], [1, 2], [3, 3]]))
    2
    """
    of = list(range(n))

    def root(token: int) -> int:
        while of[token] != token:
            of[token] = of[of[token]]
            token = of[token]
        return token

    for one, other in pairs.tolist():
        of[root(one)] = root(other)
    return sum(root(token) == token for token in range(n))


def graph_svg(graph: HeadGraph, text: GraphText, threshold: float | None = None) -> str:
    """A graph at one threshold without a script."""
    threshold = max(USUAL, graph.least) if threshold is None else threshold
    n, edges = len(text.tokens), graph.at(threshold)
    pieces = components(n, edges)
    middle, radius = SIZE / 2, SIZE / 2 - 78
    angles = 2 * math.pi * (np.arange(n) + 0.5) / max(n, 1) - math.pi / 2
    x, y = middle + radius * np.cos(angles), middle + radius * np.sin(angles)
    parts = []
    for one, other in edges.tolist():
        if one == other:
            parts.append(_loop(angles[one], middle, radius))
            continue
        apart = min(other - one, n - other + one) / (n / 2)
        half = (one + other + (n if other - one > n / 2 else 0)) / 2
        turn, far = 2 * math.pi * (half + 0.5) / n - math.pi / 2, radius * (1 - apart)
        by_x, by_y = middle + far * math.cos(turn), middle + far * math.sin(turn)
        parts.append(
            f'<path d="M{x[one]:.1f} {y[one]:.1f}Q{by_x:.1f} {by_y:.1f} {x[other]:.1f} '
            f'{y[other]:.1f}" fill="none" stroke="#2068ab" stroke-opacity="0.6"/>'
        )
    for token, string in enumerate(text.tokens):
        degrees = math.degrees(angles[token])
        left = math.cos(angles[token]) < 0
        parts.append(
            f'<circle cx="{x[token]:.1f}" cy="{y[token]:.1f}" r="3" fill="#15181d"/>'
            f'<text transform="translate({middle:.0f} {middle:.0f}) rotate({degrees:.1f}) '
            f'translate({radius + 16:.0f} 0) rotate({180 if left else 0})" dy="4" fill="#15181d" '
            f'text-anchor="{"end" if left else "start"}">{xml_text(shortened(string, 9))}</text>'
        )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" '
        f'viewBox="0 0 {SIZE} {SIZE}"><g font-family="{SANS}" font-size="11">{"".join(parts)}'
        "</g></svg>"
    )
    cycles = len(edges) - n + pieces
    counts = _counted(pieces, "connected component"), _counted(cycles, "independent cycle")
    title = f"{graph.name}: {', '.join(counts)}"
    about = [f"{text.text}; {n} tokens, threshold {decimal(threshold, 3)}, loops count as cycles"]
    return stacked(heading_svg(title, about, SIZE), svg)


def _counted(count: int, word: str) -> str:
    """A count with its noun.

    >>> _counted(1, "independent cycle"), _counted(2, "independent cycle")
    ('1 independent cycle', '2 independent cycles')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


def _loop(angle: float, middle: float, radius: float) -> str:
    """A loop outside the circle."""
    x, y = (middle + (radius + 7) * one for one in (math.cos(angle), math.sin(angle)))
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" stroke="{SOFT}"/>'


def study_graphs(study: Tables, heads: pd.DataFrame) -> AttentionGraphs | None:
    """The graph of every head in the example text at the middle of its scores.

    `examples_keys` has the largest weights of each row; a graph is complete above the largest
    weight that may be missing.
    """
    keys = study.table("examples_keys").dropna()
    tokens = {
        place: part
        for place, part in study.table("examples_tokens").dropna().groupby("place")
        if len(part) <= MOST_TOKENS
    }
    by_head = dict(iter(keys.groupby(["layer", "head", "place"])))
    rows = _middle_examples(study.table("examples").dropna(subset=["quantile", "text"]))
    known = [
        row["place"] in tokens and (row["layer"], row["head"], row["place"]) in by_head
        for row in rows.to_dict("records")
    ]
    rows = rows[known]
    if rows.empty:
        return None
    places = list(dict.fromkeys(rows["place"]))
    names = rows.drop_duplicates("place").set_index("place")["text"]
    causal = not bool((keys["key"] > keys["query"]).any())
    banded = bool(study.manifest.get("model", {}).get("banded", True))
    texts = tuple(
        _example_text(str(names[place]), tokens[place], None if banded else causal)
        for place in places
    )
    kept = int(keys.groupby(["layer", "head", "place", "query"]).size().max())
    graphs = tuple(
        _example_graph(row, places, len(tokens[row["place"]]), by_head, kept)
        for row in rows.to_dict("records")
    )
    first, most = _first(heads, graphs), f"The study has the {kept} largest weights of each row"
    return AttentionGraphs(texts, graphs, _thresholds(heads), first, most)


def _middle_examples(examples: pd.DataFrame) -> pd.DataFrame:
    """The example of each head that is nearest to the middle of its scores."""
    rows = examples.assign(far=(examples["quantile"] - 0.5).abs())
    rows = rows.sort_values("far", kind="stable").drop_duplicates(["layer", "head"])
    return rows.sort_values(["layer", "head"], kind="stable")


def _example_text(name: str, tokens: pd.DataFrame, causal: bool | None) -> GraphText:
    n = len(tokens)
    seen = None if causal is None else tuple((0, at if causal else n - 1) for at in range(n))
    return GraphText(name, tuple(tokens.sort_values("token")["string"].astype(str)), seen)


def _example_graph(
    row: dict[Any, Any], places: list[int], n: int, by_head: dict[Any, pd.DataFrame], kept: int
) -> HeadGraph:
    """The graph of one head from the largest weights of its rows."""
    keys = by_head[row["layer"], row["head"], row["place"]]
    least = np.float32(0)
    if n > kept:
        rows = keys.groupby("query")["weight"].agg(["min", "size"])
        least = np.float32(rows.loc[rows["size"] == kept, "min"].max())
        least = np.nextafter(least, np.float32(1))
    parts = tuple(keys[name].to_numpy() for name in ("query", "key", "weight"))
    return HeadGraph.of_weights(head_name(row), places.index(row["place"]), parts, float(least))


def _thresholds(heads: pd.DataFrame) -> tuple[float, ...]:
    """The thresholds that a table of heads has numbers for."""
    names = [str(name) for name in heads.columns]
    known = [name for name in names if name.startswith("b0@")]
    plain = [name for name in known if not name.endswith(("_uniform", "_error"))]
    return tuple(float(name.partition("@")[2]) for name in plain)


def _first(heads: pd.DataFrame, graphs: Sequence[HeadGraph]) -> int:
    """The graph of the head with most cycles at the usual threshold."""
    if CYCLES not in heads:
        return 0
    known = heads.dropna(subset=["layer", "head", CYCLES])
    if known.empty:
        return 0
    best = head_name(known.loc[known[CYCLES].idxmax()].to_dict())
    return next((at for at, one in enumerate(graphs) if one.name == best), 0)
