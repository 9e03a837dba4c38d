"""Relations: vectors of triples vs. one forward pass per triple, and our reader vs. scikit-learn's.

The reader is fitted on random data of T-REx's size (3,400 triples, 432 features, 95 classes), drawn
around one centre per class.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.table import Row, best_of

TEXTS, CANDIDATES = 12, 20
TRIPLES, FEATURES, CLASSES = 3400, 432, 95
DIRECTIONS = ((0, 2), (2, 1), (0, 1), (2, 0), (1, 2), (1, 0))  # parts: head, tail, words


def one_at_a_time(model: Any, texts: list[Any], cases: list[Any]) -> Any:
    """As in the paper's code: a forward pass per triple, word pieces pooled, six cells per map."""
    vectors = []
    model.network.set_attn_implementation("eager")
    for case in cases:
        string = texts[case.text].text
        encoded = model.tokenizer(string, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].numpy()
        with torch.no_grad():
            maps = model.network(**encoded, output_attentions=True).attentions
        square = torch.cat(maps).flatten(0, 1).numpy()  # map query key
        inside = [
            (offsets[:, 0] < stop) & (offsets[:, 1] > start) & (offsets[:, 1] > offsets[:, 0])
            for start, stop in case.spans
        ]
        vector = []
        for one, other in DIRECTIONS:
            for attention in square:
                vector.append(attention[inside[one]][:, inside[other]].sum(1).mean())
        vectors.append(vector)
    return np.array(vectors, dtype=np.float32)


def rows() -> Iterator[Row]:
    """Vectors, then the reader."""
    import attlas
    from attlas.relations.candidates import draw_cases, related_texts
    from attlas.relations.vectors import read_case_vectors

    model, plain = attlas.load(), attlas.load()
    texts = related_texts("embedded:relations")[:TEXTS]
    cases = draw_cases(
        texts, words=True, count=CANDIDATES - 1, seed=0, published=False, parser="rules"
    )
    kept: dict[str, Any] = {}

    def ours() -> None:
        kept["ours"] = read_case_vectors(model, texts, cases).attention.reshape(len(cases), -1)

    def theirs() -> None:
        kept["theirs"] = one_at_a_time(plain, texts, cases)

    fast, slow = best_of(ours, theirs, repeats=1)
    assert np.abs(kept["ours"] - kept["theirs"]).max() < 1e-4
    yield Row(
        f"vectors of {len(cases)} triples of {len(texts)} sentences",
        fast,
        "one triple, one pass at a time",
        slow,
        "0.05",
    )
    yield from reader_rows()


def reader_rows() -> Iterator[Row]:
    """All penalties of a 95-way reader, vs. one of scikit-learn's at the same tolerance."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from attlas.stats.linear import GRID, by_macro_f1, fit_reader

    rng = np.random.default_rng(0)
    classes = rng.integers(CLASSES, size=TRIPLES)
    mixing = rng.normal(size=(FEATURES, FEATURES)) * np.geomspace(1, 0.05, FEATURES)
    centres, noise = rng.normal(size=(CLASSES, FEATURES)), rng.normal(size=(TRIPLES, FEATURES))
    x = ((centres[classes] + noise) @ mixing.T).astype(np.float32)
    names = np.array([f"P{number}" for number in classes])
    held_out = rng.random(TRIPLES) < 0.2
    train, train_names = x[~held_out], names[~held_out].tolist()
    dev = x[held_out], names[held_out].tolist()
    began = time.perf_counter()
    fit_reader(train, train_names, dev, by_macro_f1)
    ours = time.perf_counter() - began
    scaled = StandardScaler().fit_transform(train)
    began = time.perf_counter()
    LogisticRegression(C=1.0, tol=1e-5, max_iter=1000).fit(scaled, train_names)
    theirs = time.perf_counter() - began
    yield Row(
        f"95-way reader, {len(GRID)} penalties, tuned and calibrated",
        ours,
        "scikit-learn, one penalty",
        theirs,
        "under 120 s",
    )
