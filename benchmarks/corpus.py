"""Texts of mixed lengths for benchmarks, made from the embedded corpora."""

from __future__ import annotations

import random

import attlas


def mixed(count: int, seed: int = 0, longest: int = 8) -> list[str]:
    """Texts of one to `longest` embedded texts each: a few to some hundred tokens, mostly short."""
    pieces = [text.text for text in attlas.read("embedded:all")]
    draw = random.Random(seed)
    sizes = [1, 1, 1, 1, 2, 2, 3, 4, longest]
    return [" ".join(draw.choices(pieces, k=draw.choice(sizes))) for _ in range(count)]
