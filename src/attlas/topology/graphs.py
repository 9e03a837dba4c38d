"""Attention to graphs: a head's weights at or above the lowest threshold, as sparse rows."""

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
from attlas.topology import kernels
from attlas.topology.experiment import THRESHOLDS as THRESHOLDS

Array = npt.NDArray[Any]
T = TypeVar("T")

CELLS = 2**21  # cells worked on at a time, which bounds memory
WORTH = 2**18  # cells from which more than one thread is worth it


def check_thresholds(thresholds: Sequence[float]) -> tuple[float, ...]:
    """Thresholds as a tuple; refused if there are none, one is not above 0, or one comes twice."""
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
        raise MeasureError(
            f"a threshold comes twice in {', '.join(f'{threshold:g}' for threshold in out)}"
        )
    return out


def check_weights(weights: Any) -> Array:
    """Weights [..., n, n] of one attention graph or many as float32 or float64 on the CPU."""
    if isinstance(weights, torch.Tensor):
        if weights.is_complex():
            raise MeasureError(f"the weights are of type {weights.dtype}; they must be numbers")
        weights = weights.detach()
        weights = (
            (weights if weights.dtype in (torch.float32, torch.float64) else weights.float())
            .cpu()
            .numpy()
        )
    try:
        array = np.asarray(weights)
    except ValueError as error:
        raise MeasureError(
            "the weights are rows of different lengths; they must be square in the last two axes: [..., n, n]"
        ) from error
    if array.dtype.kind not in "fiub":
        raise MeasureError(f"the weights are of type {array.dtype}; they must be numbers")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise MeasureError(
            f"the weights have shape {array.shape}; they must be square in the last two axes: [..., n, n]"
        )
    return np.ascontiguousarray(array)


def precision_of(weights: Any) -> str:
    """The precision of weights as they were given: float16, bfloat16, float32, ..."""
    return str(getattr(weights, "dtype", "float64")).removeprefix("torch.")


def in_precision(thresholds: tuple[float, ...], precision: str) -> tuple[float, ...]:
    """Thresholds rounded to half precision where the weights had it; `_comparable` rounds to single precision itself."""
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
        return _as_given(
            kernels.digraph_counts(self.start, self.key, self.level, self.n, len(self.order), cap),
            self.order,
        )


def betti_of(
    weights: Array, thresholds: tuple[float, ...], loops: bool, first: int = 0
) -> tuple[Array, Array]:
    """Betti numbers of square matrices [graph, n, n]: two arrays [graph, threshold]. `first` is the number of the first, for errors."""
    bits, steps, order, marks = _comparable(weights, thresholds)
    out = np.zeros((2, len(weights), len(thresholds)), np.int64)
    refuse(kernels.dense_betti(bits, steps, *marks, loops, out[0], out[1]), first)
    beta0, beta1 = _as_given(out, order)
    return beta0, beta1


def betti_of_layer(
    layer: Attention, thresholds: tuple[float, ...], loops: bool
) -> tuple[Array, Array]:
    """Betti numbers of all heads of all texts of a layer, text by text; from the band where there is one."""
    return layer.by_form(
        dense=lambda layer: betti_of(
            stacked(layer.weights), in_precision(thresholds, precision_of(layer.weights)), loops
        ),
        banded=lambda layer: _betti_of_band(layer, thresholds, loops),
    )


def _betti_of_band(
    layer: BandedAttention, thresholds: tuple[float, ...], loops: bool
) -> tuple[Array, Array]:
    thresholds = in_precision(thresholds, precision_of(layer.band))
    band, columns, rows, places = band_parts(layer)
    bits, steps, order, marks = _comparable(band, thresholds)
    out = np.zeros((2, len(band), len(thresholds)), np.int64)
    views = columns.view(bits.dtype), rows.view(bits.dtype)
    refuse(kernels.band_betti(bits, *views, places, steps, *marks, loops, out[0], out[1]))
    beta0, beta1 = _as_given(out, order)
    return beta0, beta1


def _as_given(values: Array, order: Array) -> Array:
    out = np.empty_like(values)
    out[..., order] = values
    return out


def refuse(bad: int, first: int = 0) -> None:
    """Refuse a stack of graphs whose graph `bad` has a weight that is none; -1 where all are well."""
    if bad >= 0:
        raise MeasureError(
            f"graph {first + bad} has a weight that is NaN, infinite or negative; attention weights are numbers from 0 to 1"
        )


def graphs_of(weights: Array, thresholds: tuple[float, ...], first: int = 0) -> Graphs:
    """Graphs of square matrices [graph, n, n]; `first` is the number of the first, for errors."""
    bits, steps, order, marks = _comparable(weights, thresholds)
    return _whole(kernels.dense_entries(bits, steps, *marks), weights.shape[-1], order, first)


def graphs_of_layer(layer: Attention, thresholds: tuple[float, ...]) -> Graphs:
    """Graphs of all heads of all texts of a layer, text by text; from the band where there is one."""
    return layer.by_form(
        dense=lambda layer: graphs_of(
            stacked(layer.weights), in_precision(thresholds, precision_of(layer.weights))
        ),
        banded=lambda layer: _graphs_of_band(layer, thresholds),
    )


def _graphs_of_band(layer: BandedAttention, thresholds: tuple[float, ...]) -> Graphs:
    thresholds = in_precision(thresholds, precision_of(layer.band))
    band, columns, rows, places = band_parts(layer)
    bits, steps, order, marks = _comparable(band, thresholds)
    views = columns.view(bits.dtype), rows.view(bits.dtype)
    return _whole(kernels.band_entries(bits, *views, places, steps, *marks), layer.n_tokens, order)


def stacked(tensor: torch.Tensor) -> Array:
    """[text, head, ...] as a contiguous array [text * head, ...] of float32 (or float64)."""
    return as_floats(tensor.flatten(0, 1))


def as_floats(tensor: torch.Tensor) -> Array:
    """A tensor as a contiguous array of float32, or float64 if it was."""
    tensor = tensor.detach()
    return np.ascontiguousarray(
        (tensor if tensor.dtype == torch.float64 else tensor.float()).cpu().numpy()
    )


def band_parts(layer: BandedAttention) -> tuple[Array, Array, Array, Array]:
    """Band, columns, rows and places of every head of every text, [graph, ...]."""
    heads = layer.band.shape[1]
    places = layer.places.cpu().numpy().repeat(heads, axis=0)
    return (
        stacked(layer.band),
        stacked(layer.columns),
        stacked(layer.rows),
        np.ascontiguousarray(places),
    )


def _comparable(
    weights: Array, thresholds: tuple[float, ...]
) -> tuple[Array, Array, Array, tuple[Any, Any]]:
    """Weights and sorted thresholds as integers in the same order; the order; infinity and minus zero.

    Thresholds are rounded to the weights' precision, as numpy and torch do when they compare an array with a number: a float32 weight of 0.7
    passes the threshold 0.7.
    """
    whole = np.int32 if weights.dtype == np.float32 else np.int64
    order = np.argsort(thresholds, kind="stable")
    with np.errstate(
        over="ignore"
    ):  # a threshold beyond all floats is infinity: no weight reaches it
        steps = np.asarray(thresholds, dtype=weights.dtype)[order].view(whole)
    marks = np.array([np.inf, -0.0], dtype=weights.dtype).view(whole)
    return weights.view(whole), np.maximum(steps, 1).astype(whole), order, (marks[0], marks[1])


def _whole(
    entries: tuple[Array, Array, Array, int], n: int, order: Array, first: int = 0
) -> Graphs:
    start, key, level, bad = entries
    refuse(bad, first)
    return Graphs(start, key, level, n, order)


def over_graphs(weights: Array, work: Callable[[Array, int], T]) -> list[T]:
    """What `work` gives on stacks of a few graphs each, told the number of the first, in order; on several threads where that is worth it."""
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
