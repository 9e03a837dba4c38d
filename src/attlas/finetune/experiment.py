"""Finetune: the fields of the experiment behind `attlas finetune`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    MODEL,
    ModelLike,
    TextsLike,
    given,
    max_length_opening,
    opening,
    option,
    seed_option,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Finetune(Experiment):
    """Train a model to predict the labels of texts; the result is a model folder.

    After every epoch the model is scored on dev by Matthews' correlation. The best epoch is kept,
    and training ends after `patience` epochs without a better one. Interrupted, it resumes from the
    last epoch.
    """

    name: ClassVar[str] = "finetune"
    resolves: ClassVar[str] = "work:check_inputs"

    texts: TextsLike = given(
        "Texts with labels: .csv, .tsv, .jsonl or .parquet (also .gz), or embedded:NAME.",
        flags=("--data", "--texts"),
    )
    dev: TextsLike | None = given(
        "Texts to score each epoch on (default: a tenth of the texts).", None
    )
    model: ModelLike | None = given(
        "Folder, Hub ID or embedded:long (default: the embedded model).", None, of=MODEL
    )
    epochs: int = option(4, "Maximum number of epochs.", at_least=1, at_most=10_000)
    batch_size: int = option(32, "Batch size.", at_least=1, at_most=4_096)
    learning_rate: float = option(
        5e-5, "Peak learning rate, after warm-up and before decay.", above=0, below=math.inf
    )
    patience: int = option(
        2, "Stop after this many epochs without a better one.", at_least=1, at_most=10_000
    )
    hold_out: float = option(
        0.0,
        "Share of the texts to exclude from training and write to held_out.jsonl.",
        at_least=0,
        below=1,
    )
    head_only: bool = option(False, "Fit the classification head alone, in seconds.")
    seed: int = seed_option()
    text: str | None = opening(None, "Column of the text.", of="texts")
    label: str | None = opening("label", "Column of the label.", of="texts")
    max_length: int | None = max_length_opening()
    global_tokens: str | None = opening(
        None,
        "Global tokens of a Longformer: first, special, none, or places such as 0,5.",
    )
    allow_pickle: bool = opening(
        False, "Also read pickled weights, which can run code: only if you trust them."
    )
