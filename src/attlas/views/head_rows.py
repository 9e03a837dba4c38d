"""What is known of one head: a row per number, with its control and, where it is claimed, verdict.

Most rows are the claims of sections, judged with all others of their section. What is not claimed
comes from a head-level table and the columns that its section declares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from attlas.stats.verdicts import Verdict, student_quantile
from attlas.support.json import to_json
from attlas.views.claims import Finding, whole
from attlas.views.tables import Column, Kind


@dataclass(frozen=True, kw_only=True)
class HeadRow:
    """One number about a head.

    `low` and `high` are its interval, corrected where there is a verdict. A number without a
    control is plain; one that no section claims has no verdict. `section` is the one with its
    figures: the anchor of a report.
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

    def record(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class HeadExample:
    """A text at a quantile of a score of a head, and what uniform attention would score."""

    quantile: float
    text: str  # its id
    begins: str
    score: float
    control: float
    label: str  # of the score
    unit: str = ""
    section: str = ""

    @property
    def title(self) -> str:
        """The label of the score with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def record(self) -> dict[str, Any]:
        """The example as JSON."""
        return asdict(self)


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


def row_of_head(frame: pd.DataFrame, layer: int, head: int) -> Mapping[Any, Any] | None:
    """The row of a head in a table with one row per head; None if it has none."""
    rows = frame[(frame["layer"] == layer) & (frame["head"] == head)]
    return rows.iloc[0].to_dict() if len(rows) else None


def column_rows(
    frame: pd.DataFrame,
    columns: Iterable[Column],
    head: tuple[int, int],
    control_name: str = "",
    texts: int | None = None,
) -> list[HeadRow]:
    """The numbers of a head in a head-level table, those that are known.

    The control is the column that a `Column` declares, or else the median head. With a number of
    texts, a column `NAME_error` gives the interval of the value.
    """
    row = row_of_head(frame, *head)
    known = [] if row is None else [one for one in columns if is_known(row.get(one.name))]
    out = []
    for one in known:
        assert row is not None
        value = float(row[one.name])
        control, name = row.get(one.control), control_name
        if not one.control:
            control, name = float(frame[one.name].median()), "median head"
        low, high = _interval(value, row.get(f"{one.name}_error"), texts)
        known_control = None if control is None or not is_known(control) else float(control)
        out.append(
            HeadRow(
                label=one.label,
                value=value,
                unit=one.unit,
                low=low,
                high=high,
                control=known_control,
                control_name="" if known_control is None else name,
                kind="plain" if known_control is None else one.kind,
                n=texts,
            )
        )
    return out


def is_known(value: Any) -> bool:
    """Whether there is a finite number.

    >>> is_known(0.5), is_known(float("nan")), is_known(None)
    (True, False, False)
    """
    return value is not None and math.isfinite(value)


def _interval(value: float, error: Any, texts: int | None) -> tuple[float | None, float | None]:
    """The 95% interval of a mean over texts; none without its standard error."""
    if not is_known(error) or texts is None or texts < 2:
        return None, None
    half = float(error) * float(student_quantile(0.975, np.array([texts]))[0])
    return value - half, value + half
