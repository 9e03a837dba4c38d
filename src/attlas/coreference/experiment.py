"""Coreference: the fields of the experiment behind `attlas probe coreference`."""

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
class Coreference(Experiment):
    """Which head finds the antecedents of mentions?

    The head that finds antecedents best is chosen on some documents and scored on others, compared
    with the nearest mention, the same head word, rules, and random weights (Clark et al. 2019).
    """

    name: ClassVar[str] = "coreference"
    clause: ClassVar[str] = (
        "the attention head that finds the antecedents of mentions best was chosen on some "
        "documents and scored on others, compared with the nearest mention, the same head word, "
        "rules, and random weights"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given(
        "Documents to choose heads on: .conllu with Entity=, LitBank's .conll, GAP's .tsv.",
        flags=("--train", "--data"),
    )
    test: TextsLike | None = given("Documents to score them on (default: a fifth of train).", None)
    model: ModelLike | None = model_input()
    tokens: int | None = option(
        128,
        "Split documents at sentence ends into windows of this many tokens (0: the model's limit).",
        at_least=0,
        at_most=1_000_000,
    )
    seed: int = seed_option()
    max_length: int | None = max_length_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens == 0:  # the model's own length is None
            object.__setattr__(self, "tokens", None)
