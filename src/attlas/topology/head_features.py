"""The base of the four topological measures: one row per text with every head's features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape, head_frame
from attlas.core.states import Moments, Rows, State

Array = npt.NDArray[Any]


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


@dataclass(kw_only=True)
class FeaturesState(State):
    """Each head's means over texts; subclasses add the rows, named as their table."""

    heads: Moments  # layer head feature
    uniform: Moments  # layer head feature
    pending: list[Array] = field(  # the layers of the current batch
        default_factory=list, metadata={"parameter": True}
    )


F = TypeVar("F", bound=FeaturesState)


class HeadFeatures(Measure[F]):
    """A measure with features of every head of every text.

    The table of its name has one row per text: `text`, then columns such as `L3.H7.b0@0.1`. The
    table `NAME_heads` has each head's mean over texts, the value for uniform attention
    (`_uniform`), and the standard error of the mean (`_error`).
    """

    state: ClassVar[type[FeaturesState]]
    kind: ClassVar[type] = np.float32

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of one head's features."""

    @abstractmethod
    def values(self, layer: Attention) -> Array:
        """The features of every text and head: [text, head, feature]."""

    def start(self, model: Shape) -> F:
        size = len(self.features)
        rows = Rows.empty(column_names(model.n_layers, model.n_heads, self.features))
        heads = Moments.zeros(model.n_layers, model.n_heads, size)
        parts: dict[str, Any] = {
            "heads": heads,
            "uniform": Moments.zeros(model.n_layers, model.n_heads, size),
            self.name: rows,
        }
        return self.state(**parts)  # type: ignore[return-value]

    def update(self, state: F, layer: Attention) -> None:
        values = self.values(layer)
        uniform = layer.uniform.once(("features", self), lambda: self.values(layer.uniform))
        state.heads.add(layer.index, values)
        state.uniform.add(layer.index, np.broadcast_to(uniform, values.shape))
        state.pending.append(values.astype(self.kind, copy=False))

    def finish_batch(self, state: F, batch: Batch, outputs: Outputs) -> None:
        layers, state.pending = state.pending, []
        wide = np.stack(layers, axis=1).reshape(batch.n_texts, -1)  # text, layer head feature
        ids = np.array([text.id for text in batch.texts], dtype=object)
        getattr(state, self.name).add(np.array(batch.indices), {"text": ids}, wide)

    def result(self, state: F) -> dict[str, pd.DataFrame]:
        mean, error, uniform = state.heads.average(), state.heads.error(), state.uniform.average()
        layers, heads = mean.shape[:2]
        columns = {}
        for number, name in enumerate(self.features):
            columns[name] = mean[..., number]
            columns[f"{name}_uniform"] = uniform[..., number]
            columns[f"{name}_error"] = error[..., number]
        return {
            self.name: getattr(state, self.name).frame(),
            f"{self.name}_heads": head_frame(layers, heads, columns),
        }
