"""Documents with mentions."""

from __future__ import annotations

import numpy as np

from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    KINDS,
    ROOT,
    Coreference,
    Dependencies,
    Mention,
)
from attlas.core.text import Text


def words_of(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARY = words_of(
    "the a his king queen cats cat dog he she it they i you woman Mary Smith Mr . 's "
    "unbelievable sat"
)


def make_document(
    rng: np.random.Generator, length: int, name: str = "0", around: bool = False
) -> Text:
    """A document of `length` words: sentences, a tree, and nested and crossing mentions."""
    words = tuple(rng.choice(VOCABULARY, length).tolist())
    spans = set()
    for _ in range(int(rng.integers(0, length + 1))):
        start = int(rng.integers(length))
        spans.add((start, min(length, start + int(rng.integers(1, 5)))))
    mentions = tuple(
        Mention(
            start,
            stop,
            int(rng.integers(start, stop)),
            str(rng.integers(1 + length // 4)),
            str(rng.choice(KINDS)),
        )
        for start, stop in sorted(spans, key=lambda span: (span[0], -span[1]))
    )
    sentences = tuple(sorted({0, *rng.integers(0, length, length // 5).tolist()}))
    heads, stops = [], [*sentences[1:], length]
    for start, stop in zip(sentences, stops, strict=True):
        heads += [ROOT if word == start else start for word in range(start, stop)]
    tree = Dependencies(tuple(heads), tuple(f"r{word}" for word in range(length)), ("X",) * length)
    notes = {
        COREFERENCE: Coreference(mentions, sentences, around),
        DEPENDENCIES: tree,
        "where": f"row {name}",
    }
    return Text(name, words=words, label="news", annotations=notes)
