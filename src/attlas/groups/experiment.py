"""Groups: the fields of the experiment behind `attlas study --by`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.errors import AttlasError, StudyError
from attlas.support.options import (
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

LABEL, PREDICTION = "label", "prediction"
MOST_GROUPS = 20


def check_groups(by: str | None, until: float | None) -> None:
    """Refuse to stop early when groups are compared: the texts that are read would decide."""
    if by is not None and until is not None:
        raise StudyError(
            "until (--until) cannot be given with by (--by): groups are compared over all their "
            "texts; omit one of the two"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Groups(Experiment):
    """Do heads behave differently on different groups of texts?

    The texts are divided by label, by right and wrong predictions of a classifier, or by a column
    of the data (at most 20 groups). Every table of heads is made for each group, and each number
    that has a standard error is compared between groups: two of them with each other, each of
    several with all other texts together, which makes fewer comparisons than all pairs.
    """

    name: ClassVar[str] = "groups"
    clause: ClassVar[str] = (
        "texts were divided into groups, and the means of every head over each group were compared "
        "(Welch's interval of the difference, beyond the one that uniform attention shows)"
    )
    resolves: ClassVar[str] = "work:resolve"
    checks: ClassVar[str] = "work:check"

    data: TextsLike = given("Texts, as for attlas study.")
    model: ModelLike | None = model_input()
    by: str = option(LABEL, "What divides the texts: label, prediction, or a column of the data.")
    measures: Any | None = option(None, "Measures (default: surface and entropy).")
    long: str = option(
        "truncate",
        "Texts beyond the model's maximum length: truncate and count them, or stop.",
        choices=("truncate", "error"),
    )
    seed: int = seed_option()
    text: str | None = opening(None, "Column of the text.", of="texts")
    label: str | None = opening(None, "Column of the label.", of="texts")
    id: str | None = opening(None, "Column of the id (default: the row number).", of="texts")
    split: str = opening("train", "Split of a data set of the Hub.", of="texts")
    column: str | None = opening(None, "Column that divides the texts, from `by`.", of="texts")
    bad: str = opening(
        "quarantine",
        "Invalid rows: skip and log them, or stop.",
        of="texts",
        choices=("quarantine", "error"),
    )
    task: str = opening(
        "auto",
        "Task of the model; auto: the one its weights were saved for.",
        choices=("auto", "base", "classify", "mlm", "lm"),
    )
    max_length: int | None = max_length_opening()
    global_tokens: str | None = global_tokens_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.by.strip():
            raise AttlasError("by is empty; give label, prediction, or a column of the data")
        column = None if self.by in (LABEL, PREDICTION) else self.by
        object.__setattr__(self, "column", column)
        if isinstance(self.measures, str):
            raise AttlasError(
                f"measures is {self.measures!r}; give measures, such as [Surface()], or their "
                "names to attlas.study(..., by=...)"
            )
        if self.measures is not None:
            object.__setattr__(self, "measures", tuple(self.measures))
