"""FitRelations and ScoreRelations: the fields behind `attlas relations fit` and `score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.files import read_json
from attlas.support.fingerprint import fingerprint
from attlas.support.options import (
    CONVENTIONS,
    FILE,
    MODEL_OR_NONE,
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

EXTRACTOR = "extractor"  # among the files of a result folder
ABOUT = "extractor.json"
DIRECTIONS = ("h-r", "r-t", "h-t", "r-h", "t-r", "t-h")  # x-y: x attends to y
PARSERS = ("rules", "spacy")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitRelations(Experiment):
    """Which semantic relations does attention encode between the phrases of a text?

    An extractor of triples is fitted to attention between phrases. Controls are the same
    classifiers on other inputs: random weights, the words alone, distances, parts of speech, word
    vectors (Chizhikova et al. 2022).
    """

    name: ClassVar[str] = "relations"
    clause: ClassVar[str] = (
        "logistic regressions on attention between the head, tail and relation words of phrase "
        "triples were fitted to say which are related and how, compared with the same classifiers "
        "on random weights, words, distances, parts of speech and word vectors"
    )
    references: ClassVar[tuple[str, ...]] = ("chizhikova2022",)
    does: ClassVar[str] = "work:fit"
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given(
        "Texts with triples to fit on: text and triples (.jsonl), FewRel, SemEval-2010 Task 8, "
        "DocRED."
    )
    dev: TextsLike | None = given(
        "Texts to tune penalties and thresholds on (default: a fifth of train).", None
    )
    model: ModelLike | None = model_input()
    names: str | Path | None = given(
        "File with readable names of relations (columns relation and title).",
        None,
        of=FILE,
        opened_by="work:read_names",
    )
    convention: str = option(
        "sound",
        "sound: corrected features and fits; published: as in Chizhikova et al. 2022.",
        choices=CONVENTIONS,
    )
    directions: tuple[str, ...] | None = option(
        None,
        "Directions of attention between head (h), relation words (r) and tail (t); h-t: the head "
        "attends to the tail (default: all).",
        choices=DIRECTIONS,
    )
    parser: str = option("rules", "How candidate phrases are found.", choices=PARSERS)
    interpret: bool = option(
        False,
        "Also report which directions, layers and heads encode relations (slower).",
        flags=("--interpret/--no-interpret",),
    )
    seed: int = seed_option()
    max_length: int | None = max_length_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScoreRelations(Experiment):
    """How well does an extractor of relations do on texts that it has not seen?

    Scores the extractor and every control: related or not, which relation, and triples from plain
    text.
    """

    name: ClassVar[str] = "relations_scored"
    clause: ClassVar[str] = (
        "a fitted extractor of relations was scored on texts that it had not seen, compared with "
        "the same classifiers on random weights, words, distances, parts of speech and word "
        "vectors"
    )
    references: ClassVar[tuple[str, ...]] = ("chizhikova2022",)
    does: ClassVar[str] = "work:score"
    default_out: ClassVar[str] = "{extractor}/scored"

    extractor: str | Path = given(
        "Folder that `attlas relations fit` wrote.", of=FILE, opened_by="work:open_extractor"
    )
    test: TextsLike = given("Texts with triples that the extractor has not seen.")
    model: ModelLike | None = given(
        "Model of the extractor, if it has moved since the fit.", None, of=MODEL_OR_NONE
    )

    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()

    def completed(self) -> ScoreRelations:
        """With the folder of the extractor's own files, and the model that these name."""
        folder = extractor_folder(self.extractor)
        model = self._about.get("model") if self.model is None else self.model
        return replace(self, extractor=folder, model=model)

    def openings(self, of: str) -> dict[str, Any]:
        """A model is opened as it was when the extractor was fitted."""
        about = self._about if of == "model" else {}
        return {**opened_with(about), **super().openings(of)} if about else super().openings(of)

    @property
    def _about(self) -> dict[str, Any]:
        """What the extractor's folder says of it; nothing if it cannot be read."""
        return read_json(extractor_folder(self.extractor) / ABOUT) or {}


def extractor_folder(folder: str | Path) -> Path:
    """Where an extractor was saved: in the folder itself, or among the files of a result folder."""
    given = Path(folder).expanduser()
    inside = given / "files" / EXTRACTOR
    return inside if (inside / ABOUT).is_file() else given


NO_GLOBAL = fingerprint(None)  # in the identity of a model without global tokens


def opened_with(about: Mapping[str, Any]) -> dict[str, Any]:
    """How the model of an extractor was loaded; version 0.1.0 did not note the task."""
    has_none = about.get("identity", {}).get("global_tokens", NO_GLOBAL) == NO_GLOBAL
    chosen = None if has_none else about.get("global_tokens")
    return {
        "task": about.get("task", "base"),
        "max_length": about.get("max_length"),
        "global_tokens": chosen,
    }
