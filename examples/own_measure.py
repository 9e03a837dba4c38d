"""A measure of one's own: how far away is the token that each query attends to most?

Run it: python examples/own_measure.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch

import attlas
from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Moments, State
from attlas.testing import check_measure, stream, tiny


def farthest(layer: Attention) -> torch.Tensor:
    """Mean distance in tokens from a query to the key it attends to most: [text, head]."""
    _, key = layer.top_keys(1)  # text head query 1
    return (key[..., 0] - torch.arange(layer.n_tokens, device=key.device)).abs().float().mean(-1)


@dataclass
class FarthestState(State):
    """Means over texts."""

    distance: Moments  # layer head
    uniform: Moments  # layer


@dataclass(frozen=True, kw_only=True)
class Farthest(Measure[FarthestState]):
    """Mean distance to the most attended token, and to a token drawn uniformly as the control."""

    name: ClassVar[str] = "farthest"
    kinds: ClassVar[dict[str, str]] = {"farthest": "above"}  # its control is farthest_uniform

    def start(self, model: Shape) -> FarthestState:
        return FarthestState(
            Moments.zeros(model.n_layers, model.n_heads), Moments.zeros(model.n_layers)
        )

    def update(self, state: FarthestState, layer: Attention) -> None:
        state.distance.add(layer.index, farthest(layer))
        position = torch.arange(layer.n_tokens)
        even = layer.uniform.dense().weights[:, 0] * (position[:, None] - position).abs()
        state.uniform.add(layer.index, even.sum(-1).mean(-1).expand(layer.n_texts))

    def result(self, state: FarthestState) -> dict[str, pd.DataFrame]:
        mean, uniform = state.distance.average(), state.uniform.average()
        columns = {
            "farthest": mean,
            "farthest_uniform": uniform[:, None].repeat(mean.shape[1], axis=1),
        }
        return {"farthest": head_frame(*mean.shape, columns)}


if __name__ == "__main__":
    model = tiny("bert")
    check_measure(
        Farthest(), stream(model, ["a cat sat", "the dog saw it"]), model
    )  # the laws hold
    study = attlas.study(attlas.load(), "embedded:reviews", [Farthest()])
    print(study.table("farthest").sort_values("farthest").round(2).to_string(index=False))
