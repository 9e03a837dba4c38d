"""How much attention does each token of each text receive?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape
from attlas.core.states import Rows, State
from attlas.support.arrays import Floats32
from attlas.support.options import option


@dataclass
class Pending:
    """The layers of the current batch, each [text, token]."""

    by_head: list[Floats32] = field(default_factory=list)  # example head token
    received: list[Floats32] = field(default_factory=list)
    uniform: list[Floats32] = field(default_factory=list)
    seeing: list[Floats32] = field(default_factory=list)


@dataclass
class TotalsState(State):
    """One row per token, and the current batch."""

    totals: Rows
    totals_heads: Rows
    pending: Pending = field(default_factory=Pending, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class Totals(Measure[TotalsState]):
    """Attention received by each token (column sum, mean over heads), by layer and over all.

    `start` and `stop` are its characters in the text (-1 for a special token).
    `all` is the mean of the layers `L0`, `L1`, ...; `uniform` is that of uniform attention: 1 for a
    model that sees everything. The `_per_query` columns divide by the number of queries
    that see the token: in a causal model early tokens are seen by more, near the ends of a window
    by fewer. `totals_heads` has the same for each head, of the first `examples` texts.
    """

    name: ClassVar[str] = "totals"
    clause: ClassVar[str] = (
        "the attention that each token receives, summed over queries and averaged over heads, "
        "compared with what uniform attention gives it"
    )
    references: ClassVar[tuple[str, ...]] = ("hou2022",)
    examples: int = option(3, "Number of texts shown by token.", at_least=0, at_most=1_000)

    def start(self, model: Shape) -> TotalsState:
        heads = tuple(
            f"L{layer}.H{head}" for layer in range(model.n_layers) for head in range(model.n_heads)
        )
        return TotalsState(Rows.empty(), Rows.empty(heads))

    def update(self, state: TotalsState, layer: Attention) -> None:
        pending = state.pending
        received = layer.received.float()  # text head token
        pending.received.append(received.mean(1).cpu().numpy())
        chosen = self._chosen(layer.batch)
        if chosen:
            pending.by_head.append(received[chosen].cpu().numpy())
        uniform, seeing = layer.uniform.once("totals", lambda: _control(layer))
        pending.uniform.append(uniform)
        pending.seeing.append(seeing)

    def _chosen(self, batch: Batch) -> list[int]:
        """The texts of a batch that are examples."""
        return [number for number, index in enumerate(batch.indices) if index < self.examples]

    def finish_batch(self, state: TotalsState, batch: Batch, outputs: Outputs) -> None:
        pending, state.pending = state.pending, Pending()
        received, seeing = np.stack(pending.received), np.stack(pending.seeing)  # layer text token
        per_query = np.divide(
            received, seeing, out=np.full_like(received, np.nan), where=seeing > 0
        )
        n = batch.n_tokens
        columns = {
            **batch.token_columns(),
            "all": received.mean(0).reshape(-1),
            "uniform": np.stack(pending.uniform).mean(0).reshape(-1),
            "all_per_query": per_query.mean(0).reshape(-1),
        }
        columns |= {f"L{number}": values.reshape(-1) for number, values in enumerate(received)}
        columns |= {
            f"L{number}_per_query": values.reshape(-1) for number, values in enumerate(per_query)
        }
        state.totals.add(np.repeat(np.array(batch.indices), n), columns)
        for row, text in enumerate(self._chosen(batch)):
            by_head = np.concatenate([heads[row] for heads in pending.by_head])  # head token
            names = {
                "text": np.full(n, batch.texts[text].id, dtype=object),
                "token": np.arange(n, dtype=np.int32),
            }
            state.totals_heads.add(
                np.full(n, batch.indices[text]), names, np.ascontiguousarray(by_head.T)
            )

    def result(self, state: TotalsState) -> dict[str, pd.DataFrame]:
        return {"totals": state.totals.frame(), "totals_heads": state.totals_heads.frame()}


def _control(layer: Attention) -> list[Floats32]:
    """Uniform attention received, and the number of queries that see it: each [text, token]."""
    shape = (layer.n_texts, layer.n_tokens)
    by_head = (layer.uniform.received, layer.n_visible_queries)
    return [np.broadcast_to(one.float().mean(1).cpu().numpy(), shape) for one in by_head]
