"""How much does each head attend to itself, its neighbours, [CLS], [SEP] and punctuation?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Moments, State

COLUMNS = ("self", "previous", "next", "first", "cls", "sep", "sep_from_sep", "sep_from_rest", "punctuation")


def surface(layer: Attention, punctuation: frozenset[str] = frozenset(".,")) -> Tensor:
    """Mean mass a row gives to each of COLUMNS: [text, head, column]; NaN where a text has no such row or the model no such token.

    Of every row the attention to itself, to the token before and after, to the first token, to [CLS], to all [SEP], and to "." and ","
    (Clark et al. 2019, section 3.1); `sep_from_sep` is the mean over [SEP] rows only, `sep_from_rest` over the others.
    """
    n, batch = layer.n_tokens, layer.batch
    near = layer.by_offset(1)  # left of -1, -1, 0, +1, right of +1
    received = layer.received / n  # text head key: share of all rows
    to_sep = layer.mass_to(batch.sep)  # text head query
    from_sep = batch.sep[:, None].to(to_sep.dtype)
    n_sep = from_sep.sum(-1)
    sep_total, sep_sep = to_sep.sum(-1), (to_sep * from_sep).sum(-1)
    none = torch.full_like(sep_total, torch.nan)

    def share(marked: Tensor) -> Tensor:
        return (received * marked[:, None]).sum(-1)

    has_cls, has_sep = batch.cls.any(-1)[:, None], n_sep > 0
    return torch.stack(
        [value.expand_as(none) for value in (
            near[..., 2], near[..., 1], near[..., 3], received[..., 0],
            torch.where(has_cls, share(batch.cls), none),
            torch.where(has_sep, sep_total / n, none),
            torch.where(has_sep, sep_sep / n_sep, none),
            torch.where(has_sep & (n_sep < n), (sep_total - sep_sep) / (n - n_sep), none),
            share(batch.mask(punctuation)),
        )], -1,
    )  # fmt: skip


@dataclass
class SurfaceState(State):
    """Means over texts."""

    mean: Moments  # layer head column
    uniform: Moments  # layer column


@dataclass(frozen=True, kw_only=True)
class Surface(Measure[SurfaceState]):
    """Each head's mean attention to simple targets, beside what uniform attention over the visible tokens would give.

    Every text weighs the same, whatever its length. `punctuation` lists the tokens that count as such: "." and "," in the paper.
    """

    name: ClassVar[str] = "surface"
    punctuation: str = ".,"

    def start(self, model: Shape) -> SurfaceState:
        return SurfaceState(
            Moments.zeros(model.n_layers, model.n_heads, len(COLUMNS)), Moments.zeros(model.n_layers, len(COLUMNS))
        )

    def update(self, state: SurfaceState, layer: Attention) -> None:
        marks = frozenset(self.punctuation)
        state.mean.add(layer.index, surface(layer, marks))
        state.uniform.add(layer.index, surface(layer.uniform, marks)[:, 0])

    def result(self, state: SurfaceState) -> dict[str, pd.DataFrame]:
        mean, error, uniform = state.mean.average(), state.mean.error(), state.uniform.average()
        layers, heads = mean.shape[:2]
        columns = {}
        for number, name in enumerate(COLUMNS):
            columns[name] = mean[..., number]
            columns[f"{name}_uniform"] = uniform[:, None, number].repeat(heads, axis=1)
            columns[f"{name}_error"] = error[..., number]
        return {"surface": head_frame(layers, heads, columns)}
