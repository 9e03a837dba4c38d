"""Compiled loops of the syntax probe; each has a slow twin in the tests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attlas.stats.jit import numba


@numba.njit(nogil=True, cache=True)
def most_attended(
    weights: npt.NDArray[np.float32], of: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """For each word, the other word that it attends to most, and the one that attends to it most.

    Each is [head, word], -1 if no weight is above 0. `weights` is [head, query, key] between
    tokens; `of[token]` is the token's word, -1 for a token that is excluded. *To* a word is the sum
    over its tokens, *from* a word the mean; of equal weights the earlier word is taken.
    """
    heads, n = weights.shape[0], weights.shape[1]
    pieces = np.zeros(count)
    for token in range(n):
        if of[token] >= 0:
            pieces[of[token]] += 1
    attended = np.full((heads, count), -1, dtype=np.int32)
    attending = np.full((heads, count), -1, dtype=np.int32)
    words = np.empty((count, count))
    most = np.empty(count)
    for head in range(heads):
        words[:] = 0
        for query in range(n):
            source = of[query]
            if source < 0:
                continue
            for key in range(n):
                if of[key] >= 0:
                    words[source, of[key]] += weights[head, query, key]
        most[:] = 0
        for source in range(count):
            if pieces[source] == 0:
                continue
            best = 0.0
            for target in range(count):
                if target == source or pieces[target] == 0:
                    continue
                weight = words[source, target]
                if weight > best:
                    best = weight
                    attended[head, source] = target
                weight /= pieces[source]
                if weight > most[target]:
                    most[target] = weight
                    attending[head, target] = source
    return attended, attending
