"""How alike are heads in what they attend to?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core import kernels
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape
from attlas.core.states import Floats, State, Sums
from attlas.measures.head_map import head_map, neighbours, within_layers
from attlas.support.options import check_convention, option, seed_option

PUBLISHED_SMOOTHING = 0.001


def divergences(layers: Sequence[Attention], smoothing: float = 0.0) -> tuple[Floats, Floats]:
    """Jensen-Shannon divergence in nats between all heads of all layers of a batch, and of each head from even attention, summed over rows and texts.

    [head of all layers, head of all layers] and [head of all layers]. The blocks of a text are taken one at a time, so that no more than a text's weights are copied.
    """
    reach = max(layer.reach for layer in layers)
    heads = layers[0].n_heads
    between, from_even = np.zeros((len(layers) * heads,) * 2), np.zeros((len(layers) * heads, 1))
    blocks = [[_array(block) for block in layer.blocks(reach)] for layer in layers]  # layer block
    even = [[_array(block) for block in layer.uniform.blocks(reach)] for layer in layers]
    share = np.float32(1 / layers[0].n_tokens)
    for number in range(len(blocks[0])):
        for text in range(layers[0].n_texts):
            rows = np.concatenate([layer[number][text] for layer in blocks])  # head row cell
            kernels.add_divergences(between, rows, rows, True, np.float32(smoothing), share)
            for layer, flat in enumerate(even):
                control = _of(flat[number], text)  # head or 1, row cell
                step = heads // len(control)  # heads that are compared with one control
                for first, one in zip(
                    range(layer * heads, (layer + 1) * heads, step), control, strict=True
                ):
                    mine = slice(first, first + step)
                    kernels.add_divergences(
                        from_even[mine], rows[mine], one[None], False, np.float32(smoothing), share
                    )
    return np.maximum(between + between.T, 0.0), np.maximum(from_even[:, 0], 0.0)


def _array(block: Any) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(block.detach().float().cpu().numpy())


def _of(block: npt.NDArray[np.float32], text: int) -> npt.NDArray[np.float32]:
    return block[text if len(block) > 1 else 0]  # uniform keeps one for all texts


@dataclass
class DistanceState(State):
    """Divergences summed over rows, and the batch that is under way."""

    between: Sums  # head head, of all layers
    even: Sums  # head
    shape: tuple[int, int] = field(metadata={"parameter": True})
    layers: list[Attention] = field(default_factory=list, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class HeadDistance(Measure[DistanceState]):
    """The Jensen-Shannon divergence between the rows of every two heads, all layers together, summed over rows and texts (Clark et al. 2019, section 6).

    The paper's code smooths the weights (half precision has exact zeros) and so does `convention="published"`; the divergence needs it not. `distance` is the sum over rows, `mean` a row's mean,
    from 0 (the same) to ln 2 = 0.69 (nothing in common). From it follow `head_map`, two dimensions by metric MDS with hierarchical `clusters` and, where `surface` and `entropy` were measured
    beside it, what each head does; `head_neighbours`, the nearest heads of each, and `head_layers`, whether heads of one layer are nearer than others.
    """

    name: ClassVar[str] = "head_distance"
    costly: ClassVar[bool] = True
    convention: str = "sound"
    clusters: int = option(8, "Number of clusters.", at_least=1, at_most=1_000)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        check_convention(self.convention)
        super().__post_init__()

    def start(self, model: Shape) -> DistanceState:
        heads = model.n_layers * model.n_heads
        return DistanceState(
            Sums(np.zeros((heads, heads)), np.zeros(1)),
            Sums(np.zeros(heads), np.zeros(1)),
            (model.n_layers, model.n_heads),
        )

    def update(self, state: DistanceState, layer: Attention) -> None:
        state.layers.append(layer)

    def finish_batch(self, state: DistanceState, batch: Batch, outputs: Outputs) -> None:
        layers, state.layers = state.layers, []
        smoothing = PUBLISHED_SMOOTHING if self.convention == "published" else 0.0
        between, even = divergences(layers, smoothing)
        for sums, found in ((state.between, between), (state.even, even)):
            sums.total += found
            sums.count += batch.n_texts * batch.n_tokens  # rows

    def result(self, state: DistanceState) -> dict[str, pd.DataFrame]:
        (_, heads), total = state.shape, state.between.total
        rows = max(1.0, float(state.between.count[0]))
        one, other = np.indices(total.shape).reshape(2, -1)
        return {
            "head_distance": pd.DataFrame(
                {
                    "layer": one // heads,
                    "head": one % heads,
                    "other_layer": other // heads,
                    "other_head": other % heads,
                    "distance": total.reshape(-1),
                    "mean": total.reshape(-1) / rows,
                    "mean_uniform": (state.even.total / rows)[one],
                }
            )
        }

    def conclude(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        found = tables["head_distance"]
        drawn = head_map(
            found,
            tables.get("surface"),
            tables.get("entropy"),
            clusters=self.clusters,
            seed=self.seed,
        )
        return {
            "head_map": drawn,
            "head_neighbours": neighbours(found),
            "head_layers": pd.DataFrame([within_layers(found, seed=self.seed)]),
        }
