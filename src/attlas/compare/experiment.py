"""Compare: the fields of the experiment behind `attlas compare`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.errors import StudyError
from attlas.support.files import read_json
from attlas.support.options import (
    MODEL_OR_NONE,
    STUDIES,
    STUDY,
    ModelLike,
    StudyLike,
    device_opening,
    dtype_opening,
    given,
    lens_opening,
    option,
    pickle_opening,
)

MOST_TEXTS = 200  # that both models read to match heads


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Compare(Experiment):
    """How do the heads of two studies, A and B, differ?

    Every number of a head with a standard error is compared: B minus A, with intervals that pair
    the texts if both studies read the same ones, corrected for all heads and numbers. Controls are
    two random halves of A's texts and, with --seed-study, another training run of B. With --series
    the studies are checkpoints in their order, the first is A and the last is B. With --match both
    models read shared texts, and heads are matched by their attention.
    """

    name: ClassVar[str] = "compare"
    clause: ClassVar[str] = (
        "every number of every head was compared between two studies, with intervals that pair the "
        "texts where both read the same ones; controls were the difference that uniform attention "
        "shows and the differences between random halves of the texts"
    )
    checks: ClassVar[str] = "work:check"

    studies: StudyLike = given(
        "Result folders of attlas study: A and B, or with --series checkpoints in their order.",
        of=STUDIES,
        flags=("STUDIES",),
    )
    seed_study: StudyLike | None = given(
        "Result folder of another training run of B, as a control.", None, of=STUDY
    )
    series: bool = option(False, "The studies are checkpoints in their order.")
    match: bool = option(False, "Match heads by what they attend to on shared texts.")
    model_a: ModelLike | None = given(
        "Model of A for --match (default: the one that its study names).", None, of=MODEL_OR_NONE
    )
    model_b: ModelLike | None = given(
        "Model of B for --match (default: the one that its study names).", None, of=MODEL_OR_NONE
    )
    texts: int = option(
        MOST_TEXTS, "Shared texts that both models read.", at_least=4, at_most=MOST_TEXTS
    )
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()

    def __post_init__(self) -> None:
        super().__post_init__()
        several = list(self.studies) if isinstance(self.studies, list | tuple) else [self.studies]
        object.__setattr__(self, "studies", several)
        if len(several) < 2:
            raise StudyError(
                f"studies is {_named(several)}; give two result folders, as in attlas compare A B"
            )
        if len(several) > 2 and not self.series:
            raise StudyError(
                f"studies are {_named(several)}; give two result folders, add --series for "
                "checkpoints in their order, or name another training run with --seed-study"
            )

    def completed(self) -> Experiment:
        """With the models that the studies name, if heads are to be matched."""
        if not self.match:
            return self
        models = {"model_a": (self.model_a, self.studies[0])}
        models["model_b"] = self.model_b, self.studies[-1]
        missing: dict[str, Any] = {
            name: model_named(one) for name, (model, one) in models.items() if model is None
        }
        return replace(self, **missing) if missing else self


def _named(studies: list[Any]) -> str:
    """Results as an error names them."""
    return ", ".join(str(getattr(one, "folder", one)) for one in studies) or "empty"


def model_named(study: Any) -> str:
    """What the manifest of a study calls its model."""
    folder = Path(getattr(study, "folder", study)).expanduser()
    manifest = read_json(folder / "manifest.json") or {}
    return str((manifest.get("model") or {}).get("name") or os.devnull)
