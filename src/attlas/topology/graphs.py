"""Attention weights to graphs: each head's weights at or above the lowest threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from attlas.core.attention import Attention, DenseAttention
from attlas.core.banded import BandedAttention
from attlas.support.arrays import Array
from attlas.support.errors import MeasureError
from attlas.support.machine import cores, in_kept_threads
from attlas.topology.kernels import digraphs, graphs

Band = tuple[Array, Array, Array, Array]  # band, columns, rows, positions of global tokens
Weights = Array | Band  # square matrices [graph, n, n], or a band

CELLS = 2**21  # cells processed at a time, which bounds memory
WORTH = 2**18  # cells from which more than one thread is worth it


def check_weights(weights: Any) -> Array:
    """Weights [..., n, n] of one attention graph or many as float32 or float64 on the CPU."""
    if isinstance(weights, torch.Tensor):
        if weights.is_complex():
            raise MeasureError(f"the weights are of type {weights.dtype}; they must be numbers")
        weights = as_floats(weights)
    try:
        array = np.asarray(weights)
    except ValueError as error:
        raise MeasureError(
            "the weights are rows of different lengths; they must be square in the last two axes: "
            "[..., n, n]"
        ) from error
    if array.dtype.kind not in "fiub":
        raise MeasureError(f"the weights are of type {array.dtype}; they must be numbers")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise MeasureError(
            f"the weights have shape {array.shape}; they must be square in the last two axes: "
            "[..., n, n]"
        )
    return np.ascontiguousarray(array)


def precision_of(weights: Any) -> str:
    """The precision of weights as they were given: float16, bfloat16, float32, ..."""
    return str(getattr(weights, "dtype", "float64")).removeprefix("torch.")


def in_precision(thresholds: tuple[float, ...], precision: str) -> tuple[float, ...]:
    """Thresholds rounded to half precision if the weights are; `_comparable` rounds to single."""
    if precision not in ("float16", "bfloat16"):
        return thresholds
    return tuple(
        torch.tensor(thresholds, dtype=torch.float64).to(getattr(torch, precision)).tolist()
    )


def weights_of(layer: Attention) -> tuple[Weights, str]:
    """The weights of every head of every text, [graph, ...], and their precision."""

    def dense(layer: DenseAttention) -> tuple[Weights, str]:
        return stacked(layer.weights), precision_of(layer.weights)

    def banded(layer: BandedAttention) -> tuple[Weights, str]:
        return band_parts(layer), precision_of(layer.band)

    return layer.by_form(dense=dense, banded=banded)


def betti_of(
    weights: Weights, thresholds: tuple[float, ...], loops: bool, first: int = 0
) -> tuple[Array, Array]:
    """Betti numbers of graphs, of which `first` is the first: two arrays [graph, threshold]."""
    bits, steps, order, marks = _comparable(weights, thresholds)
    betti = np.zeros((2, len(main_part(weights)), len(thresholds)), np.int64)
    count = graphs.band_betti if isinstance(bits, tuple) else graphs.dense_betti
    refuse(count(bits, steps, marks, loops, betti), first)
    beta0, beta1 = _in_given_order(betti, order)
    return beta0, beta1


def digraph_of(weights: Weights, thresholds: tuple[float, ...], cap: int, first: int = 0) -> Array:
    """Strong components, edges, pairs and simple cycles: [4, graph, threshold]."""
    bits, steps, order, marks = _comparable(weights, thresholds)
    entries = graphs.band_entries if isinstance(bits, tuple) else graphs.dense_entries
    start, key, level, bad = entries(bits, steps, marks)
    refuse(bad, first)
    n_graphs, n = main_part(weights).shape[:2]
    counts = np.zeros((4, n_graphs, len(thresholds)), np.int64)
    digraphs.add_digraph_counts(start, key, level, n, cap, counts)
    return _in_given_order(counts, order)


def main_part(weights: Weights) -> Array:
    """The square matrices, or the band: [graph, n, ...]."""
    return weights[0] if isinstance(weights, tuple) else weights


def _in_given_order(values: Array, order: Array) -> Array:
    out = np.empty_like(values)
    out[..., order] = values
    return out


def refuse(bad: int, first: int = 0) -> None:
    """Refuse a stack whose graph `bad` has an invalid weight; -1 if there is none."""
    if bad >= 0:
        raise MeasureError(
            f"graph {first + bad} has a weight that is NaN, infinite or negative; attention "
            "weights are numbers from 0 to 1"
        )


def stacked(tensor: torch.Tensor) -> Array:
    """[text, head, ...] as a contiguous array [text * head, ...] of float32 (or float64)."""
    return as_floats(tensor.flatten(0, 1))


def as_floats(tensor: torch.Tensor) -> Array:
    """A tensor as a contiguous array of float32, or float64 if it was."""
    tensor = tensor.detach()
    return np.ascontiguousarray(
        (tensor if tensor.dtype == torch.float64 else tensor.float()).cpu().numpy()
    )


def band_parts(layer: BandedAttention) -> Band:
    """Band, columns, rows and global positions of every head of every text, [graph, ...]."""
    positions = layer.global_positions.cpu().numpy().repeat(layer.band.shape[1], axis=0)
    band, columns, rows = map(stacked, (layer.band, layer.columns, layer.rows))
    return band, columns, rows, np.ascontiguousarray(positions)


def _comparable(
    weights: Weights, thresholds: tuple[float, ...]
) -> tuple[Weights, Array, Array, tuple[Any, Any]]:
    """Weights and sorted thresholds as ordered integers; the order; infinity and minus zero.

    Thresholds are rounded to the weights' precision, as numpy and torch do when they compare an
    array with a number: a float32 weight of 0.7 passes the threshold 0.7.
    """
    kind = main_part(weights).dtype
    integer = np.int32 if kind == np.float32 else np.int64
    order = np.argsort(thresholds, kind="stable")
    with np.errstate(over="ignore"):  # a threshold above all floats is infinity
        steps = np.asarray(thresholds, dtype=kind)[order].view(integer)
    marks = np.array([np.inf, -0.0], dtype=kind).view(integer)
    bits: Weights
    if isinstance(weights, tuple):
        band, columns, rows, positions = weights
        bits = band.view(integer), columns.view(integer), rows.view(integer), positions
    else:
        bits = weights.view(integer)
    return bits, np.maximum(steps, 1).astype(integer), order, (marks[0], marks[1])


def over_graphs(weights: Any, work: Callable[[Array, int], Sequence[Array]]) -> list[Array]:
    """Arrays [..., value] from weights [..., n, n], threaded if there are many.

    `work(graphs, number of the first)` gives each array for a stack of graphs: [graph, value].
    """
    array = check_weights(weights)
    n, lead = array.shape[-1], array.shape[:-2]
    stack = array.reshape(math.prod(lead), n, n)
    size, threads = max(1, min(CELLS // max(1, n * n), len(stack))), cores()
    threaded = threads > 1 and stack.size >= WORTH
    if threaded:
        size = min(size, -(-len(stack) // (2 * threads)))

    def part(first: int) -> Sequence[Array]:
        return work(stack[first : first + size], first)

    firsts = range(0, max(1, len(stack)), size)
    parts = in_kept_threads(part, firsts) if threaded else list(map(part, firsts))
    joined = (np.concatenate(values) for values in zip(*parts, strict=True))
    return [values.reshape(*lead, values.shape[-1]) for values in joined]
