"""Repetition: the fields of the experiment behind `attlas repetition`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import MODEL, ModelLike, TextsLike, given, opening, option


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Repetition(Experiment):
    """Which heads attend to other occurrences of the same token?

    The heads that do so most are chosen on some texts and scored on others, with uniform attention
    and the same model with random weights as controls.
    """

    name: ClassVar[str] = "repetition"
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given("Texts to choose heads on.", flags=("--train", "--data"))
    test: TextsLike | None = given("Texts to score them on (default: a fifth of train).", None)
    model: ModelLike | None = given("Folder or Hub ID (default: embedded).", None, of=MODEL)
    top: int = option(3, "Number of heads to choose.", at_least=1)
    seed: int = option(0, "Random seed.", at_least=0)
    max_length: int | None = opening(None, "Truncate texts to this many tokens.", at_least=3)
