"""How much does each head attend to itself, its neighbours, [CLS], [SEP] and punctuation?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import REACH, Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Shape, head_tables
from attlas.core.states import HeadMeans, State

COLUMNS = (
    "self",
    "previous",
    "next",
    "first",
    "cls",
    "sep",
    "sep_from_sep",
    "sep_from_rest",
    "punctuation",
)
ENDS = ("", "_uniform", "_error", "_difference_error")  # of the columns of one target


def surface(layer: Attention, punctuation: frozenset[str] = frozenset(".,")) -> Tensor:
    """Mean mass of a row on each of COLUMNS: [text, head, column]; NaN without such a row or token.

    Attention to the token itself, the one before and after, the first token, [CLS], all [SEP], and
    "." and "," (Clark et al. 2019, sections 3.1 and 3.2); `sep_from_sep` is the mean over [SEP]
    rows only, `sep_from_rest` over the others.
    """
    batch, received, near = layer.batch, layer.received, layer.by_offset()
    marks, shares = batch.once(
        ("surface", punctuation), lambda: _marks_and_shares(batch, punctuation)
    )
    marked = torch.matmul(received, marks.to(received.dtype))  # text head mark: sums of columns
    sep_from_sep = layer.between(batch.sep, batch.sep)
    out = received.new_empty(batch.n_texts, layer.n_heads, len(COLUMNS))
    out[..., :3] = near[..., [REACH + 1, REACH, REACH + 2]]
    out[..., 3] = received[..., 0]
    out[..., 4:6] = marked[..., :2]
    out[..., 6] = sep_from_sep
    out[..., 7] = marked[..., 1] - sep_from_sep
    out[..., 8] = marked[..., 2]
    return out * shares


def _marks_and_shares(batch: Batch, punctuation: frozenset[str]) -> tuple[Tensor, Tensor]:
    """Which tokens are [CLS], [SEP], punctuation; and one over the number of rows of each column.

    [text, token, mark] and [text, 1, column].
    """
    marks = torch.stack([batch.cls, batch.sep, batch.mask(punctuation)], -1).float()
    n = torch.full((batch.n_texts,), float(batch.n_tokens), device=marks.device)
    n_sep = marks[..., 1].sum(-1)
    there = torch.where(n_sep > 0, 1.0, torch.nan)
    n_rest = (n - n_sep).where(n_sep < n, torch.nan)
    shares = 1 / torch.stack([n, n, n, n, n, n * there, n_sep * there, n_rest * there, n], -1)
    shares[:, :3] = 1  # offsets are means already
    shares[:, 4] = shares[:, 4].where(batch.cls.any(-1), torch.nan)
    return marks, shares[:, None]


@dataclass
class SurfaceState(State):
    """Means over texts."""

    heads: HeadMeans  # of COLUMNS


@dataclass(frozen=True, kw_only=True)
class Surface(Measure[SurfaceState]):
    """Each head's mean attention to simple targets; the control is uniform over visible tokens.

    Every text has the same weight. `punctuation` is "." and "," in Clark et al. 2019.
    """

    name: ClassVar[str] = "surface"
    clause: ClassVar[str] = (
        "the mean share of a head's attention on the token itself, its neighbours, the first "
        "token, [CLS], [SEP] and punctuation, compared with uniform attention over the visible "
        "tokens"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    punctuation: str = ".,"

    def start(self, model: Shape) -> SurfaceState:
        shape = (model.n_layers, model.n_heads, len(COLUMNS))
        return SurfaceState(HeadMeans.zeros(*shape, shares=True))

    def update(self, state: SurfaceState, layer: Attention) -> None:
        marks, uniform = frozenset(self.punctuation), layer.uniform
        control = uniform.once(("surface", marks), lambda: surface(uniform, marks))
        state.heads.add(layer, surface(layer, marks), control)

    def result(self, state: SurfaceState) -> dict[str, pd.DataFrame]:
        tables = head_tables("surface", COLUMNS, state.heads)
        uniform = tables["surface"][[f"{name}_uniform" for name in COLUMNS]]
        unseen = [name for name in COLUMNS if (uniform[f"{name}_uniform"] == 0).all()]
        return {name: _without(frame, unseen) for name, frame in tables.items()}


def _without(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Missing, not 0, where no query sees such a token: the next one, in a causal model."""
    columns = {f"{name}{end}" for name in names for end in ENDS}
    return frame.assign(**{one: float("nan") for one in frame if one in columns})
