"""Kernels over texts of many lengths in one array: no padding, one core each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attlas.dynamics.ragged import Numbers
from attlas.stats.jit import numba

Floats = npt.NDArray[np.float32]

LARGEST_UINT = 0xFFFFFFFF


@numba.njit(cache=True, inline="always")
def _kept(at, seed, least):  # type: ignore[no-untyped-def]
    """Whether dropout keeps the number at a position, by a hash of position and seed."""
    bits = np.uint32(at) ^ np.uint32(seed)
    bits = np.uint32(bits ^ (bits >> np.uint32(16)))
    bits = np.uint32(bits * np.uint32(0x7FEB352D))
    bits = np.uint32(bits ^ (bits >> np.uint32(15)))
    bits = np.uint32(bits * np.uint32(0x846CA68B))
    bits = np.uint32(bits ^ (bits >> np.uint32(16)))
    return bits >= least


@numba.njit(cache=True, nogil=True)
def gather_rows(table: Floats, ids: Numbers, rate: float, seed: int, out: Floats) -> None:
    """The vectors of tokens, [token, dimension], with dropout by a seed of 32 bits."""
    width = table.shape[1]
    if rate <= 0:
        for token in range(len(ids)):
            out[token] = table[ids[token]]
        return
    least, scale = np.uint32(rate * LARGEST_UINT), np.float32(1 / (1 - rate))
    for token in range(len(ids)):
        row, to, first = table[ids[token]], out[token], np.uint32(token * width)
        for at in range(width):
            to[at] = row[at] * scale if _kept(first + np.uint32(at), seed, least) else np.float32(0)


@numba.njit(cache=True, nogil=True)
def scatter(
    grad: Floats,
    ids: Numbers,
    rate: float,
    seed: int,
    slots: npt.NDArray[np.int32],
    rows: Numbers,
    out: Floats,
) -> int:
    """Sum the gradients of tokens by word; returns the number of words.

    `rows` gets the words that occur and `out` their sums. `slots` [word] is -1 throughout, before
    and after. Numbers that `gather_rows` drops with the same seed have no gradient.
    """
    width = grad.shape[1]
    least, scale = np.uint32(rate * LARGEST_UINT), np.float32(1 / (1 - rate))
    used = 0
    for token in range(len(ids)):
        slot = slots[ids[token]]
        if slot < 0:
            slot = used
            slots[ids[token]] = slot
            rows[slot] = ids[token]
            out[slot] = 0
            used += 1
        to, given, first = out[slot], grad[token], np.uint32(token * width)
        for at in range(width):
            kept = _kept(first + np.uint32(at), seed, least)
            to[at] += given[at] * scale if kept else np.float32(0)
    for slot in range(used):
        slots[rows[slot]] = -1
    return used


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adagrad(table: Floats, total: Floats, rows: Numbers, grad: Floats, rate: float) -> None:
    """Adagrad on the rows of a table that have a gradient."""
    step = np.float32(rate)
    for slot in range(len(rows)):
        row, sums, given = table[rows[slot]], total[rows[slot]], grad[slot]
        for at in range(len(row)):
            sums[at] += given[at] * given[at]
            row[at] -= step * given[at] / (np.sqrt(sums[at]) + np.float32(1e-10))


@numba.njit(cache=True, nogil=True)
def sgd(table: Floats, rows: Numbers, grad: Floats, rate: float) -> None:
    """Gradient descent on the rows of a table that have a gradient."""
    step = np.float32(rate)
    for slot in range(len(rows)):
        for at in range(table.shape[1]):
            table[rows[slot], at] -= step * grad[slot, at]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam(
    table: Floats,
    first: Floats,
    second: Floats,
    rows: Numbers,
    grad: Floats,
    rate: float,
    step: int,
) -> None:
    """Adam on the rows of a table that have a gradient, as torch.optim.SparseAdam."""
    one, two = np.float32(0.1), np.float32(0.001)
    scaled = np.float32(rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step))
    for slot in range(len(rows)):
        row = rows[slot]
        for at in range(table.shape[1]):
            value = grad[slot, at]
            first[row, at] += one * (value - first[row, at])
            second[row, at] += two * (value * value - second[row, at])
            table[row, at] -= (
                scaled * first[row, at] / (np.sqrt(second[row, at]) + np.float32(1e-8))
            )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def softmax(scores, starts, out):  # type: ignore[no-untyped-def]
    """Attention weights: the softmax of the scores of each text's tokens."""
    for text in range(len(starts) - 1):
        start, stop = starts[text], starts[text + 1]
        top = scores[start:stop].max()
        total = 0.0
        for token in range(start, stop):
            out[token] = np.exp(scores[token] - top)
            total += out[token]
        for token in range(start, stop):
            out[token] /= total


@numba.njit(cache=True, nogil=True)
def pool(vectors, weights, starts, out):  # type: ignore[no-untyped-def]
    """The weighted sum of each text's vectors: [text, dimension]."""
    for text in range(len(starts) - 1):
        out[text] = 0
        for token in range(starts[text], starts[text + 1]):
            weight = weights[token]
            for at in range(vectors.shape[1]):
                out[text, at] += weight * vectors[token, at]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def pool_backward(  # type: ignore[no-untyped-def]
    vectors, weights, starts, grad, by_vector, by_score
):
    """Gradients of vectors and scores from the gradient [text, dimension] of `pool`."""
    for text in range(len(starts) - 1):
        start, stop = starts[text], starts[text + 1]
        mean = 0.0
        for token in range(start, stop):
            dot = np.float32(0)
            for at in range(vectors.shape[1]):
                dot += grad[text, at] * vectors[token, at]
                by_vector[token, at] = weights[token] * grad[text, at]
            by_score[token] = dot
            mean += weights[token] * dot
        for token in range(start, stop):
            by_score[token] = weights[token] * (by_score[token] - mean)
