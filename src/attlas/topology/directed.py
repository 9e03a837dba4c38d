"""How many strong components, edges and cycles does each head's directed graph have?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attlas.core.attention import Attention
from attlas.support.arrays import Array
from attlas.support.errors import MeasureError
from attlas.support.options import option, same_option
from attlas.topology.experiment import THRESHOLDS, Topology, check_thresholds
from attlas.topology.graphs import (
    Weights,
    digraph_of,
    in_precision,
    main_part,
    over_graphs,
    precision_of,
    weights_of,
)
from attlas.topology.head_features import HeadFeatures, at_thresholds

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
    if not isinstance(cap, int | np.integer) or cap < 1:
        raise MeasureError(f"cap is {cap}; it must be a whole number, at least 1")
    numbers = over_graphs(weights, lambda part, first: invariants(part, levels, cap, first))
    return Digraph(*numbers)


def invariants(
    weights: Weights, thresholds: tuple[float, ...], cap: int, first: int = 0
) -> Digraph:
    """The invariants of a stack of graphs, of which `first` is the first: [graph, threshold]."""
    components, edges, pairs, cycles = digraph_of(weights, thresholds, cap, first)
    n = max(1, main_part(weights).shape[1])
    return Digraph(components, edges, 2 * edges / n, cycles, pairs)


@dataclass(frozen=True, kw_only=True)
class DigraphMeasure(HeadFeatures):
    """Directed invariants of every head's attention graph of every text.

    Columns are `L3.H7.components@0.1`, then `edges`, `degree`, `cycles` (at most `cap`), `pairs`.
    """

    name: ClassVar[str] = "digraph"
    clause: ClassVar[str] = (
        "the numbers of strongly connected components, edges, directed cycles and mutual pairs of "
        "each head's directed attention graph at several thresholds, compared with uniform "
        "attention"
    )
    references: ClassVar[tuple[str, ...]] = ("kushnareva2022", "kushnareva2021")
    thresholds: tuple[float, ...] = same_option(Topology, "thresholds", THRESHOLDS)
    cap: int = option(CAP, "Most cycles that are counted.", at_least=1, at_most=10_000_000)

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", check_thresholds(self.thresholds))
        super().__post_init__()

    @property
    def features(self) -> tuple[str, ...]:
        return at_thresholds(Digraph._fields, self.thresholds)

    def values(self, layer: Attention) -> Array:
        weights, precision = weights_of(layer)
        numbers = invariants(weights, in_precision(self.thresholds, precision), self.cap)
        return np.concatenate(numbers, axis=-1).reshape(-1, layer.n_heads, len(self.features))
