"""The base of the four topological measures: one row per text with every head's features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape, head_tables
from attlas.core.states import HeadMeans, Rows, State
from attlas.support.arrays import Array


def column_names(n_layers: int, n_heads: int, features: tuple[str, ...]) -> tuple[str, ...]:
    """Names of a text's features, layer by layer and head by head.

    >>> column_names(1, 2, ("b0@0.1", "b1@0.1"))
    ('L0.H0.b0@0.1', 'L0.H0.b1@0.1', 'L0.H1.b0@0.1', 'L0.H1.b1@0.1')
    """
    return tuple(
        f"L{layer}.H{head}.{name}"
        for layer in range(n_layers)
        for head in range(n_heads)
        for name in features
    )


def at_thresholds(names: tuple[str, ...], thresholds: tuple[float, ...]) -> tuple[str, ...]:
    """Each name at each threshold.

    >>> at_thresholds(("b0", "b1"), (0.025, 0.5))
    ('b0@0.025', 'b0@0.5', 'b1@0.025', 'b1@0.5')
    """
    short = [
        f"{threshold:g}" if float(f"{threshold:g}") == threshold else repr(threshold)
        for threshold in thresholds
    ]
    return tuple(f"{name}@{threshold}" for name in names for threshold in short)


@dataclass
class FeaturesState(State):
    """One row per text, and each head's means over texts."""

    rows: Rows
    heads: HeadMeans  # of the features
    table: str = field(metadata={"parameter": True})  # of the rows
    pending: list[Array] = field(  # the layers of the current batch
        default_factory=list, metadata={"parameter": True}
    )

    def streamed(self) -> dict[str, Rows]:
        return {self.table: self.rows}


class HeadFeatures(Measure[FeaturesState]):
    """A measure with features of every head of every text.

    The table of its name has one row per text: `text`, then columns such as `L3.H7.b0@0.1`. The
    table `NAME_heads` has each head's mean over texts, the value for uniform attention
    (`_uniform`), and the standard errors of the mean (`_error`) and of its difference from uniform
    attention, text by text (`_difference_error`).
    """

    kind: ClassVar[type] = np.float32

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of one head's features."""

    @abstractmethod
    def values(self, layer: Attention) -> Array:
        """The features of every text and head: [text, head, feature]."""

    def start(self, model: Shape) -> FeaturesState:
        shape = (model.n_layers, model.n_heads)
        rows = Rows.empty(column_names(*shape, self.features))
        return FeaturesState(rows, HeadMeans.zeros(*shape, len(self.features)), self.name)

    def update(self, state: FeaturesState, layer: Attention) -> None:
        values = self.values(layer)
        uniform = layer.uniform.once(("features", self), lambda: self.values(layer.uniform))
        state.heads.add(layer, values.astype(np.float64), uniform)
        state.pending.append(values.astype(self.kind, copy=False))

    def finish_batch(self, state: FeaturesState, batch: Batch, outputs: Outputs) -> None:
        layers, state.pending = state.pending, []
        wide = np.stack(layers, axis=1).reshape(batch.n_texts, -1)  # text, layer head feature
        ids = np.array([text.id for text in batch.texts], dtype=object)
        state.rows.add(np.array(batch.indices), {"text": ids}, wide)

    def result(self, state: FeaturesState) -> dict[str, pd.DataFrame]:
        heads = head_tables(f"{self.name}_heads", self.features, state.heads)
        return {self.name: state.rows.frame(), **heads}
