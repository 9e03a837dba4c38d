"""Sentences of one triple each."""

from __future__ import annotations

import numpy as np

NAMES = ["Ann", "Ben", "Eve", "Tom", "Kim", "Sam", "Lea", "Ida", "Una", "Ole"]


STATED = (("taught", "teacher"), ("was married to", "spouse"), ("hired", "boss"))


def rows(count: int, seed: int = 0, worded: bool = True) -> list[dict[str, object]]:
    """Sentences of one triple each, of three relations; the words say which."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(count):
        head, tail, other = rng.permutation(NAMES)[:3].tolist()
        words, relation = STATED[number % 3]
        triple = {"head": head, "tail": tail, "relation": relation} | (
            {"relation_words": words} if worded else {}
        )
        text = f"In the old town {head} {words} {tail} before {other} left the house."
        out.append({"id": f"{seed}-{number}", "text": text, "triples": [triple]})
    return out
