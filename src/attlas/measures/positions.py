"""How far away, and on which side, does each head look?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_table
from attlas.core.states import Moments, State
from attlas.support.options import option


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
    uniform: Moments  # layer head offset


@dataclass(frozen=True, kw_only=True)
class Positions(Measure[PositionsState]):
    """Mean mass of each head's rows at every offset (key - query) up to `reach`; a row sums to one.

    `before` and `after` are further away. The control is uniform attention over the visible tokens:
    short texts have few far tokens.
    """

    name: ClassVar[str] = "positions"
    clause: ClassVar[str] = (
        "the mean share of a head's attention at each offset from query to key, compared with "
        "uniform attention over the visible tokens"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    reach: int = option(8, "Largest offset with a column of its own.", at_least=1, at_most=4_096)

    def start(self, model: Shape) -> PositionsState:
        shape = (model.n_layers, model.n_heads, 2 * self.reach + 3)
        return PositionsState(Moments.zeros(*shape), Moments.zeros(*shape))

    def update(self, state: PositionsState, layer: Attention) -> None:
        mass = layer.by_offset(self.reach)
        state.mass.add(layer.index, mass)
        state.uniform.add(layer.index, layer.uniform.by_offset(self.reach).expand_as(mass))

    def result(self, state: PositionsState) -> dict[str, pd.DataFrame]:
        mass, uniform = state.mass.average(), state.uniform.average()
        return {"positions": head_table(offset_names(self.reach), mass, uniform=uniform)}
