"""Finetune: the fields of the experiment behind `attlas finetune`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    ModelLike,
    TextsLike,
    given,
    global_tokens_opening,
    max_length_opening,
    model_input,
    opening,
    option,
    pickle_opening,
    seed_option,
)

EPOCHS, BATCH_SIZE, PATIENCE = 4, 32, 2
MIN_STEPS = 100  # optimiser steps, where the number of epochs is not given
MIN_BATCHES = 8  # per epoch, where the batch size is not given


@dataclass(frozen=True)
class Schedule:
    """How long to train, and on batches of how many texts."""

    epochs: int
    batch_size: int
    patience: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Finetune(Experiment):
    """Train a model to predict the labels of texts; the result is a model folder.

    After every epoch the model is scored on dev by Matthews' correlation. The best epoch is kept,
    and training stops after `patience` epochs without improvement. An interrupted run resumes from
    the last epoch. The defaults of batch size, epochs and patience depend on the number of training
    texts.
    """

    name: ClassVar[str] = "finetune"
    clause: ClassVar[str] = (
        "the model was fine-tuned to predict the labels of texts; the epoch with the highest "
        "Matthews correlation on the development set was kept, and compared with the majority "
        "class"
    )
    references: ClassVar[tuple[str, ...]] = ()
    resolves: ClassVar[str] = "work:check_inputs"

    texts: TextsLike = given(
        "Texts with labels: .csv, .tsv, .jsonl or .parquet (also .gz), or embedded:NAME.",
        flags=("--data", "--texts"),
    )
    dev: TextsLike | None = given(
        "Texts to score each epoch on (default: a tenth of the texts).", None
    )
    model: ModelLike | None = model_input()
    epochs: int | None = option(
        None,
        f"Maximum number of epochs (default: {EPOCHS}, or as many as give {MIN_STEPS} steps).",
        at_least=1,
        at_most=10_000,
    )
    batch_size: int | None = option(
        None,
        f"Batch size (default: {BATCH_SIZE}, or an eighth of the training texts if that is less).",
        at_least=1,
        at_most=4_096,
    )
    learning_rate: float = option(
        5e-5, "Peak learning rate, after warm-up and before decay.", above=0, below=math.inf
    )
    patience: int | None = option(
        None,
        f"Stop after this many epochs without improvement (default: {PATIENCE}; with few "
        "texts, training does not stop early).",
        at_least=1,
        at_most=10_000,
    )
    hold_out: float = option(
        0.0,
        "Share of the texts to exclude from training and write to held_out.jsonl.",
        at_least=0,
        below=1,
    )
    head_only: bool = option(False, "Fit only the classification head, which is much faster.")
    seed: int = seed_option()
    text: str | None = opening(None, "Column of the text.", of="texts")
    label: str | None = opening("label", "Column of the label.", of="texts")
    max_length: int | None = max_length_opening()
    global_tokens: str | None = global_tokens_opening()
    allow_pickle: bool = pickle_opening()

    def schedule(self, texts: int) -> Schedule:
        """Epochs, batch size and patience for a number of training texts; given options win.

        Few texts are trained on longer, in smaller batches, and not stopped early: four epochs of
        40 texts would be eight steps. A head that is fitted alone takes no steps.

        >>> Finetune(texts="few.csv").schedule(40)
        Schedule(epochs=13, batch_size=5, patience=13)
        >>> Finetune(texts="many.csv").schedule(800)
        Schedule(epochs=4, batch_size=32, patience=2)
        """
        epochs, batch_size = self.epochs or EPOCHS, self.batch_size or BATCH_SIZE
        if not self.head_only:
            batch_size = self.batch_size or max(1, min(BATCH_SIZE, texts // MIN_BATCHES))
            steps_per_epoch = math.ceil(texts / batch_size)
            epochs = self.epochs or max(EPOCHS, math.ceil(MIN_STEPS / steps_per_epoch))
        longer = self.epochs is None and epochs > EPOCHS
        return Schedule(epochs, batch_size, self.patience or (epochs if longer else PATIENCE))

    def settings(self, texts: int) -> dict[str, Any]:
        """The options with the schedule that a number of training texts has."""
        return {**self.options, **asdict(self.schedule(texts))}
