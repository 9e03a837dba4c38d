"""Which heads attend to the same tokens?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from attlas.core import kernels
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape
from attlas.core.states import State, Sums
from attlas.measures.head_map import head_map, neighbours, within_layers
from attlas.support.arrays import Floats, Floats32
from attlas.support.options import CONVENTIONS, option, seed_option

PUBLISHED_SMOOTHING = 0.001


def divergences(layers: Sequence[Attention], smoothing: float = 0.0) -> tuple[Floats, Floats]:
    """Jensen-Shannon divergence in nats between all heads, and of each from uniform attention.

    Summed over rows and texts of a batch: [head of all layers, head of all layers] and [head of all
    layers]. One block of one text is copied at a time.
    """
    reach = max(layer.reach for layer in layers)
    heads = layers[0].n_heads
    between, from_uniform = np.zeros((len(layers) * heads,) * 2), np.zeros((len(layers) * heads, 1))
    blocks = [[_array(block) for block in layer.blocks(reach)] for layer in layers]  # layer block
    uniform = [[_array(block) for block in layer.uniform.blocks(reach)] for layer in layers]
    scale = np.float32(smoothing), np.float32(1 / layers[0].n_tokens)
    for number in range(len(blocks[0])):
        for text in range(layers[0].n_texts):
            rows = np.concatenate([layer[number][text] for layer in blocks])  # head row cell
            kernels.add_divergences(between, rows, rows, True, *scale)
            for layer, flat in enumerate(uniform):
                block = flat[number]  # one for all texts, or one per text
                control = block[text if len(block) > 1 else 0]  # head or 1, row cell
                step = heads // len(control)  # heads that are compared with one control
                for head, one in enumerate(control):
                    first = layer * heads + head * step
                    own = slice(first, first + step)
                    kernels.add_divergences(from_uniform[own], rows[own], one[None], False, *scale)
    return np.maximum(between + between.T, 0.0), np.maximum(from_uniform[:, 0], 0.0)


def _array(block: Any) -> Floats32:
    return np.ascontiguousarray(block.detach().float().cpu().numpy())


@dataclass
class DistanceState(State):
    """Divergences summed over rows, and the current batch."""

    between: Sums  # head head, of all layers
    uniform: Sums  # head
    shape: tuple[int, int] = field(metadata={"parameter": True})
    layers: list[Attention] = field(default_factory=list, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class HeadDistance(Measure[DistanceState]):
    """Jensen-Shannon divergence between the rows of every two heads (Clark et al. 2019, section 6).

    `convention="published"` smooths the weights as the paper's code does (half precision has exact
    zeros); the divergence itself does not need it. `distance` is the sum over rows and texts,
    `mean` the mean over rows, from 0 (identical) to ln 2 = 0.69 (nothing in common). Derived from
    it: `head_map`, two dimensions by metric MDS with hierarchical `clusters` and, with the measures
    `surface` and `entropy`, what each head does; `head_neighbours`, the nearest heads of each;
    `head_layers`, whether heads of one layer are nearer to each other than to others.
    """

    name: ClassVar[str] = "head_distance"
    clause: ClassVar[str] = (
        "the Jensen-Shannon divergence between the attention rows of every two heads, compared "
        "with their divergence from uniform attention"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    costly: ClassVar[bool] = True
    convention: str = option("sound", "Whose smoothing to use.", choices=CONVENTIONS)
    clusters: int = option(8, "Number of clusters.", at_least=1, at_most=1_000)
    seed: int = seed_option()

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
        between, uniform = divergences(layers, smoothing)
        for sums, total in ((state.between, between), (state.uniform, uniform)):
            sums.total += total
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
                    "mean_uniform": (state.uniform.total / rows)[one],
                }
            )
        }

    def derive(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        distances = tables["head_distance"]
        surface, entropy = tables.get("surface"), tables.get("entropy")
        points = head_map(distances, surface, entropy, clusters=self.clusters, seed=self.seed)
        return {
            "head_map": points,
            "head_neighbours": neighbours(distances),
            "head_layers": pd.DataFrame([within_layers(distances, seed=self.seed)]),
        }
