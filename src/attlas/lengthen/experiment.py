"""Lengthen: the fields of the experiment behind `attlas lengthen`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    MODEL,
    ModelLike,
    given,
    option,
    pickle_opening,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Lengthen(Experiment):
    """Make a model for long texts (a Longformer) from a BERT or RoBERTa, without training.

    Weights are kept and position embeddings are repeated, as Longformer's authors did (Beltagy,
    Peters and Cohan 2020). The model is in the result folder itself.
    """

    name: ClassVar[str] = "lengthen"
    clause: ClassVar[str] = (
        "a model for long texts was made from one for short texts by repeating its position "
        "embeddings, without training"
    )
    references: ClassVar[tuple[str, ...]] = ("beltagy2020",)
    checks: ClassVar[str] = "work:check"
    default_out: ClassVar[str] = ""

    model: ModelLike | None = given(
        "Folder or Hub ID of a BERT or RoBERTa (default: the embedded model, all-MiniLM-L6-v2).",
        None,
        of=MODEL,
    )
    length: int = option(
        4096, "Maximum number of tokens of the long model.", at_least=1, at_most=262_144
    )
    window: int = option(
        512,
        "Attention window: number of tokens around each token.",
        at_least=4,
        at_most=65_536,
        multiple_of=2,
    )
    skip: int = option(
        0,
        "Number of leading position embeddings that are not repeated (1: that of [CLS]).",
        at_least=0,
        at_most=1_000,
    )
    allow_pickle: bool = pickle_opening()
