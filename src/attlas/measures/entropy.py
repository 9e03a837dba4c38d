"""Does each head attend to few tokens or to many?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Histogram, Moments, State, TopList

BINS = 20
EXAMPLES = 3


def cls_rows(values: Tensor, cls: Tensor) -> Tensor:
    """Mean over [CLS] rows: [text, head, query] -> [text, head]; NaN for a text without one."""
    rows = cls.to(values.dtype)
    return torch.matmul(values, (rows / rows.sum(-1, keepdim=True))[..., None])[..., 0]


def most_entropy(layer: Attention) -> tuple[Tensor, Tensor, Tensor]:
    """The entropy of uniform attention: of each row, mean over rows, mean over [CLS] rows.

    [text, head or 1, query], NaN where a row sees one token, and twice [text, head or 1].
    """
    most = layer.n_visible_keys.float().log().expand(layer.n_texts, -1, -1)
    return most.where(most > 0, torch.nan), most.mean(-1), cls_rows(most, layer.batch.cls)


@dataclass
class EntropyState(State):
    """Means, spread and examples over texts."""

    rows: Moments  # layer head
    cls: Moments  # layer head
    rows_uniform: Moments  # layer head
    cls_uniform: Moments  # layer head
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

    def start(self, model: Shape) -> EntropyState:
        layers, heads = model.n_layers, model.n_heads
        return EntropyState(
            Moments.zeros(layers, heads),
            Moments.zeros(layers, heads),
            Moments.zeros(layers, heads),
            Moments.zeros(layers, heads),
            Histogram.zeros(layers, heads, bins=BINS),
            TopList.empty(layers, heads, size=EXAMPLES),
        )

    def update(self, state: EntropyState, layer: Attention) -> None:
        entropy = layer.row_entropy()  # text head query
        mean = entropy.mean(-1)
        most, mean_most, cls_most = layer.uniform.once("entropy", lambda: most_entropy(layer))
        state.rows.add(layer.index, mean)
        state.cls.add(layer.index, cls_rows(entropy, layer.batch.cls))
        state.rows_uniform.add(layer.index, mean_most.expand_as(mean))
        state.cls_uniform.add(layer.index, cls_most.expand_as(mean))
        state.spread.add(layer.index, (entropy / most).transpose(0, 1).flatten(1))
        state.focused.add(layer.index, mean_most - mean, layer.batch.indices)

    def result(self, state: EntropyState) -> dict[str, pd.DataFrame]:
        layers, heads = state.rows.mean.shape
        table = head_frame(
            layers,
            heads,
            {
                "entropy": state.rows.average(),
                "entropy_uniform": state.rows_uniform.average(),
                "entropy_error": state.rows.error(),
                "cls_entropy": state.cls.average(),
                "cls_entropy_uniform": state.cls_uniform.average(),
                "cls_entropy_error": state.cls.error(),
            },
        )
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
            "entropy": table,
            "entropy_histogram": histogram,
            "entropy_examples": examples[examples["place"] >= 0].reset_index(drop=True),
        }
