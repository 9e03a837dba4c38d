"""How far away, and on which side, does each head look?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Moments, State
from attlas.support.errors import MeasureError


def offset_names(reach: int) -> list[str]:
    """Names of the offsets (key - query), in the order of `Attention.by_offset`.

    >>> offset_names(1)
    ['before', 'offset_-1', 'offset_0', 'offset_+1', 'after']
    """
    return [
        "before",
        *(f"offset_{offset:+d}" if offset else "offset_0" for offset in range(-reach, reach + 1)),
        "after",
    ]


@dataclass
class PositionsState(State):
    """Means over texts."""

    mass: Moments  # layer head offset
    uniform: Moments  # layer offset


@dataclass(frozen=True, kw_only=True)
class Positions(Measure[PositionsState]):
    """Mean mass each head's rows put at every offset (key - query) up to `reach`, and further `before` and `after`; a row sums to one.

    Beside each stands what uniform attention over the visible tokens would give: short texts have few far tokens.
    """

    name: ClassVar[str] = "positions"
    reach: int = 8

    def __post_init__(self) -> None:
        if self.reach < 1:
            raise MeasureError(f"reach is {self.reach}; it must be at least 1")

    def start(self, model: Shape) -> PositionsState:
        size = 2 * self.reach + 3
        return PositionsState(Moments.zeros(model.n_layers, model.n_heads, size), Moments.zeros(model.n_layers, size))

    def update(self, state: PositionsState, layer: Attention) -> None:
        state.mass.add(layer.index, layer.by_offset(self.reach))
        state.uniform.add(layer.index, layer.uniform.by_offset(self.reach)[:, 0].expand(layer.n_texts, -1))

    def result(self, state: PositionsState) -> dict[str, pd.DataFrame]:
        mass, uniform = state.mass.average(), state.uniform.average()
        layers, heads = mass.shape[:2]
        columns = {}
        for number, name in enumerate(offset_names(self.reach)):
            columns[name] = mass[..., number]
            columns[f"{name}_uniform"] = uniform[:, None, number].repeat(heads, axis=1)
        return {"positions": head_frame(layers, heads, columns)}
