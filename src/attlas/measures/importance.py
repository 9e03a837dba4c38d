"""Which heads matter for the model's predictions?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape, head_frame
from attlas.core.states import Moments, State, Sums
from attlas.support.arrays import Floats
from attlas.support.options import option

ACCUMULATIONS = ("score", "grad")


@dataclass
class ImportanceState(State):
    """Means over texts, and the gradients summed over them if they are wanted."""

    loss: Moments  # one
    taylor: Moments  # layer head
    gate: Moments  # layer head: size
    signed: Moments  # layer head
    ablation: Moments  # layer head
    median: Moments  # one: of the heads of a text
    apart: Moments  # layer head: from the median head, text by text
    gradient: Sums  # layer head parameter


@dataclass(frozen=True, kw_only=True)
class Importance(Measure[ImportanceState]):
    """How much the loss depends on each head; see docs/long.md.

    A classifier's loss is that of the text's label, or of its own prediction if there is none.
    `taylor` is the sum over a head's parameters (its rows of query, key and value, their biases,
    its columns of the output projection) of (gradient x parameter) squared, averaged over texts. In
    Longformer the projections of global tokens count too: a classifier reads a global token, so in
    the last layer nothing else matters; the published code excludes them. With `accumulate="grad"`
    the gradients are averaged over the corpus before they are squared, as in the published code
    (Hou 2022 and T3-Vis), without the projections of global tokens: the column `taylor_grad`, from
    which `importance` is then made. `gate` is the mean of |d loss / d gate|, `gate_signed` the mean
    of d loss / d gate: below 0 the head lowers the loss. `ablation` is the increase in loss without
    the head, one pass per head and text, on `ablation_texts` texts: the first `ablation`, which in
    a sorted corpus are all alike, or with `ablation_share` a share of the corpus that is chosen by
    a hash of each text. Its control `ablation_median` is the median head of each text, averaged
    over texts; `ablation_difference_error` is the standard error of the difference, text by text.
    `importance` is scaled from 0 to 1 over all heads.
    """

    name: ClassVar[str] = "importance"
    clause: ClassVar[str] = (
        "the importance of each head for the loss, by a Taylor expansion over its parameters and "
        "by the gradient of a gate on its output"
    )
    references: ClassVar[tuple[str, ...]] = ("molchanov2019", "michel2019", "hou2022")
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    costly: ClassVar[bool] = True
    accumulate: str = option("score", "What is averaged over texts.", choices=ACCUMULATIONS)
    ablation: int = option(
        0, "Number of texts on which heads are switched off.", at_least=0, at_most=1_000_000
    )
    ablation_share: float = option(
        0.0, "Share of texts on which heads are switched off.", at_least=0.0, at_most=1.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accumulate == "grad":
            object.__setattr__(self, "needs", self.needs | {"head_gradients"})

    def start(self, model: Shape) -> ImportanceState:
        shape = (model.n_layers, model.n_heads)
        return ImportanceState(
            Moments.zeros(1),
            Moments.zeros(*shape),
            Moments.zeros(*shape),
            Moments.zeros(*shape),
            Moments.zeros(*shape),
            Moments.zeros(1),
            Moments.zeros(*shape),
            _no_gradients(*shape, 0),
        )

    def finish_batch(self, state: ImportanceState, batch: Batch, outputs: Outputs) -> None:
        backward = outputs.gradients
        state.loss.add(0, backward.loss)
        for layer in range(backward.gates.shape[1]):
            state.signed.add(layer, backward.gates[:, layer])
            state.gate.add(layer, backward.gates[:, layer].abs())
            if backward.taylor is not None:
                state.taylor.add(layer, backward.taylor[:, layer])
        if self.accumulate == "grad" and backward.head_gradients is not None:
            gradients = backward.head_gradients.double().cpu().numpy()
            if state.gradient.total.shape != gradients.shape:
                state.gradient = _no_gradients(*gradients.shape)
            state.gradient.total += gradients
            state.gradient.count += len(batch.indices)
        chosen = [
            number
            for number, (text, index) in enumerate(zip(batch.texts, batch.indices, strict=True))
            if index < self.ablation or text.key < self.ablation_share * 2**63
        ]
        if chosen:
            increase = backward.ablated(chosen).double()
            median = increase.flatten(1).quantile(0.5, dim=1)  # of all heads of a text
            state.median.add(0, median)
            for layer in range(increase.shape[1]):
                state.ablation.add(layer, increase[:, layer])
                state.apart.add(layer, increase[:, layer] - median[:, None])

    def merge(self, left: ImportanceState, right: ImportanceState) -> ImportanceState:
        """As any state; gradients of nothing yet take the others' shape."""
        shape = max(left.gradient.total.shape, right.gradient.total.shape)
        left, right = (
            one
            if one.gradient.total.shape == shape
            else replace(one, gradient=_no_gradients(*shape))
            for one in (left, right)
        )
        return left.merge(right)

    def result(self, state: ImportanceState) -> dict[str, pd.DataFrame]:
        layers, heads = state.gate.mean.shape
        taylor = state.taylor.average()
        columns = {
            "importance": taylor,
            "taylor": taylor,
            "taylor_error": state.taylor.error(),
            "gate": state.gate.average(),
            "gate_error": state.gate.error(),
            "gate_signed": state.signed.average(),
            "gate_signed_error": state.signed.error(),
            "ablation": state.ablation.average(),
            "ablation_error": state.ablation.error(),
            "ablation_median": np.full((layers, heads), state.median.average()[0]),
            "ablation_difference_error": state.apart.error(),
            "ablation_texts": state.ablation.count,
        }
        if self.accumulate == "grad":
            mean = state.gradient.total / max(1.0, float(state.gradient.count.max(initial=0)))
            published = np.square(mean).sum(-1) if mean.size else np.full((layers, heads), np.nan)
            columns |= {"importance": published, "taylor_grad": published}
        known = np.isfinite(columns["importance"]).all()  # parameters are known by head
        columns["importance"] = from_0_to_1(columns["importance" if known else "gate"])
        return {"importance": head_frame(layers, heads, columns)}


def _no_gradients(*shape: int) -> Sums:
    """Sums of gradients with one count for all."""
    return Sums(np.zeros(shape), np.zeros(1))


def from_0_to_1(values: Floats) -> Floats:
    """Scaled so that the least is 0 and the largest 1."""
    low, high = np.nanmin(values, initial=np.inf), np.nanmax(values, initial=-np.inf)
    if high > low:
        return (values - low) / (high - low)
    return np.where(np.isfinite(values), 1.0, np.nan)
