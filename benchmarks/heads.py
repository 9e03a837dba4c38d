"""Heads: all divergences between heads beside the paper's pair-by-pair procedure, and the time of the tree probe for 12,000 sentences beside one sentence at a time.

Treebanks are taken from the folder named by ATTLAS_DATA (as UD-EWT's train in ud_ewt), else the embedded sentences are repeated.
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

TEXTS, TOKENS = 4, 128
SENTENCES, ALONE = 12_000, 200


def layers_of(model: Any) -> list[list[Any]]:
    """All layers of a few texts of 128 tokens, a batch each."""
    import attlas
    from attlas.testing import stream

    reviews = [text.text for text in attlas.read("embedded:reviews")]
    joined = [" ".join(reviews[start : start + 12]) for start in range(0, 12 * TEXTS, 12)]
    return stream(attlas.load(max_length=TOKENS), joined)


def ours(batches: list[list[Any]]) -> np.ndarray:
    from attlas.measures.head_distance import divergences

    return sum(divergences(layers, 0.001)[0] for layers in batches)


def pair_by_pair(batches: list[list[Any]]) -> np.ndarray:
    """As the paper's code: every ordered pair in turn, both smoothed anew, in numpy."""
    total: Any = 0
    for layers in batches:
        heads = np.concatenate([layer.dense().weights[0].numpy() for layer in layers])  # head query key
        n = heads.shape[-1]
        found = np.zeros((len(heads),) * 2)
        for one in range(len(heads)):
            for other in range(len(heads)):
                left, right = (0.999 * heads[head] + 0.001 / n for head in (one, other))
                middle = (left + right) / 2
                apart = left * np.log(left / middle) + right * np.log(right / middle)
                found[one, other] = apart.sum() / 2
        total = total + found
    return total


def treebank() -> list[Any]:
    """12,000 sentences with trees."""
    import attlas
    from attlas.core.text import Text

    root = os.environ.get("ATTLAS_DATA")
    if root:
        return list(attlas.read(Path(root) / "ud_ewt" / "en_ewt-ud-train.conllu.gz"))[:SENTENCES]
    few = list(attlas.read("embedded:sentences"))
    return [Text(str(n), words=one.words, annotations=one.annotations) for n in range(SENTENCES) for one in [few[n % len(few)]]]  # fmt: skip


def alone(probe: Any, texts: list[Any], heads: int, size: int) -> float:
    """Seconds of the paper's training of attention and words for some sentences: one at a time, a layer over the vectors of every pair."""
    layer = torch.nn.Linear(2 * size, 2 * heads)
    optimizer = torch.optim.Adam(layer.parameters(), 0.002)
    random = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    for text in texts:
        n = len(text.words)
        weights, vectors = torch.rand(n, n, 2 * heads, generator=random), torch.rand(n, size, generator=random)
        pairs = torch.cat([vectors[:, None].expand(n, n, size), vectors[None].expand(n, n, size)], -1)
        scores = (layer(pairs) * weights).sum(-1)
        loss = torch.nn.functional.cross_entropy(scores.T, torch.arange(n))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - began


def rows() -> Iterator[Row]:
    import attlas
    from attlas.probes import TreeProbe

    model = attlas.load()
    batches = layers_of(model)
    assert np.allclose(ours(batches), pair_by_pair(batches[:1]) if len(batches) == 1 else sum(pair_by_pair([b]) for b in batches), rtol=1e-3, atol=1e-3)  # fmt: skip
    mine, theirs = best_of(lambda: ours(batches), lambda: pair_by_pair(batches), repeats=1)
    yield Row(
        f"distances between 72 heads, {TEXTS} texts of {TOKENS} tokens, one core",
        mine,
        "pair by pair in numpy",
        theirs,
        "at most .02",
    )
    texts = treebank()
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        TreeProbe(model, "attention", cache=cache, epochs=1, progress=False).fit(texts)
        reading = time.perf_counter() - began
        for features in ("attention", "attention_words"):
            probe = TreeProbe(model, features, cache=cache, progress=False)
            began = time.perf_counter()
            probe.fit(texts)
            seconds = time.perf_counter() - began
            epochs = len(probe.history_)
            if features == "attention":
                yield Row(
                    f"reading {len(texts):,} sentences (and one epoch)",
                    reading,
                    f"fitting {features}, {epochs} epochs",
                    seconds,
                    "minutes",
                )
                continue
            slow = alone(probe, texts[:ALONE], model.n_layers * model.n_heads, 384) * len(texts) / ALONE * epochs
            yield Row(
                f"tree probe, {features}, {epochs} epochs, {len(texts):,} sentences",
                seconds,
                f"a sentence at a time (from {ALONE} of them)",
                slow,
                "minutes",
            )
