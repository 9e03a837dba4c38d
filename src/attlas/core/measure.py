"""Measure: one question about heads or tokens, answered by a state that starts, takes in layers, merges and reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.states import State

S = TypeVar("S", bound=State)


class Shape(Protocol):
    """What a measure needs to know of a model before it starts."""

    @property
    def n_layers(self) -> int: ...

    @property
    def n_heads(self) -> int: ...


class Measure(ABC, Generic[S]):
    """One question. Subclass it as a frozen dataclass of plain parameters; its `repr` goes into the manifest.

    `merge(a, b)` must be what the texts of `a` followed by those of `b` give, and `start` its neutral element:
    `attlas.testing.check_measure` proves it.
    """

    name: ClassVar[str]

    @classmethod
    def among_all(cls) -> Self:
        """The measure as one of all of them: with what costs no more than the model's own pass."""
        return cls()

    @abstractmethod
    def start(self, model: Shape) -> S:
        """An empty state for a model of this shape."""

    @abstractmethod
    def update(self, state: S, layer: Attention) -> None:
        """Take in one layer of one batch. All layers of a batch come in order before the next batch."""

    def merge(self, left: S, right: S) -> S:
        """The state of the left texts followed by the right ones."""
        return left.merge(right)

    @abstractmethod
    def result(self, state: S) -> dict[str, pd.DataFrame]:
        """The tables, by name."""


def head_frame(n_layers: int, n_heads: int, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A table with a row for each head: `layer head` and then numbers, from arrays [layer, head].

    >>> head_frame(1, 2, {"entropy": np.array([[0.5, 1.5]])})
       layer  head  entropy
    0      0     0      0.5
    1      0     1      1.5
    """
    layer, head = np.divmod(np.arange(n_layers * n_heads), n_heads)
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            **{name: np.asarray(values, dtype=np.float64).reshape(-1) for name, values in columns.items()},
        }
    )
