"""Slow twins of trees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from attlas import Model, Text
from attlas.core.annotations import DEPENDENCIES, ROOT
from attlas.testing import stream


def is_tree(heads: Sequence[int]) -> bool:
    for word in range(len(heads)):
        met = set()
        while word != ROOT:
            if word in met:
                return False
            met.add(word)
            word = heads[word]
    return list(heads).count(ROOT) == 1


def total(scores: np.ndarray, heads: Sequence[int]) -> float:
    return sum(scores[head + 1, word] for word, head in enumerate(heads))


def best_slowly(scores: np.ndarray) -> float:
    n = scores.shape[1]
    trees = [heads for heads in itertools.product(range(-1, n), repeat=n) if is_tree(heads)]
    return max(total(scores, heads) for heads in trees)


def block_slowly(model: Model, one: Text) -> np.ndarray:
    """[word, word + 4, head] by loops over tokens: to a word the sum, from a word the mean."""
    [layers] = stream(model, [one])
    batch = layers[0].batch
    words = batch.words[0]
    own = [word for word, source in enumerate(words.source) if source >= 0]
    of = words.of.tolist()
    maps = np.concatenate([layer.dense().weights[0].numpy() for layer in layers])  # head query key
    out = np.zeros((len(own), len(own) + 4, len(maps)))
    marks = [batch.cls[0].tolist(), batch.sep[0].tolist()]
    for head, matrix in enumerate(maps):
        for query, row in enumerate(matrix):
            for key, weight in enumerate(row):
                share = weight / of.count(of[query])
                if of[query] in own and of[key] in own:
                    out[own.index(of[query]), own.index(of[key]), head] += share
                for number, mark in enumerate(marks):
                    if of[query] in own and mark[key]:
                        out[own.index(of[query]), len(own) + number, head] += share
                    if mark[query] and of[key] in own:
                        out[own.index(of[key]), len(own) + 2 + number, head] += weight
    return out


HEADS, SIZE = 5, 3


def vectors_of(vectors: np.ndarray, candidate: int, word: int, published: bool) -> np.ndarray:
    """[v_i; v_j] of a candidate (0 is ROOT) and a word, aligned or as in the released code."""
    zeros = np.zeros(SIZE)
    if not published:
        return np.concatenate([vectors[candidate - 1] if candidate else zeros, vectors[word]])
    if candidate == len(vectors):
        return np.zeros(2 * SIZE)
    return np.concatenate([vectors[candidate], vectors[word]])


def attention_slowly(
    maps: Any, ends: Any, vectors: Any, own: Any, words: bool, published: bool
) -> np.ndarray:
    """Scores [candidate, word] by loops over candidates, words and heads."""
    n = maps.shape[1]
    out = np.full((n + 1, n), -np.inf)
    for word in range(n):
        for candidate in range(n + 1):
            if candidate == word + 1:
                continue
            both = vectors_of(vectors, candidate, word, published)
            score = 0.0
            if candidate == 0 and not published:
                for number in range(4):
                    for head in range(HEADS):
                        at = number * HEADS + head
                        weight = (
                            own["root_bias"][at] + vectors[word] @ own["root"][:, at]
                            if words
                            else own["root"][at]
                        )
                        score += weight * ends[head, word, number]
                score += (
                    own["root_bias"][-1] + vectors[word] @ own["root"][:, -1]
                    if words
                    else own["bias"][0]
                )
                out[0, word] = score
                continue
            for direction in (0, 1):
                for head in range(HEADS):
                    at = direction * HEADS + head
                    if candidate == 0:  # w: what comes from [CLS] and [SEP]; u: what goes to them
                        first = 2 if direction == 0 else 0
                        amount = ends[head, word, first : first + 2] @ own["scalars"]
                    else:
                        i, j = candidate - 1, word
                        amount = maps[head, i, j] if direction == 0 else maps[head, j, i]
                    if words:
                        linear = np.concatenate([own["candidate"][:, at], own["word"][:, at]])
                        score += (linear @ both + own["bias"][at]) * amount
                    else:
                        score += own["weights"][at] * amount
            out[candidate, word] = score
    return out


def uas_slowly(texts: Sequence[Text], predicted: Sequence[Sequence[int]]) -> tuple[float, int]:
    right = scored = 0
    for one, heads in zip(texts, predicted, strict=True):
        tree = one.annotations[DEPENDENCIES]
        for gold, relation, head in zip(tree.heads, tree.relations, heads, strict=True):
            if relation.split(":")[0] != "punct":
                scored += 1
                right += gold == head
    return right / scored, scored
