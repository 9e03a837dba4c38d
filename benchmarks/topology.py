"""Betti numbers of all heads vs. one networkx graph per head and threshold, and vs. forward."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import torch

import attlas
from attlas.catalogue import MEASURES
from attlas.core.attention import Attention
from attlas.core.measure import Outputs
from attlas.core.text import Text
from attlas.topology import betti
from attlas.topology.experiment import THRESHOLDS
from benchmarks.table import Row, best_of

LENGTHS = (16, 64, 128, 256, 512)
HEADS_BY_NETWORKX = 12  # of the 72; the rest would take as long again and again


def text_of(model: Any, tokens: int, seed: int = 0) -> str:
    """A text of exactly this many tokens, from the embedded corpora."""
    draw = random.Random(seed)
    text = " ".join(draw.sample([text.text for text in attlas.read("embedded:all")], 80))
    encoded = replace(model.encoder, max_length=tokens).encode([(0, Text("0", text))])[0]
    return text[: encoded.offsets[-2][1]]  # as many pieces as come before [SEP]


def by_networkx(weights: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """Reference: a graph for each head and threshold, filled by numpy, its components counted."""
    zero, one = [], []
    for matrix in weights:
        rows = []
        for threshold in THRESHOLDS:
            graph = nx.Graph()
            graph.add_nodes_from(range(len(matrix)))
            graph.add_edges_from(np.argwhere(matrix >= threshold).tolist())
            pieces = nx.number_connected_components(graph)
            rows.append((pieces, graph.number_of_edges() - len(matrix) + pieces))
        zero.append([row[0] for row in rows])
        one.append([row[1] for row in rows])
    return zero, one


def by_the_papers_code(weights: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """Reference, as in the papers' code: a directed multigraph, then an undirected graph."""
    zero, one = [], []
    for matrix in weights:
        rows = []
        for threshold in THRESHOLDS:
            directed = nx.from_numpy_array(
                np.where(matrix >= threshold, matrix, 0), create_using=nx.MultiDiGraph
            )
            graph = nx.Graph(directed.to_undirected())
            pieces = nx.number_connected_components(graph)
            rows.append((pieces, graph.number_of_edges() - len(matrix) + pieces))
        zero.append([row[0] for row in rows])
        one.append([row[1] for row in rows])
    return zero, one


def layers_of(model: Any, texts: list[str]) -> tuple[Any, list[Attention]]:
    batch = next(
        iter(
            model.batches(
                model.encode([(index, Text(str(index), text)) for index, text in enumerate(texts)])
            )
        )
    )
    kept: list[Attention] = []
    model.forward(batch, kept.append)
    return batch, kept


def rows() -> Iterator[Row]:
    model = attlas.load()
    for tokens in LENGTHS:
        weights = (
            attlas.attention(model, text_of(model, tokens))
            .weights.numpy()
            .reshape(-1, tokens, tokens)
        )
        some = weights[:: len(weights) // HEADS_BY_NETWORKX][:HEADS_BY_NETWORKX]
        for name, way in (
            ("networkx, edges added at once", by_networkx),
            ("networkx, the papers' code", by_the_papers_code),
        ):
            assert [part.tolist() for part in betti(some)] == list(way(some))
            ours, theirs = best_of(
                lambda weights=weights: betti(weights),
                lambda some=some, way=way: way(some),
                repeats=6,
            )
            yield Row(
                f"Betti numbers of 72 heads, {tokens} tokens",
                1e3 * ours,
                name,
                1e3 * theirs * len(weights) / len(some),
                aim="at most 0.01 at 64",
                unit="ms",
            )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a study: each worker computes with one thread
    try:
        for name in ("betti", "digraph", "templates"):
            for tokens in LENGTHS:
                yield vs_forward(model, name, tokens)
    finally:
        torch.set_num_threads(threads)


def vs_forward(model: Any, name: str, tokens: int) -> Row:
    """The update of a measure on all layers of a batch vs. the forward pass, without capture."""
    texts = [text_of(model, tokens, seed) for seed in range(max(1, 1024 // tokens))]
    batch, kept = layers_of(model, texts)
    measure: Any = MEASURES[name]()

    def measured() -> None:
        state = measure.start(model)
        for layer in kept:
            layer.forget()
            measure.update(state, layer)
        measure.finish_batch(state, batch, Outputs())

    def forward() -> None:
        with torch.no_grad():
            model.network(input_ids=batch.ids)

    ours, theirs = best_of(measured, forward, repeats=5)
    aim = "below 0.1" if name == "betti" else "none"
    return Row(
        f"{name} of all heads, {len(texts)} x {tokens} tokens",
        1e3 * ours,
        "the forward pass",
        1e3 * theirs,
        aim,
        "ms",
    )
