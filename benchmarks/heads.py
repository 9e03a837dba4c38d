"""Heads: divergences between all heads vs. pair by pair, and the tree probe vs. one by one.

The treebank is UD-EWT's train in the folder ATTLAS_DATA (ud_ewt); if that is not set, the embedded
sentences are repeated.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.table import Row, best_of

TEXTS, TOKENS, SMOOTHING = 4, 128, 0.001
SENTENCES, ALONE = 12_000, 200


def layers_of() -> list[list[Any]]:
    """All layers of a few texts of 128 tokens, a batch each."""
    import attlas
    from attlas.testing import stream

    reviews = [text.text for text in attlas.read("embedded:reviews")]
    joined = [" ".join(reviews[start : start + 12]) for start in range(0, 12 * TEXTS, 12)]
    return stream(attlas.load(max_length=TOKENS), joined)


def ours(batches: list[list[Any]]) -> Any:
    from attlas.measures.head_distance import divergences

    return sum(divergences(layers, SMOOTHING)[0] for layers in batches)


def pair_by_pair(batches: list[list[Any]], kind: type[np.floating[Any]] = np.float32) -> Any:
    """As in the paper's code: each ordered pair, both smoothed anew, in numpy at half precision."""
    total: Any = 0
    for layers in batches:
        heads = np.concatenate([layer.dense().weights[0].numpy() for layer in layers]).astype(
            kind
        )  # head query key
        n = heads.shape[-1]
        divergences = np.zeros((len(heads),) * 2)
        for one in range(len(heads)):
            for other in range(len(heads)):
                left, right = (
                    kind(1 - SMOOTHING) * heads[head] + kind(SMOOTHING / n) for head in (one, other)
                )
                middle = (left + right) / kind(2)
                apart = left * np.log(left / middle) + right * np.log(right / middle)
                divergences[one, other] = apart.sum() / 2
        total = total + divergences
    return total


def treebank() -> tuple[str, list[Any]]:
    """12,000 sentences with trees, and what they are."""
    import attlas
    from attlas.core.text import Text

    root = os.environ.get("ATTLAS_DATA")
    if root:
        from attlas.papers.data import require_file

        path = require_file(Path(root), "ud_ewt", "en_ewt-ud-train.conllu")
        return "of EWT", list(attlas.read(path))[:SENTENCES]
    few = list(attlas.read("embedded:sentences"))
    repeated = [few[number % len(few)] for number in range(SENTENCES)]
    texts = [
        Text(str(n), words=one.words, annotations=one.annotations) for n, one in enumerate(repeated)
    ]
    return f"({len(few)} embedded ones repeated)", texts


def alone(texts: list[Any], heads: int, size: int) -> float:
    """Seconds to train the paper's attention-and-words probe, one sentence at a time.

    On random numbers of the same shapes; a layer over the vectors of every pair.
    """
    layer = torch.nn.Linear(2 * size, 2 * heads)
    optimizer = torch.optim.Adam(layer.parameters(), 0.002)
    random = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    for text in texts:
        n = len(text.words)
        weights, vectors = (
            torch.rand(n, n, 2 * heads, generator=random),
            torch.rand(n, size, generator=random),
        )
        pairs = torch.cat(
            [vectors[:, None].expand(n, n, size), vectors[None].expand(n, n, size)], -1
        )
        scores = (layer(pairs) * weights).sum(-1)
        loss = torch.nn.functional.cross_entropy(scores.T, torch.arange(n))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - began


def rows() -> Iterator[Row]:
    import attlas
    from attlas.models.vectors import ModelVectors
    from attlas.tree import TreeProbe

    model = attlas.load()
    heads, batches = model.n_layers * model.n_heads, layers_of()
    assert np.allclose(ours(batches), pair_by_pair(batches), rtol=1e-3, atol=1e-3)
    mine, theirs = best_of(lambda: ours(batches), lambda: pair_by_pair(batches), repeats=1)
    began = time.perf_counter()
    pair_by_pair(batches[:1], np.float16)
    half = time.perf_counter() - began
    yield Row(
        f"distances of {heads} heads, a text of {TOKENS} tokens, one core",
        mine / TEXTS,
        "the paper's way, in half precision",
        half,
        "at most 0.02",
    )
    yield Row(
        f"the same, {TEXTS} texts", mine, "pair by pair, in float32", theirs, "as small as can be"
    )
    which, texts = treebank()
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        TreeProbe(model, "attention", cache=cache, epochs=1, progress=False).fit(texts)
        reading = time.perf_counter() - began
        for features in ("attention", "attention_words"):
            probe = TreeProbe(model, features, cache=cache, progress=False)
            began = time.perf_counter()
            probe.fit(texts)
            seconds, epochs = time.perf_counter() - began, len(probe.history_)
            what = f"tree probe, {features}, {epochs} epochs, {len(texts):,} sentences {which}"
            if features == "attention":
                yield Row(what, seconds, "reading them once, and one epoch", reading, "minutes")
            else:
                slow = (
                    alone(texts[:ALONE], heads, ModelVectors(model).size)
                    * len(texts)
                    / ALONE
                    * epochs
                )
                yield Row(
                    what, seconds, f"a sentence at a time (from {ALONE} of them)", slow, "minutes"
                )
