"""How much does each head attend to other occurrences of the same token?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Moments, State


def repeated(layer: Attention) -> torch.Tensor:
    """Mean share of attention that repeated tokens give to their other occurrences: [text, head].

    NaN for a text in which no token is repeated; special tokens do not count.
    """
    ids, special = layer.batch.ids, torch.from_numpy(layer.batch.special)
    same = (ids[:, :, None] == ids[:, None, :]) & ~special[:, :, None]
    same &= ~torch.eye(layer.n_tokens, dtype=torch.bool)
    shares = (layer.dense().weights * same[:, None]).sum(-1)  # text head query
    rows = same.any(-1)  # text query
    return (shares * rows[:, None]).sum(-1) / rows.sum(-1, keepdim=True).where(
        rows.any(-1, keepdim=True), torch.nan
    )


@dataclass
class RepeatsState(State):
    """Means over texts."""

    mean: Moments  # layer head
    uniform: Moments  # layer


@dataclass(frozen=True, kw_only=True)
class Repeats(Measure[RepeatsState]):
    """Each head's attention to other occurrences of a token, and that of uniform attention."""

    name: ClassVar[str] = "repetition"

    def start(self, model: Shape) -> RepeatsState:
        return RepeatsState(
            Moments.zeros(model.n_layers, model.n_heads), Moments.zeros(model.n_layers)
        )

    def update(self, state: RepeatsState, layer: Attention) -> None:
        state.mean.add(layer.index, repeated(layer))
        state.uniform.add(layer.index, repeated(layer.uniform)[:, 0])

    def result(self, state: RepeatsState) -> dict[str, pd.DataFrame]:
        mean, uniform = state.mean.average(), state.uniform.average()
        columns = {
            "repetition": mean,
            "repetition_uniform": uniform[:, None].repeat(mean.shape[1], axis=1),
            "repetition_error": state.mean.error(),
        }
        return {"repetition": head_frame(*mean.shape, columns)}
