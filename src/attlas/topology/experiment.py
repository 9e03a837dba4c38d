"""Topology: the fields of the experiment behind `attlas topology`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.models.record import base_model_of
from attlas.support.errors import MeasureError
from attlas.support.options import (
    MODEL_OR_NONE,
    ModelLike,
    TextsLike,
    device_opening,
    dtype_opening,
    given,
    global_tokens_opening,
    lens_opening,
    max_length_opening,
    model_input,
    opening,
    option,
    pickle_opening,
    seed_option,
)

KINDS = ("betti", "digraph", "barcode", "templates")
THRESHOLDS = (0.025, 0.05, 0.1, 0.25, 0.5, 0.75)  # of the code of Kushnareva et al. 2022


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Topology(Experiment):
    """Can the shape of attention graphs alone predict the labels of texts?

    A classifier on topological features of all heads, of the best heads and of each head, compared
    with the model's own head, the model before fine-tuning, random weights, and the length of the
    text (Kushnareva et al. 2022).
    """

    name: ClassVar[str] = "topology"
    clause: ClassVar[str] = (
        "a logistic regression on topological features of attention graphs was fitted to the "
        "labels of texts and scored on other texts, compared with the model's own classifier, the "
        "model before fine-tuning, random weights and text length alone"
    )
    references: ClassVar[tuple[str, ...]] = ("kushnareva2022",)
    may_lack: ClassVar[tuple[str, ...]] = ("frozen",)
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given("Labelled texts to fit classifiers on.")
    dev: TextsLike | None = given(
        "Labelled texts to choose settings on (default: a tenth of train).", None
    )
    test: TextsLike = given("Labelled texts to score classifiers on.")
    model: ModelLike | None = model_input()
    frozen: ModelLike | None = given(
        "Control: the model before fine-tuning (default: the one that attlas finetune recorded).",
        None,
        of=MODEL_OR_NONE,
    )
    features: tuple[Any, ...] = option(  # in Python also measures, as BarcodeMeasure(h1_tokens=0)
        ("betti",), f"Kinds of features: some of {', '.join(KINDS)}."
    )
    thresholds: tuple[float, ...] = option(
        THRESHOLDS,
        "Thresholds: tokens are joined at or above this attention weight.",
        above=0,
        below=math.inf,
    )
    controls: bool = option(
        True, "Also score the model before fine-tuning, random weights, and length alone."
    )
    seed: int = seed_option()
    text: str | None = opening(None, "Column of the text.", of="texts")
    label: str | None = opening("label", "Column of the label.", of="texts")
    max_length: int | None = max_length_opening()
    global_tokens: str | None = global_tokens_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kinds(self.features)
        check_thresholds(self.thresholds)

    def completed(self) -> Topology:
        """With the base model that `attlas finetune` recorded as `frozen`, if none is given."""
        wanted = self.frozen is None and self.controls
        if not wanted or not isinstance(self.model, str | os.PathLike):
            return self
        base = base_model_of(self.model)
        return self if base is None else replace(self, frozen=base)


def check_kinds(features: Sequence[Any]) -> None:
    """Refuse what is not a kind of features (by name, or as a measure), and none or one twice."""
    names = [kind if isinstance(kind, str) else getattr(kind, "name", "") for kind in features]
    pairs = zip(features, names, strict=True)
    unknown = [str(kind) for kind, name in pairs if name not in KINDS]
    if unknown or not names:
        raise MeasureError(
            f"features are some of {', '.join(KINDS)}, not {', '.join(unknown) or 'none'}"
        )
    if len(set(names)) < len(names):
        raise MeasureError(f"a kind of features occurs twice in {', '.join(names)}; name each once")


def check_thresholds(thresholds: Any) -> tuple[float, ...]:
    """Thresholds as a tuple of distinct numbers above 0."""
    several = isinstance(thresholds, Iterable) and not isinstance(thresholds, str)
    try:
        levels = tuple(map(float, thresholds if several else [thresholds]))
    except (TypeError, ValueError):
        raise MeasureError(
            f"the thresholds are {thresholds!r}; give a list of numbers above 0, such as 0.1"
        ) from None
    if not levels:
        raise MeasureError("there are no thresholds; give at least one number, such as 0.1")
    wrong = [level for level in levels if not 0 < level < math.inf]
    if wrong:
        raise MeasureError(
            f"a threshold is {wrong[0]}; thresholds are numbers above 0, such as 0.1"
        )
    if len(set(levels)) < len(levels):
        shown = ", ".join(f"{level:g}" for level in levels)
        raise MeasureError(f"a threshold occurs twice in {shown}; give each once")
    return levels
