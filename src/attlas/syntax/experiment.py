"""Syntax: the fields of the experiment behind `attlas probe syntax`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    ModelLike,
    TextsLike,
    device_opening,
    dtype_opening,
    given,
    lens_opening,
    max_length_opening,
    model_input,
    option,
    pickle_opening,
    seed_option,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Syntax(Experiment):
    """Which head finds which dependency relation?

    For every relation, the head that finds it best is chosen on one treebank and scored on another,
    compared with the best fixed offset and the same model with random weights (Clark et al. 2019).
    """

    name: ClassVar[str] = "syntax"
    clause: ClassVar[str] = (
        "for every dependency relation, the attention head that finds it best was chosen on one "
        "treebank and scored on another, compared with the best fixed offset and the same model "
        "with random weights"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given("Treebank to choose heads on (.conllu).", flags=("--train", "--data"))
    test: TextsLike | None = given("Treebank to score them on (default: a fifth of train).", None)
    model: ModelLike | None = model_input()
    min_cases: int = option(
        100, "Skip relations with fewer cases than this.", at_least=1, at_most=1_000_000_000
    )
    seed: int = seed_option()
    max_length: int | None = max_length_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()
