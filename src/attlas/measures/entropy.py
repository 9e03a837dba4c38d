"""Does each head attend to few tokens or to many?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_table
from attlas.core.states import Histogram, Moments, State, TopList

BINS = 20
EXAMPLES = 3
COLUMNS = ("entropy", "cls_entropy")


def cls_rows(values: Tensor, cls: Tensor) -> Tensor:
    """Mean over [CLS] rows: [text, head, query] -> [text, head]; NaN for a text without one."""
    rows = cls.to(values.dtype)
    return torch.matmul(values, (rows / rows.sum(-1, keepdim=True))[..., None])[..., 0]


def means(entropy: Tensor, cls: Tensor) -> Tensor:
    """Mean over all rows, and over [CLS] rows: [text, head, query] -> [text, head, column]."""
    return torch.stack([entropy.mean(-1), cls_rows(entropy, cls)], -1)


@dataclass
class EntropyState(State):
    """Means, spread and examples over texts."""

    mean: Moments  # layer head column
    uniform: Moments  # layer head column
    difference: Moments  # layer head column: of the two, text by text
    spread: Histogram  # layer head bin
    focused: TopList  # layer head rank


@dataclass(frozen=True, kw_only=True)
class Entropy(Measure[EntropyState]):
    """Mean entropy of each head's rows in nats, and of the [CLS] row alone.

    The control is uniform attention: ln of the number of tokens a row can see. Clark et al. 2019,
    section 3.3, smooth the weights because theirs are in half precision; these are not smoothed.
    Every text has the same weight. `entropy_histogram` counts rows by entropy over its largest
    possible value; `entropy_examples` are the texts (by index in the corpus) in which a head is
    furthest below uniform.
    """

    name: ClassVar[str] = "entropy"
    clause: ClassVar[str] = (
        "the mean entropy in nats of a head's rows of attention, and of its [CLS] rows, compared "
        "with uniform attention over the visible tokens"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)

    def start(self, model: Shape) -> EntropyState:
        shape = (model.n_layers, model.n_heads)
        mean, uniform, difference = (Moments.zeros(*shape, len(COLUMNS)) for _ in range(3))
        spread = Histogram.zeros(*shape, bins=BINS)
        focused = TopList.empty(*shape, size=EXAMPLES)
        return EntropyState(mean, uniform, difference, spread, focused)

    def update(self, state: EntropyState, layer: Attention) -> None:
        entropy, cls = layer.row_entropy(), layer.batch.cls  # text head query; text query
        largest = layer.n_visible_keys.float().log().expand(layer.n_texts, -1, -1)  # of a row
        uniform = layer.uniform.once("entropy", lambda: means(largest, cls))
        mean = means(entropy, cls)
        state.mean.add(layer.index, mean)
        state.uniform.add(layer.index, uniform.expand_as(mean))
        state.difference.add(layer.index, mean - uniform)
        share = entropy / largest.where(largest > 0, torch.nan)
        state.spread.add(layer.index, share.transpose(0, 1).flatten(1))
        state.focused.add(layer.index, (uniform - mean)[..., 0], layer.batch.indices)

    def result(self, state: EntropyState) -> dict[str, pd.DataFrame]:
        controls = {
            "uniform": state.uniform.average(),
            "error": state.mean.error(),
            "difference_error": state.difference.error(),
        }
        edges = state.spread.edges()
        layer, head, cell = np.indices(state.spread.counts.shape).reshape(3, -1)
        histogram = pd.DataFrame(
            {
                "layer": layer,
                "head": head,
                "from": edges[cell],
                "to": edges[cell + 1],
                "rows": state.spread.counts.reshape(-1),
            }
        )
        layer, head, rank = np.indices(state.focused.indices.shape).reshape(3, -1)
        examples = pd.DataFrame(
            {
                "layer": layer,
                "head": head,
                "rank": rank,
                "place": state.focused.indices.reshape(-1),
                "below_uniform": state.focused.scores.reshape(-1),
            }
        )
        return {
            "entropy": head_table(COLUMNS, state.mean.average(), **controls),
            "entropy_histogram": histogram,
            "entropy_examples": examples[examples["place"] >= 0].reset_index(drop=True),
        }
