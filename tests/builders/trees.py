"""Sentences with a dependency tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attlas import Text
from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies

WORDS = (
    "the",
    "cat",
    "dog",
    "sat",
    "saw",
    "mat",
    "unseeing",
    "films",
    "he",
    ".",
    "was",
    "very",
    "good",
    "x1",
)


def text(
    number: int, words: Sequence[str], heads: Sequence[int] | None = None, **more: Any
) -> Text:
    chain = heads or [*range(1, len(words)), ROOT]
    relations = tuple("punct" if word == "." else "dep:sub" for word in words)
    tree = Dependencies(tuple(chain), relations, ("",) * len(words))
    return Text(str(number), words=tuple(words), annotations={DEPENDENCIES: tree, **more})


def corpus(count: int, seed: int = 0) -> list[Text]:
    rng = np.random.default_rng(seed)
    return [
        text(number, [str(word) for word in rng.choice(WORDS, rng.integers(1, 9))])
        for number in range(count)
    ]
