"""Inputs that follow from others: a test set from the training set."""

from __future__ import annotations

from typing import Any

from attlas.corpora.splits import HELD_OUT, split
from attlas.experiments.experiment import Experiment


def held_out(experiment: Experiment, opened: dict[str, Any]) -> dict[str, Any]:
    """Inputs with a share of `train` as `test` where none was given."""
    if opened["test"] is not None:
        return opened
    train, test = split(opened["train"], HELD_OUT, experiment.options["seed"])
    return {**opened, "train": train, "test": test}
