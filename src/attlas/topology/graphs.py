"""Attention weights to graphs: each head's weights at or above the lowest threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from attlas.core.attention import Attention
from attlas.core.banded import BandedAttention
from attlas.support.errors import MeasureError
from attlas.support.machine import cores, in_kept_threads
from attlas.topology.experiment import THRESHOLDS as THRESHOLDS
from attlas.topology.kernels import digraphs, graphs

Array = npt.NDArray[Any]
Band = tuple[Array, Array, Array, Array]  # band, columns, rows, positions
T = TypeVar("T")

CELLS = 2**21  # cells processed at a time, which bounds memory
WORTH = 2**18  # cells from which more than one thread is worth it


def check_thresholds(thresholds: Sequence[float]) -> tuple[float, ...]:
    """Thresholds as a tuple of distinct numbers above 0."""
    try:
        out = tuple(map(float, np.atleast_1d(np.asarray(thresholds, dtype=np.float64))))
    except (TypeError, ValueError):
        raise MeasureError(
            f"the thresholds are {thresholds!r}; give a list of numbers above 0, such as 0.1"
        ) from None
    if not out:
        raise MeasureError("there are no thresholds; give at least one, such as 0.1")
    wrong = [threshold for threshold in out if not (np.isfinite(threshold) and threshold > 0)]
    if wrong:
        raise MeasureError(
            f"a threshold is {wrong[0]}; thresholds are numbers above 0, such as 0.1"
        )
    if len(set(out)) < len(out):
        shown = ", ".join(f"{threshold:g}" for threshold in out)
        raise MeasureError(f"a threshold occurs twice in {shown}; give each once")
    return out


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


@dataclass(frozen=True)
class Graphs:
    """A stack of directed graphs of `n` tokens, each at several thresholds."""

    start: Array
    key: Array
    level: Array
    n: int
    order: Array  # the thresholds, lowest first

    def invariants(self, cap: int) -> Array:
        """Strong components, edges, pairs, simple cycles: [4, graph, threshold]."""
        counts = digraphs.digraph_counts(
            self.start, self.key, self.level, self.n, len(self.order), cap
        )
        return _in_given_order(counts, self.order)


def betti_of(
    weights: Array, thresholds: tuple[float, ...], loops: bool, first: int = 0
) -> tuple[Array, Array]:
    """Betti numbers of square matrices [graph, n, n]: two arrays [graph, threshold].

    `first` is the number of the first graph, for errors.
    """
    bits, steps, order, marks = _comparable(weights, thresholds)
    betti = np.zeros((2, len(weights), len(thresholds)), np.int64)
    refuse(graphs.dense_betti(bits, steps, marks, loops, betti), first)
    beta0, beta1 = _in_given_order(betti, order)
    return beta0, beta1


def betti_of_layer(
    layer: Attention, thresholds: tuple[float, ...], loops: bool
) -> tuple[Array, Array]:
    """Betti numbers of all heads of all texts of a layer, from the band if there is one."""
    return layer.by_form(
        dense=lambda layer: betti_of(
            stacked(layer.weights), in_precision(thresholds, precision_of(layer.weights)), loops
        ),
        banded=lambda layer: _betti_of_band(layer, thresholds, loops),
    )


def _betti_of_band(
    layer: BandedAttention, thresholds: tuple[float, ...], loops: bool
) -> tuple[Array, Array]:
    parts, steps, order, marks = _comparable_band(layer, thresholds)
    betti = np.zeros((2, len(parts[0]), len(thresholds)), np.int64)
    refuse(graphs.band_betti(parts, steps, marks, loops, betti))
    beta0, beta1 = _in_given_order(betti, order)
    return beta0, beta1


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


def graphs_of(weights: Array, thresholds: tuple[float, ...], first: int = 0) -> Graphs:
    """Graphs of square matrices [graph, n, n]; `first` is the number of the first, for errors."""
    bits, steps, order, marks = _comparable(weights, thresholds)
    start, key, level, bad = graphs.dense_entries(bits, steps, marks)
    refuse(bad, first)
    return Graphs(start, key, level, weights.shape[-1], order)


def graphs_of_layer(layer: Attention, thresholds: tuple[float, ...]) -> Graphs:
    """Graphs of all heads of all texts of a layer, from the band if there is one."""
    return layer.by_form(
        dense=lambda layer: graphs_of(
            stacked(layer.weights), in_precision(thresholds, precision_of(layer.weights))
        ),
        banded=lambda layer: _graphs_of_band(layer, thresholds),
    )


def _graphs_of_band(layer: BandedAttention, thresholds: tuple[float, ...]) -> Graphs:
    parts, steps, order, marks = _comparable_band(layer, thresholds)
    start, key, level, bad = graphs.band_entries(parts, steps, marks)
    refuse(bad)
    return Graphs(start, key, level, layer.n_tokens, order)


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
    """Band, columns, rows and positions of every head of every text, [graph, ...]."""
    heads = layer.band.shape[1]
    positions = layer.global_positions.cpu().numpy().repeat(heads, axis=0)
    return (
        stacked(layer.band),
        stacked(layer.columns),
        stacked(layer.rows),
        np.ascontiguousarray(positions),
    )


def _comparable(
    weights: Array, thresholds: tuple[float, ...]
) -> tuple[Array, Array, Array, tuple[Any, Any]]:
    """Weights and sorted thresholds as ordered integers; the order; infinity and minus zero.

    Thresholds are rounded to the weights' precision, as numpy and torch do when they compare an
    array with a number: a float32 weight of 0.7 passes the threshold 0.7.
    """
    integer = np.int32 if weights.dtype == np.float32 else np.int64
    order = np.argsort(thresholds, kind="stable")
    with np.errstate(over="ignore"):  # a threshold above all floats is infinity
        steps = np.asarray(thresholds, dtype=weights.dtype)[order].view(integer)
    marks = np.array([np.inf, -0.0], dtype=weights.dtype).view(integer)
    return weights.view(integer), np.maximum(steps, 1).astype(integer), order, (marks[0], marks[1])


def _comparable_band(
    layer: BandedAttention, thresholds: tuple[float, ...]
) -> tuple[Band, Array, Array, tuple[Any, Any]]:
    """What `_comparable` gives, for the parts of a band."""
    band, columns, rows, positions = band_parts(layer)
    levels = in_precision(thresholds, precision_of(layer.band))
    bits, steps, order, marks = _comparable(band, levels)
    return (bits, columns.view(bits.dtype), rows.view(bits.dtype), positions), steps, order, marks


def over_graphs(weights: Array, work: Callable[[Array, int], T]) -> list[T]:
    """`work(graphs, number of the first)` on stacks of graphs, in order; threaded if large."""
    cells = weights.shape[-1] ** 2
    size = max(1, min(CELLS // max(1, cells), len(weights)))
    threads = cores()
    if threads > 1 and weights.size >= WORTH:
        size = min(size, -(-len(weights) // (2 * threads)))
        firsts = range(0, len(weights), size)
        return in_kept_threads(lambda first: work(weights[first : first + size], first), firsts)
    return [
        work(weights[first : first + size], first) for first in range(0, max(1, len(weights)), size)
    ]
