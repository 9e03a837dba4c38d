"""How sensitive is the loss to attention to [SEP], [CLS], punctuation and other tokens?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape, head_table
from attlas.core.states import Moments, State

COLUMNS = ("sep", "cls", "punctuation", "other", "all")


def special_gradient(layer: Attention, punctuation: frozenset[str] = frozenset(".,")) -> Tensor:
    """Mean |d loss / d weight| to each of COLUMNS after a backward pass: [text, head, column].

    Only weights to visible keys count; `all` is over all of them. NaN without such a token.
    """
    sizes = layer.gradient().absolute().received  # text head key
    batch = layer.batch
    marks = batch.once(
        ("special_gradient", punctuation), lambda: _marks(batch, punctuation)
    )  # text key column
    seen = layer.n_visible_queries.to(sizes).expand(batch.n_texts, -1, -1)  # weights to each key
    weights = torch.einsum("thk,tkc->thc", seen, marks.to(sizes))  # one head where all see the same
    total = torch.einsum("thk,tkc->thc", sizes, marks.to(sizes))
    return total / weights.where(weights > 0, torch.nan)


def _marks(batch: Batch, punctuation: frozenset[str]) -> Tensor:
    marks = batch.mask(punctuation)
    special = torch.from_numpy(batch.special).to(marks.device)
    return torch.stack([batch.sep, batch.cls, marks, ~marks & ~special, torch.ones_like(marks)], -1)


@dataclass
class GradientState(State):
    """Means over texts."""

    size: Moments  # layer head column


@dataclass(frozen=True, kw_only=True)
class SpecialGradient(Measure[GradientState]):
    """Mean |d loss / d weight| of each head to [SEP], [CLS], punctuation and other tokens.

    After Clark et al. 2019, Figure 3: small where attention has no effect. The loss is a masked
    language model's over all tokens, none of which is masked, a causal model's, or a classifier's;
    a model without a head has a pseudo-loss, the mean last hidden state along a fixed random
    direction. The control of each column, `NAME_all`, is the mean over all weights.
    """

    name: ClassVar[str] = "special_gradient"
    clause: ClassVar[str] = (
        "the mean size of the derivative of the loss with respect to attention weights on [SEP], "
        "[CLS], punctuation and other tokens, compared with the mean over all weights"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    needs: ClassVar[frozenset[str]] = frozenset({"weight_gradients"})
    costly: ClassVar[bool] = True
    punctuation: str = ".,"

    def start(self, model: Shape) -> GradientState:
        return GradientState(Moments.zeros(model.n_layers, model.n_heads, len(COLUMNS)))

    def finish_batch(self, state: GradientState, batch: Batch, outputs: Outputs) -> None:
        for layer in outputs.gradients.layers:
            state.size.add(layer.index, special_gradient(layer, frozenset(self.punctuation)))

    def result(self, state: GradientState) -> dict[str, pd.DataFrame]:
        mean, error = state.size.average(), state.size.error()
        control = np.broadcast_to(mean[..., -1:], mean.shape)
        table = head_table(COLUMNS, mean, all=control, error=error)
        return {"special_gradient": table.drop(columns="all_all")}
