"""Slow twins of syntax."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from attlas import Model, Text
from attlas.core.annotations import (
    DEPENDENCIES,
    ROOT,
)
from attlas.syntax.arcs import DIRECTIONS, OFFSETS, PUBLISHED_OFFSETS
from attlas.testing import stream

# loops that can be checked by eye


def between_slowly(model: Model, text: Text) -> tuple[list[str], np.ndarray]:
    """The words of a text, special tokens among them, and weights [layer, head, word, word].

    To a word the sum over its tokens, from a word the mean.
    """
    [layers] = stream(model, [text])
    words = layers[0].batch.words[0]
    of = words.of.tolist()
    out = np.zeros((len(layers), layers[0].n_heads, len(words), len(words)))
    for number, layer in enumerate(layers):
        weights = layer.dense().weights[0].numpy()
        for query, mine in enumerate(of):
            for key, theirs in enumerate(of):
                out[number, :, mine, theirs] += weights[:, query, key] / of.count(mine)
    return list(words.strings), out


def own_words(model: Model, text: Text) -> list[int]:
    """Which of all words are the text's own, in order; the tests' words are all seen."""
    [layers] = stream(model, [text])
    source = layers[0].batch.words[0].source
    own = [word for word, place in enumerate(source) if place >= 0]
    assert [source[word] for word in own] == list(range(len(text.words or ())))
    return own


Answers = dict[
    tuple[str, int, int], list[bool]
]  # direction, layer, head: right or wrong, case by case


def arcs_slowly(
    model: Model, texts: Sequence[Text], published: bool = False
) -> dict[str, tuple[Answers, dict[int, list[bool]]]]:
    """relation -> what each head and each offset gets right, over all words in order."""
    out: dict[str, tuple[Answers, dict[int, list[bool]]]] = {}
    for text in texts:
        own = own_words(model, text)
        weights = between_slowly(model, text)[1][:, :, own][:, :, :, own]
        tree = text.annotations[DEPENDENCIES]
        for word, (gold, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if not published and (gold == ROOT or relation.split(":")[0] in ("root", "punct")):
                continue
            for name in ("all", relation):
                heads, offsets = out.setdefault(name, (defaultdict(list), defaultdict(list)))
                for layer, head in np.ndindex(weights.shape[:2]):
                    square = weights[layer, head].copy()
                    np.fill_diagonal(square, -1)
                    for direction, row in zip(
                        DIRECTIONS, (square[word], square[:, word]), strict=True
                    ):
                        heads[direction, layer, head].append(
                            row.max() > 0 and int(row.argmax()) == gold
                        )
                for offset in PUBLISHED_OFFSETS if published else OFFSETS:
                    there = word + offset
                    if published:
                        there = min(max(there, ROOT), len(own) - 1)
                    offsets[offset].append(there == gold)
    return out


def most_slowly(head, of, count):
    """For each word the other word it attends to most, and the one that attends to it most; none
    that has a weight of 0."""
    tokens = [[token for token, word in enumerate(of) if word == one] for one in range(count)]

    def between(source, target):
        return sum(head[query][key] for query in tokens[source] for key in tokens[target]) / len(
            tokens[source]
        )

    attended, attending = [-1] * count, [-1] * count
    there = [word for word in range(count) if tokens[word]]
    for word in there:
        given = {other: between(word, other) for other in there if other != word}
        got = {other: between(other, word) for other in there if other != word}
        for found, weights in ((attended, given), (attending, got)):
            if any(weights.values()):
                found[word] = max(
                    weights, key=lambda other, weights=weights: (weights[other], -other)
                )
    return attended, attending
