"""Slow twins: what the fast code must give, in loops anyone can check by eye. `head` is one head's square matrix, `visible` what its queries see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def each_head(twin: Callable[..., Any], weights: np.ndarray, *per_text: Sequence[Any], **options: Any) -> np.ndarray:
    """A twin on every head of every text: weights [text, head, query, key], further arguments by text."""
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


def top_keys(head, visible, k):
    """(weight, position) pairs: [query, k, 2]."""
    out = []
    for query, row in enumerate(head):
        seen = [(weight, key) for key, weight in enumerate(row) if visible[query][key]]
        best = sorted(seen, key=lambda cell: (-cell[0], cell[1]))[:k]
        out.append(best + [(0.0, -1)] * (k - len(best)))
    return out


def top_queries(head, visible, k):
    return top_keys(turned(head), turned(visible), k)


def turned(matrix):
    return [[row[column] for row in matrix] for column in range(len(matrix))]


def keys_seen(visible):
    return [sum(map(bool, row)) for row in visible]


def queries_seeing(visible):
    return keys_seen(turned(visible))


def uniform(visible):
    return [[1 / seen if sees else 0.0 for sees in row] for row, seen in zip(visible, keys_seen(visible), strict=True)]


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


def surface(head, cls, sep, punctuation):
    """Clark et al. 2019, figure 2: masked attention over the number of rows it could come from; NaN if there is no such row or token."""
    n = len(head)
    rest = [not mark for mark in sep]

    def share(cells, rows):
        return sum(head[query][key] for query, key in cells) / rows if rows else math.nan

    def cells(queries, keys):
        return [(query, key) for query in range(n) for key in range(n) if queries[query] and keys[key]]

    every = [True] * n
    return [
        share([(query, query) for query in range(n)], n),
        share([(query, query - 1) for query in range(1, n)], n),
        share([(query, query + 1) for query in range(n - 1)], n),
        share([(query, 0) for query in range(n)], n),
        share(cells(every, cls), n if any(cls) else 0),
        share(cells(every, sep), n if any(sep) else 0),
        share(cells(sep, sep), sum(sep)),
        share(cells(rest, sep), sum(rest) if any(sep) else 0),
        share(cells(every, punctuation), n),
    ]


def totals(layers, visibles):
    """Of one text, [layer][head][query][key] and [layer][query][key]: by token `all`, `uniform`, `all_per_query`, `L0`, ..., `L0_per_query`, ..."""
    n = len(visibles[0])
    out = []
    for token in range(n):
        got = [sum(row[token] for head in heads for row in head) / len(heads) for heads in layers]
        even = [sum(row[token] for row in uniform(visible)) for visible in visibles]
        per_query = [total / queries_seeing(visible)[token] for total, visible in zip(got, visibles, strict=True)]
        out.append([sum(got) / len(got), sum(even) / len(even), sum(per_query) / len(per_query), *got, *per_query])
    return out
