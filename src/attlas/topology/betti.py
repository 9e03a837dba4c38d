"""How many connected components and cycles does each head's attention graph have?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attlas.core.attention import Attention
from attlas.support.arrays import Ints
from attlas.support.options import same_option
from attlas.topology.experiment import THRESHOLDS, Topology, check_thresholds
from attlas.topology.graphs import betti_of, in_precision, over_graphs, precision_of, weights_of
from attlas.topology.head_features import HeadFeatures, at_thresholds


class BettiNumbers(NamedTuple):
    """Components and independent cycles at each threshold: two arrays [..., threshold]."""

    beta0: Ints
    beta1: Ints


def betti(
    weights: Any, thresholds: Sequence[float] = THRESHOLDS, loops: bool = True
) -> BettiNumbers:
    """Betti numbers of attention graphs [..., n, n] at each threshold, exactly.

    At threshold t two tokens are joined if either attends to the other with weight t or more. beta0
    is the number of connected components, isolated tokens included; beta1 = edges - n + beta0 the
    number of independent cycles. A token that attends to itself adds a loop, which counts as a
    cycle, as in the code of Kushnareva, Piontkovski and Piontkovskaya (arXiv 2207.01903);
    `loops=False` excludes loops.

    >>> betti([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [0.0, 0.1, 0.9]], thresholds=(0.1, 0.5))
    BettiNumbers(beta0=array([1, 2]), beta1=array([3, 2]))
    """
    levels = in_precision(check_thresholds(thresholds), precision_of(weights))
    numbers = over_graphs(weights, lambda part, first: betti_of(part, levels, loops, first))
    return BettiNumbers(*numbers)


@dataclass(frozen=True, kw_only=True)
class Betti(HeadFeatures):
    """Betti numbers of every head of every text: `L3.H7.b0@0.1`, `L3.H7.b1@0.1`, ..."""

    name: ClassVar[str] = "betti"
    clause: ClassVar[str] = (
        "the numbers of connected components and independent cycles of each head's undirected "
        "attention graph at several thresholds, compared with uniform attention"
    )
    references: ClassVar[tuple[str, ...]] = ("kushnareva2022",)
    kind: ClassVar[type] = np.int32
    thresholds: tuple[float, ...] = same_option(Topology, "thresholds", THRESHOLDS)
    loops: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", check_thresholds(self.thresholds))
        super().__post_init__()

    @property
    def features(self) -> tuple[str, ...]:
        return at_thresholds(("b0", "b1"), self.thresholds)

    def values(self, layer: Attention) -> Ints:
        weights, precision = weights_of(layer)
        numbers = betti_of(weights, in_precision(self.thresholds, precision), self.loops)
        return np.concatenate(numbers, axis=-1).reshape(-1, layer.n_heads, len(self.features))
