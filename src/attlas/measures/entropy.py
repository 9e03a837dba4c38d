"""Does each head attend to few tokens or to many?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_tables
from attlas.core.states import HeadMeans, Histogram, Moments, State, TopList
from attlas.support.arrays import Floats

BINS = 20
EXAMPLES = 3
LENGTHS = 20  # bins of text lengths: 1, 2 to 3, 4 to 7, ... tokens; a longer text is in the last
COLUMNS = ("entropy", "cls_entropy")


def cls_rows(values: Tensor, cls: Tensor) -> Tensor:
    """Mean over [CLS] rows: [text, head, query] -> [text, head]; NaN for a text without one."""
    rows = cls.to(values.dtype)
    return torch.matmul(values, (rows / rows.sum(-1, keepdim=True))[..., None])[..., 0]


def length_bin(n_tokens: int) -> int:
    """The bin of a text of so many tokens.

    >>> [length_bin(n) for n in (1, 2, 3, 4, 511, 512)]
    [0, 1, 1, 2, 8, 9]
    """
    return min(n_tokens.bit_length(), LENGTHS) - 1


def means(entropy: Tensor, cls: Tensor) -> Tensor:
    """Mean over all rows, and over [CLS] rows: [text, head, query] -> [text, head, column]."""
    return torch.stack([entropy.mean(-1), cls_rows(entropy, cls)], -1)


@dataclass
class EntropyState(State):
    """Means, spread and examples over texts."""

    heads: HeadMeans  # of COLUMNS
    spread: Histogram  # layer head bin
    focused: TopList  # layer head rank
    by_length: Moments  # (layer length) head: entropy
    uniform_by_length: Moments  # (layer length) head


@dataclass(frozen=True, kw_only=True)
class Entropy(Measure[EntropyState]):
    """Mean entropy of each head's rows in nats, and of the [CLS] row alone.

    The control is uniform attention: ln of the number of tokens a row can see. Clark et al. 2019,
    section 3.3, smooth the weights because theirs are in half precision; these are not smoothed.
    Every text has the same weight. `entropy_histogram` counts rows by entropy over its largest
    possible value; `entropy_examples` are the texts (by index in the corpus) in which a head is
    furthest below uniform; `entropy_by_length` has the means of texts of 2 to 3 tokens, 4 to 7, 8
    to 15, ....
    """

    name: ClassVar[str] = "entropy"
    clause: ClassVar[str] = (
        "the mean entropy in nats of a head's rows of attention, and of its [CLS] rows, compared "
        "with uniform attention over the visible tokens"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)

    def start(self, model: Shape) -> EntropyState:
        shape = (model.n_layers, model.n_heads)
        heads = HeadMeans.zeros(*shape, len(COLUMNS))
        spread = Histogram.zeros(*shape, bins=BINS)
        focused = TopList.empty(*shape, size=EXAMPLES)
        lengths = (Moments.zeros(model.n_layers * LENGTHS, model.n_heads) for _ in range(2))
        return EntropyState(heads, spread, focused, *lengths)

    def update(self, state: EntropyState, layer: Attention) -> None:
        entropy, cls = layer.row_entropy(), layer.batch.cls  # text head query; text query
        largest = layer.n_visible_keys.float().log().expand(layer.n_texts, -1, -1)  # of a row
        uniform = layer.uniform.once("entropy", lambda: means(largest, cls))
        mean = means(entropy, cls)
        state.heads.add(layer, mean, uniform)
        share = entropy / largest.where(largest > 0, torch.nan)
        state.spread.add(layer.index, share.transpose(0, 1).flatten(1))
        state.focused.add(layer.index, (uniform - mean)[..., 0], layer.batch.indices)
        at = layer.index * LENGTHS + length_bin(layer.n_tokens)
        state.by_length.add(at, mean[..., 0])
        state.uniform_by_length.add(at, uniform[..., 0].expand(-1, layer.n_heads))

    def result(self, state: EntropyState) -> dict[str, pd.DataFrame]:
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
            **head_tables("entropy", COLUMNS, state.heads),
            "entropy_histogram": histogram,
            "entropy_examples": examples[examples["place"] >= 0].reset_index(drop=True),
            "entropy_by_length": _by_length(state),
        }


def _by_length(state: EntropyState) -> pd.DataFrame:
    """The mean entropy of every head in texts of similar length, up to the longest text."""

    def ordered(values: Floats) -> Floats:
        """(layer length) head -> layer head length, as one list."""
        return values.reshape(-1, LENGTHS, values.shape[-1]).swapaxes(1, 2).reshape(-1)

    n_heads = state.by_length.count.shape[-1]
    layer, head, length = np.indices((len(state.by_length.count) // LENGTHS, n_heads, LENGTHS))
    table = pd.DataFrame(
        {
            "layer": layer.reshape(-1),
            "head": head.reshape(-1),
            "from": 2 ** length.reshape(-1),
            "to": 2 ** (length.reshape(-1) + 1) - 1,
            "entropy": ordered(state.by_length.average()),
            "uniform": ordered(state.uniform_by_length.average()),
            "error": ordered(state.by_length.error()),
            "texts": ordered(state.by_length.count).astype(np.int64),
        }
    )
    longest = table.loc[table["texts"] > 0, "to"].max()
    return table[table["to"] <= longest].reset_index(drop=True)
