from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    FILE,
    MODEL,
    MODEL_OR_NONE,
    ModelLike,
    TextsLike,
    given,
    opening,
    option,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Toy(Experiment):
    """How often does each word occur, and how focused is attention?"""

    name: ClassVar[str] = "toy"
    may_lack: ClassVar[tuple[str, ...]] = ("other",)

    texts: TextsLike = given("Texts to count.")
    model: ModelLike | None = given("Model to read them with.", None, of=MODEL)
    names: str | None = given("Names of words.", None, of=FILE, opened_by="work:read_names")
    other: ModelLike | None = given("Another model.", None, of=MODEL_OR_NONE)
    scales: tuple[float, ...] = option((1.0, 10.0), "Factors.", above=0)
    case: str = option("lower", "How words are compared.", choices=("lower", "as written"))
    draws: int = option(3, "Number of draws.", at_least=1, at_most=100)
    controls: bool = option(True, "Also with random weights.")
    seed: int = option(0, "Random seed.", at_least=0)
    max_length: int | None = opening(None, "Truncate texts to this many tokens.", at_least=3)

    def completed(self) -> Toy:
        """With the other model that a note in the folder of the model names."""
        note = Path(self.model) / "other.txt" if isinstance(self.model, str) else None
        if self.other is not None or note is None or not note.is_file():
            return self
        return replace(self, other=note.read_text())


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Outer(Experiment):
    """A toy inside another experiment."""

    name: ClassVar[str] = "outer"
    does: ClassVar[str] = "work:run_outer"

    texts: TextsLike = given("Texts to count.")
    model: ModelLike | None = given("Model to read them with.", None, of=MODEL)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ToyGrid(Experiment):
    """A grid of cells, each computed in a process."""

    name: ClassVar[str] = "toy grid"
    does: ClassVar[str] = "work:run_grid"

    texts: TextsLike = given("Texts to count.")
    sizes: tuple[int, ...] = option((1, 2, 3), "Sizes of cells.", at_least=1)
    seed: int = option(0, "Random seed.", at_least=0)
