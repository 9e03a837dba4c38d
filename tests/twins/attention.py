"""Slow twins of layers of attention. `head` is one head's square matrix, `visible` what its
queries see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def each_head(
    twin: Callable[..., Any], weights: np.ndarray, *per_text: Sequence[Any], **options: Any
) -> np.ndarray:
    """A twin on every head of every text: weights [text, head, query, key], further arguments by
    text."""
    lists = np.asarray(weights, dtype=np.float64).tolist()
    return np.array(
        [
            [twin(head, *(argument[text] for argument in per_text), **options) for head in heads]
            for text, heads in enumerate(lists)
        ]
    )


def received(head):
    return [sum(row[key] for row in head) for key in range(len(head))]


def row_entropy(head):
    return [-sum(weight * math.log(weight) for weight in row if weight > 0) for row in head]


def mass_to(head, marked):
    return [sum(weight for key, weight in enumerate(row) if marked[key]) for row in head]


def by_offset(head, reach):
    out = [0.0] * (2 * reach + 3)
    for query, row in enumerate(head):
        for key, weight in enumerate(row):
            if key - query < -reach:
                out[0] += weight / len(head)
            elif key - query > reach:
                out[-1] += weight / len(head)
            else:
                out[1 + reach + key - query] += weight / len(head)
    return out


def top_keys(head, visible, keep=None, *, k):
    """(weight, position) pairs: [query, k, 2]."""
    out = []
    for query, row in enumerate(head):
        seen = [
            (weight, key)
            for key, weight in enumerate(row)
            if visible[query][key] and (keep is None or keep[key])
        ]
        best = sorted(seen, key=lambda cell: (-cell[0], cell[1]))[:k]
        out.append(best + [(0.0, -1)] * (k - len(best)))
    return out


def top_queries(head, visible, keep=None, *, k):
    return top_keys(turned(head), turned(visible), keep, k=k)


def grid(head, size, span=None):
    """Attention between bins: every cell spread over the bins its query and key lie in, then a
    mean over each bin's queries."""
    n = len(head)
    length = (n if span is None else span) / size

    def share(token, number):
        return max(0.0, min(token + 1, (number + 1) * length) - max(token, number * length))

    out = [[0.0] * size for _ in range(size)]
    for row in range(size):
        held = sum(share(query, row) for query in range(n))
        for column in range(size):
            mass = sum(
                share(query, row) * share(key, column) * head[query][key]
                for query in range(n)
                for key in range(n)
            )
            out[row][column] = mass / held if held > 1e-12 else 0.0
    return out


def turned(matrix):
    return [[row[column] for row in matrix] for column in range(len(matrix))]


def n_visible_keys(visible):
    return [sum(map(bool, row)) for row in visible]


def n_visible_queries(visible):
    return n_visible_keys(turned(visible))


def uniform(visible):
    return [
        [1 / seen if sees else 0.0 for sees in row]
        for row, seen in zip(visible, n_visible_keys(visible), strict=True)
    ]


def to_words(head, of):
    """To a word: the sum over its tokens; from a word: the mean."""
    of = list(of)
    out = np.zeros((max(of) + 1,) * 2)
    for query, row in enumerate(head):
        for key, weight in enumerate(row):
            out[of[query], of[key]] += weight / of.count(of[query])
    return out


def visible_words(visible, of):
    """A word sees another if one of its tokens sees one of the other's."""
    out = np.zeros((max(of) + 1,) * 2, dtype=bool)
    for query, row in enumerate(visible):
        for key, sees in enumerate(row):
            out[of[query], of[key]] |= bool(sees)
    return out
