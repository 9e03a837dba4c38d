"""What is known of one head: a row per number, with its control and, where it is claimed, verdict.

Most rows are the claims of sections, judged with all others of their section. What is not claimed
comes from a head-level table and the columns that its section declares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attlas.stats.student import student_quantile
from attlas.stats.verdicts import Verdict
from attlas.support.json import to_json
from attlas.views.claims import Finding, whole
from attlas.views.numbers import head_of
from attlas.views.tables import Column, Kind

Head = tuple[int, int]  # layer and head
LINED = ("tokens", "lines")


@dataclass(frozen=True, kw_only=True)
class HeadRow:
    """One number about a head.

    `low` and `high` are its interval, corrected where there is a verdict. A number without a
    control is plain; one that no section claims has no verdict. `section` is the one with its
    figures: the anchor of a report. `other` is the head that this one is compared with.
    """

    label: str
    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None
    control: float | None = None
    control_name: str = ""
    kind: Kind = "plain"
    verdict: Verdict | None = None
    n: int | None = None
    section: str = ""
    other: str = ""

    def record(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


class ExampleToken(NamedTuple):
    """A token of a text, and whether it follows the one before it without a space."""

    string: str
    is_joined: bool
    is_special: bool


@dataclass(frozen=True, kw_only=True)
class HeadExample:
    """A text at a quantile of a score of a head, and what uniform attention would score.

    `lines` are the largest weights between its tokens: query, key and weight. Long texts have
    neither.
    """

    quantile: float
    text: str  # its id
    begins: str
    score: float
    control: float
    label: str  # of the score
    unit: str = ""
    section: str = ""
    tokens: tuple[ExampleToken, ...] = ()
    lines: tuple[tuple[int, int, float], ...] = ()

    @property
    def title(self) -> str:
        """The label of the score with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def record(self) -> dict[str, Any]:
        """The example as JSON, without its lines."""
        return {name: value for name, value in asdict(self).items() if name not in LINED}


def finding_row(one: Finding) -> HeadRow:
    """What a finding about a head says, as a row."""
    claim = one.claim
    low, high = map(to_json, one.ends)
    return HeadRow(
        label=claim.label or claim.words,
        value=claim.value,
        unit=claim.unit,
        low=low if high is not None else None,
        high=high if low is not None else None,
        control=claim.control,
        control_name=claim.control_name,
        kind="signed" if claim.direction == "either" else claim.direction,
        verdict=one.verdict,
        n=claim.texts if claim.n is None else whole(claim.n),
    )


def column_rows(
    frame: pd.DataFrame,
    columns: Iterable[Column],
    control_name: str = "",
    texts: int | None = None,
) -> dict[Head, list[HeadRow]]:
    """The numbers of every head in a head-level table, those that are known.

    The control is the column that a `Column` declares, or else the median head. With a number of
    texts, a column `NAME_error` gives the interval of the value.
    """
    known = [one for one in columns if one.name in frame]
    medians = {one.name: float(frame[one.name].median()) for one in known if not one.control}
    wide = None
    if texts is not None and texts > 1:
        wide = float(student_quantile(0.975, np.array([texts]))[0])
    out: dict[Head, list[HeadRow]] = {}
    for row in frame.to_dict("records"):
        for one in known:
            if not is_known(row[one.name]):
                continue
            value, control = float(row[one.name]), row.get(one.control)
            control = control if one.control else medians[one.name]
            has_control = is_known(control)
            name = control_name if one.control else "median head"
            low, high = _interval(value, row.get(f"{one.name}_error"), wide)
            found = HeadRow(
                label=one.label,
                value=value,
                unit=one.unit,
                low=low,
                high=high,
                control=float(control) if has_control else None,
                control_name=name if has_control else "",
                kind=one.kind if has_control else "plain",
                n=texts,
            )
            out.setdefault(head_of(row), []).append(found)
    return out


def is_known(value: Any) -> bool:
    """Whether there is a finite number.

    >>> is_known(0.5), is_known(float("nan")), is_known(None)
    (True, False, False)
    """
    return value is not None and math.isfinite(value)


def _interval(value: float, error: Any, wide: float | None) -> tuple[float | None, float | None]:
    """The 95% interval of a mean over texts; none without its standard error."""
    if not is_known(error) or wide is None:
        return None, None
    return value - float(error) * wide, value + float(error) * wide
