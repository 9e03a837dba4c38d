"""Texts, rows and documents that tests read."""

from __future__ import annotations

import numpy as np

SENTENCE = "the cat sat on the mat and saw a dog , not very good . it was in the mat"

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "saw",
    "on",
    "mat",
    "and",
    "with",
    "it",
    "was",
    "not",
    "very",
    "good",
    "bad",
]


def sentences(count: int, seed: int = 0, longest: int = 12) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(1, longest))) + " ." for _ in range(count)]
