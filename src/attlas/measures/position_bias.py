"""Do tokens receive attention for their position rather than their content?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.masks import TokenMask
from attlas.core.measure import Measure, Shape, check_bytes, head_frame
from attlas.core.states import State, Sums
from attlas.support.arrays import Floats
from attlas.support.options import option

ORDINARY = TokenMask("ordinary")


@dataclass
class PositionBiasState(State):
    """Attention received by ordinary tokens, and that of uniform attention; counts are tokens."""

    received: Sums  # layer position
    uniform: Sums  # layer position
    by_residue: Sums  # layer head residue
    uniform_by_residue: Sums  # layer head residue


@dataclass(frozen=True, kw_only=True)
class PositionBias(Measure[PositionBiasState]):
    """Mean attention received by position, compared with uniform attention, without special tokens.

    A model made from a shorter one repeats its position embeddings after `period` tokens (512 for
    Longformer), so the tokens at 512, 1024, ... look to it like the first token, which is special
    and attracts attention. `position_bias_period` is the same by position modulo the period, and
    `position_bias_heads` compares, for each head, the tokens at multiples of the period with all
    others, both relative to uniform attention. Positions from `span` on are excluded.
    """

    name: ClassVar[str] = "position_bias"
    clause: ClassVar[str] = (
        "the mean attention that each position receives, as a multiple of uniform attention, "
        "without special tokens"
    )
    references: ClassVar[tuple[str, ...]] = ()
    span: int = option(8192, "Exclude positions from here on.", at_least=1, at_most=1_000_000)
    period: int | None = option(
        None, "Period (None: the model's own).", at_least=1, at_most=1_000_000
    )

    def start(self, model: Shape) -> PositionBiasState:
        period = self.period or getattr(model, "position_period", None) or 0
        layers, heads = model.n_layers, model.n_heads
        check_bytes(
            self.name, 16 * layers * (2 * self.span + (heads + 1) * period), "lower span or period"
        )
        return PositionBiasState(
            Sums.zeros(layers, self.span),
            Sums.zeros(layers, self.span),
            Sums.zeros(layers, heads, period),
            Sums.zeros(layers, heads, period),
        )

    def update(self, state: PositionBiasState, layer: Attention) -> None:
        n = min(layer.n_tokens, self.span)
        kept = ORDINARY.mask(layer.batch)[:, :n].cpu().numpy()  # text position
        period = state.by_residue.total.shape[-1]
        for attention, sums, by_residue in (
            (layer, state.received, state.by_residue),
            (layer.uniform, state.uniform, state.uniform_by_residue),
        ):
            received = attention.received[..., :n].double().cpu().numpy()  # text head position
            received = np.where(kept[:, None], received, 0.0).sum(0)  # head or 1, position
            sums.total[layer.index, :n] += received.mean(0)
            sums.count[layer.index, :n] += kept.sum(0)
            if period:
                by_residue.total[layer.index] += _by_residue(received, period)
                by_residue.count[layer.index] += _by_residue(kept.sum(0), period)

    def result(self, state: PositionBiasState) -> dict[str, pd.DataFrame]:
        layers, heads, period = state.by_residue.total.shape
        out = {"position_bias": self._positions("position", state.received, state.uniform)}
        if period:
            both = (state.by_residue, state.uniform_by_residue)
            over_heads = [Sums(sums.total.mean(1), sums.count.mean(1)) for sums in both]
            out["position_bias_period"] = self._positions("residue", *over_heads)
        received, uniform = state.by_residue.total, state.uniform_by_residue.total
        columns = {
            "at_multiples": _over(received[..., :1], uniform[..., :1]),
            "elsewhere": _over(received[..., 1:], uniform[..., 1:]),
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
    """All that is received over all that uniform attention gives: [layer, head]."""
    given, uniform = received.sum(-1), uniform.sum(-1)
    return np.divide(given, uniform, out=np.full(given.shape, np.nan), where=uniform > 0)
