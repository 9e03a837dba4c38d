"""Do tokens receive attention for where they stand rather than for what they are?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.masks import Keep
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Floats, State, Sums
from attlas.support.errors import MeasureError

ORDINARY = Keep("ordinary")


@dataclass
class PositionBiasState(State):
    """Sums over ordinary tokens: attention received, and what even attention would give; counts are of tokens."""

    received: Sums  # layer position
    uniform: Sums  # layer position
    by_residue: Sums  # layer head residue
    uniform_by_residue: Sums  # layer residue


@dataclass(frozen=True, kw_only=True)
class PositionBias(Measure[PositionBiasState]):
    """Mean attention received by position over the corpus, special tokens left out, beside what even attention would give there.

    A model made from a shorter one repeats its position embeddings after `period` tokens (512 for Longformer), so that the tokens at 512, 1024, ... look to it
    like the first token, which is special and much attended. `position_bias_period` is the same by position modulo the period, and
    `position_bias_heads` says for each head what the tokens at multiples of the period receive, over what they would receive of even attention, beside
    all other tokens. Positions from `span` on are left out.
    """

    name: ClassVar[str] = "position_bias"
    span: int = 8192
    period: int | None = None  # None: the model's own

    def __post_init__(self) -> None:
        if self.span < 1 or (self.period is not None and self.period < 1):
            raise MeasureError(f"span is {self.span} and period {self.period}; they must be at least 1")

    def start(self, model: Shape) -> PositionBiasState:
        period = self.period or getattr(model, "position_period", None) or 0
        layers, heads = model.n_layers, model.n_heads
        return PositionBiasState(
            Sums.zeros(layers, self.span), Sums.zeros(layers, self.span),
            Sums.zeros(layers, heads, period), Sums.zeros(layers, period),
        )  # fmt: skip

    def update(self, state: PositionBiasState, layer: Attention) -> None:
        n = min(layer.n_tokens, self.span)
        kept = ORDINARY.mask(layer.batch)[:, :n].cpu().numpy()  # text position
        count = kept.sum(0)
        received = layer.received[..., :n].double().cpu().numpy()  # text head position
        received = np.where(kept[:, None], received, 0.0).sum(0)  # head position
        even = layer.uniform.received[:, 0, :n].double().cpu().numpy()
        even = np.where(kept, even, 0.0).sum(0)
        index = layer.index
        state.received.total[index, :n] += received.mean(0)
        state.uniform.total[index, :n] += even
        for sums in (state.received, state.uniform):
            sums.count[index, :n] += count
        period = state.by_residue.total.shape[-1]
        if period:
            state.by_residue.total[index] += _by_residue(received, period)
            state.by_residue.count[index] += _by_residue(count, period)
            state.uniform_by_residue.total[index] += _by_residue(even, period)
            state.uniform_by_residue.count[index] += _by_residue(count, period)

    def result(self, state: PositionBiasState) -> dict[str, pd.DataFrame]:
        layers, heads, period = state.by_residue.total.shape
        out = {"position_bias": self._positions("position", state.received, state.uniform)}
        if period:
            over_heads = Sums(state.by_residue.total.mean(1), state.by_residue.count.mean(1))
            out["position_bias_period"] = self._positions("residue", over_heads, state.uniform_by_residue)
        later = slice(1, None)
        columns = {
            "at_multiples": _over(state.by_residue.total[..., :1], state.uniform_by_residue.total[:, None, :1]),
            "elsewhere": _over(state.by_residue.total[..., later], state.uniform_by_residue.total[:, None, later]),
        }
        return {**out, "position_bias_heads": head_frame(layers, heads, columns)}

    @staticmethod
    def _positions(name: str, received: Sums, uniform: Sums) -> pd.DataFrame:
        there = received.count[0] > 0
        mean = received.mean()[:, there]
        return pd.DataFrame(
            {
                name: np.nonzero(there)[0],
                "tokens": received.count[0, there].astype(np.int64),
                "all": mean.mean(0),
                "uniform": uniform.mean()[:, there].mean(0),
                **{f"L{layer}": values for layer, values in enumerate(mean)},
            }
        )


def _by_residue(values: Floats, period: int) -> Floats:
    """Sums over the positions with one residue: [..., position] -> [..., residue]."""
    n = values.shape[-1]
    whole = -(-n // period) * period
    padded = np.concatenate([values, np.zeros((*values.shape[:-1], whole - n))], axis=-1)
    return padded.reshape(*values.shape[:-1], -1, period).sum(-2)


def _over(received: Floats, uniform: Floats) -> Floats:
    """All that is received over all that even attention would give: [layer, head]."""
    given, even = received.sum(-1), np.broadcast_to(uniform.sum(-1), received.shape[:-1])
    return np.divide(given, even, out=np.full(given.shape, np.nan), where=even > 0)
