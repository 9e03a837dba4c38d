"""Which pattern does each head's attention make, over whole texts of any length?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from attlas.core.attention import Attention, bin_edges
from attlas.core.measure import Measure, Shape, check_bytes
from attlas.core.states import Rows, State, Sums
from attlas.support.arrays import Floats
from attlas.support.errors import MeasureError
from attlas.support.options import option

EXAMPLES = 3


def cell_names(size: int) -> tuple[str, ...]:
    """The columns of a grid: one for each bin of keys.

    >>> cell_names(3)
    ('c0', 'c1', 'c2')
    """
    return tuple(f"c{number}" for number in range(size))


@dataclass
class HeatmapState(State):
    """Sums over texts, and the grids of the first texts."""

    grid: Sums  # layer head bin bin
    uniform: Sums  # layer bin bin
    heatmap_texts: Rows


@dataclass(frozen=True, kw_only=True)
class Heatmap(Measure[HeatmapState]):
    """Each head's attention between `size` bins of queries and `size` bins of keys.

    Without `span` the bins divide every text evenly, whatever its length, and a row sums to one;
    with it they cover the positions from 0 to `span`, and a cell is the mean over the texts that
    reach it (Hou 2022). `heatmap` is the mean over the corpus, `heatmap_uniform` that of uniform
    attention, `heatmap_texts` the grids of the first `examples` texts.
    """

    name: ClassVar[str] = "heatmap"
    clause: ClassVar[str] = (
        "each head's mean attention between bins of queries and bins of keys, compared with "
        "uniform attention"
    )
    references: ClassVar[tuple[str, ...]] = ("hou2022",)
    size: int = option(64, "Number of bins.", at_least=1, at_most=512)
    span: int | None = option(None, "Positions that the bins cover.", at_least=1, at_most=1_000_000)
    examples: int = option(
        EXAMPLES, "Number of texts with a grid of their own.", at_least=0, at_most=1_000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span is not None and self.span < self.size:
            raise MeasureError(
                f"span is {self.span}; it must be at least size, which is {self.size}"
            )

    def start(self, model: Shape) -> HeatmapState:
        square = (self.size, self.size)
        cells = model.n_layers * self.size**2
        size = cells * (16 * (model.n_heads + 1) + 4 * model.n_heads * self.examples)
        check_bytes(self.name, size, "lower size or examples")
        return HeatmapState(
            Sums.zeros(model.n_layers, model.n_heads, *square),
            Sums.zeros(model.n_layers, *square),
            Rows.empty(cell_names(self.size)),
        )

    def update(self, state: HeatmapState, layer: Attention) -> None:
        texts = layer.n_texts
        there = bin_edges(layer.n_tokens, self.size, self.span)[:-1] < layer.n_tokens
        reached = texts * (there[:, None] & there).astype(np.float64)
        grid = layer.grid(self.size, self.span).cpu().numpy()
        key = ("heatmap", self.size, self.span)
        uniform = layer.uniform.once(key, lambda: self._uniform(layer))
        for sums, total in ((state.grid, grid), (state.uniform, uniform)):
            sums.total[layer.index] += total
            sums.count[layer.index] += reached
        for number, index in enumerate(layer.batch.indices):
            if index < self.examples:
                self._example(state, layer, number)

    def _uniform(self, layer: Attention) -> Floats:
        """The grid of uniform attention, summed over texts."""
        uniform = layer.uniform
        grid: Floats = uniform.grid(self.size, self.span).mean(0).cpu().numpy()  # over heads
        return grid * (layer.n_texts / len(uniform.received))

    def _example(self, state: HeatmapState, layer: Attention, number: int) -> None:
        batch, size, heads = layer.batch, self.size, layer.n_heads
        rows = heads * size
        cells = layer.grid(size, self.span, number).float().cpu().numpy().reshape(rows, size)
        state.heatmap_texts.add(
            np.full(rows, batch.indices[number]),
            {
                "text": np.full(rows, batch.texts[number].id, dtype=object),
                "layer": np.full(rows, layer.index, dtype=np.int32),
                "head": np.arange(heads, dtype=np.int32).repeat(size),
                "row": np.tile(np.arange(size, dtype=np.int32), heads),
            },
            cells,
        )

    def result(self, state: HeatmapState) -> dict[str, pd.DataFrame]:
        return {
            "heatmap": _grid_table(("layer", "head", "row"), state.grid.mean()),
            "heatmap_uniform": _grid_table(("layer", "row"), state.uniform.mean()),
            "heatmap_texts": state.heatmap_texts.frame(),
        }


def _grid_table(names: tuple[str, ...], cells: Floats) -> pd.DataFrame:
    """One row per row of a grid, [..., row, cell]; `names` are those of all axes but the last."""
    size = cells.shape[-1]
    rows = np.indices(cells.shape[:-1]).reshape(len(names), -1)
    wide = cells.reshape(-1, size).astype(np.float32)
    return pd.concat(
        [
            pd.DataFrame(dict(zip(names, rows, strict=True))),
            pd.DataFrame(wide, columns=list(cell_names(size))),
        ],
        axis=1,
    )
