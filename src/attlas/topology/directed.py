"""How many strong components, edges and cycles does each head's directed graph have?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from attlas.core.attention import Attention
from attlas.core.states import Rows
from attlas.support.errors import MeasureError
from attlas.support.options import option, same_option
from attlas.topology.experiment import Topology
from attlas.topology.graphs import (
    THRESHOLDS,
    Graphs,
    check_thresholds,
    check_weights,
    graphs_of,
    graphs_of_layer,
    in_precision,
    over_graphs,
    precision_of,
)
from attlas.topology.head_features import FeaturesState, HeadFeatures, at_thresholds

Array = npt.NDArray[Any]
CAP = 500  # most simple cycles that are counted; their number can be astronomical


class Digraph(NamedTuple):
    """Invariants of directed graphs at each threshold, each an array [..., threshold]."""

    components: Array  # strongly connected ones
    edges: Array  # loops included
    degree: Array  # mean of in- and out-degree together: 2 edges / n
    cycles: Array  # simple directed ones, with loops and pairs; `cap` means at least that many
    pairs: Array  # of tokens that point at each other


def digraph(weights: Any, thresholds: Sequence[float] = THRESHOLDS, cap: int = CAP) -> Digraph:
    """Invariants of the directed attention graphs [..., n, n] at each threshold.

    A token points at another if it attends to it with weight t or more. Simple cycles are counted
    up to `cap`, in bounded time (Johnson 1975).

    >>> digraph([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [0.0, 0.1, 0.9]], thresholds=(0.1, 0.5)).cycles
    array([4, 3])
    """
    levels = in_precision(check_thresholds(thresholds), precision_of(weights))
    check_cap(cap)
    array = check_weights(weights)
    n, lead = array.shape[-1], array.shape[:-2]
    graphs = array.reshape(int(np.prod(lead)), n, n)
    shape = (*lead, len(levels))
    if n == 0 or len(graphs) == 0:
        kinds = (np.int64, np.int64, np.float64, np.int64, np.int64)
        return Digraph(*(np.zeros(shape, kind) for kind in kinds))
    parts = over_graphs(graphs, lambda part, first: invariants(graphs_of(part, levels, first), cap))
    return Digraph(*(np.concatenate(values).reshape(shape) for values in zip(*parts, strict=True)))


def check_cap(cap: int) -> None:
    """Refuse a cap below 1."""
    if not isinstance(cap, int | np.integer) or cap < 1:
        raise MeasureError(f"cap is {cap}; it must be a whole number, at least 1")


def invariants(graphs: Graphs, cap: int) -> Digraph:
    """The invariants of a stack of graphs: arrays [graph, threshold]."""
    components, edges, pairs, cycles = graphs.invariants(cap)
    return Digraph(components, edges, 2 * edges / graphs.n, cycles, pairs)


@dataclass(kw_only=True)
class DigraphState(FeaturesState):
    """One row per text, and means."""

    digraph: Rows


@dataclass(frozen=True, kw_only=True)
class DigraphMeasure(HeadFeatures[DigraphState]):
    """Directed invariants of every head's attention graph of every text.

    Columns are `L3.H7.components@0.1`, then `edges`, `degree`, `cycles` (at most `cap`), `pairs`.
    """

    name: ClassVar[str] = "digraph"
    state: ClassVar[type[FeaturesState]] = DigraphState
    thresholds: tuple[float, ...] = same_option(Topology, "thresholds", THRESHOLDS)
    cap: int = option(CAP, "Most cycles that are counted.", at_least=1, at_most=10_000_000)

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", check_thresholds(self.thresholds))
        super().__post_init__()

    @property
    def features(self) -> tuple[str, ...]:
        return at_thresholds(Digraph._fields, self.thresholds)

    def values(self, layer: Attention) -> Array:
        numbers = invariants(graphs_of_layer(layer, self.thresholds), self.cap)
        return np.concatenate(numbers, axis=-1).reshape(-1, layer.n_heads, len(self.features))
