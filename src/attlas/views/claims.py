"""Claims of sections, and the findings that are left of them when they have been judged together.

A claim is one comparison in words. A section makes all of them, also those that come to nothing, so
that the verdict covers the choice of the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attlas.stats.verdicts import (
    Comparison,
    Direction,
    Judged,
    Verdict,
    judge,
    student_quantile,
)
from attlas.views.numbers import decimal, estimate, finding, head_name
from attlas.views.tables import Column

MOST_FINDINGS = 3  # of a section


@dataclass(frozen=True)
class Claim:
    """A sentence about a value and its control.

    `low` and `high` are the 95% interval of the value, `difference_low` and `difference_high` that
    of its distance from the control. `texts` are independent, `n` are cases. Of the claims of one
    `group`, the best becomes a finding; `members` is what they are about. `bounds` are the smallest
    and the largest value there can be; the best is the largest, or the smallest of a claim that
    goes below. `choices` is among how many values it was chosen on the texts that it is scored on.
    """

    words: str
    value: float
    low: float
    high: float
    control: float
    control_name: str
    difference_low: float
    difference_high: float
    texts: int
    n: float | None = None
    also: tuple[str, ...] = ()
    group: str = ""
    members: str = "heads"
    what: str = ""  # of the value: "MCC"
    unit: str = ""
    direction: Direction = "above"
    bounds: tuple[float, float] = (0.0, 1.0)
    choices: int = 1

    @classmethod
    def of_row(
        cls,
        words: str,
        row: Mapping[Any, Any],
        value: str,
        control: str,
        control_name: str,
        **more: Any,
    ) -> Claim:
        """A claim from a row with the columns `low high difference_low difference_high texts`."""
        return cls(
            words,
            float(row[value]),
            float(row["low"]),
            float(row["high"]),
            float(row[control]),
            control_name,
            float(row["difference_low"]),
            float(row["difference_high"]),
            **{"texts": whole(row.get("texts")), **more},
        )

    @classmethod
    def against(
        cls,
        words: str,
        row: Mapping[Any, Any],
        rival: Mapping[Any, Any],
        control_name: str,
        columns: tuple[str, str, str],
        **more: Any,
    ) -> Claim:
        """A claim about two rows whose difference has no interval of its own.

        `columns` are the value and the ends of its interval. The interval of the difference is made
        from those of the two (Newcombe 1998), as if they were independent: on the same texts it is
        too wide rather than too narrow.
        """
        value, low, high = (float(row[name]) for name in columns)
        other, other_low, other_high = (float(rival[name]) for name in columns)
        gap = value - other
        ends = (
            math.hypot(value - low, other_high - other),
            math.hypot(high - value, other - other_low),
        )
        return cls(
            words, value, low, high, other, control_name, gap - ends[0], gap + ends[1], **more
        )

    @property
    def comparison(self) -> Comparison:
        """What is judged."""
        best = self.bounds[0] if self.direction == "below" else self.bounds[1]
        ends = self.difference_low, self.difference_high
        return Comparison(
            self.value, self.control, *ends, self.texts, self.direction, best, self.choices
        )


def head_claims(
    frame: pd.DataFrame,
    column: Column,
    words: str,
    texts: int,
    control_name: str = "uniform attention",
    **more: Any,
) -> list[Claim]:
    """A claim about every head of a table in which a column has its standard error over texts.

    The error of the difference from the control is `NAME_difference_error`; in tables of earlier
    versions, which have none, that of the value stands for it.
    """
    name = column.name
    needed = (name, column.control, f"{name}_error")
    if texts < 2 or not set(needed) <= set(frame.columns):
        return []
    paired = f"{name}_difference_error"
    paired = paired if paired in frame else f"{name}_error"
    wide = float(student_quantile(0.975, np.array([texts]))[0])
    direction = "below" if column.kind == "below" else "above"
    out = []
    for row in frame.to_dict("records"):
        value, control = row[name], row[column.control]
        half, apart = row[f"{name}_error"] * wide, row[paired] * wide
        ends = (value - half, value + half), (value - control - apart, value - control + apart)
        options = {"direction": direction, "unit": column.unit, "group": name, **more}
        about = f"{head_name(row)} {words}"
        out.append(Claim(about, value, *ends[0], control, control_name, *ends[1], texts, **options))
    return out


def whole(count: float | None) -> int:
    """A count that may be missing.

    >>> whole(12.0), whole(float("nan")), whole(None)
    (12, 0, 0)
    """
    return 0 if count is None or count != count else int(count)


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict, as report, terminal and JSON have it."""

    claim: Claim
    judged: Judged
    alike: tuple[int, int]  # signals in its group, and all members
    section: str = ""
    origin: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the comparison shows."""
        return self.judged.verdict

    @property
    def ends(self) -> tuple[float, float]:
        """The interval of the value, as wide as the correction asks for."""
        claim, wider = self.claim, self.judged.widening
        low = claim.value - (claim.value - claim.low) * wider
        high = claim.value + (claim.high - claim.value) * wider
        return max(low, claim.bounds[0]), min(high, claim.bounds[1])

    @property
    def sentence(self) -> str:
        """The finding in words: effect, interval, control and number of cases."""
        claim, (signals, members) = self.claim, self.alike
        effect = f"{claim.what} {estimate(claim.value, *self.ends)}".strip()
        unit = f" {claim.unit}" if claim.unit else ""
        control = f"{claim.control_name} {decimal(claim.control)}"
        cases = claim.texts if claim.n is None else claim.n
        out = finding(claim.words, effect + unit, control, *claim.also, n=cases)
        if self.is_general:
            return f"{out} All other {claim.members} do so too."
        if signals > 1:
            return f"{out} {signals - 1} of the {members - 1} other {claim.members} do so too."
        return out

    @property
    def rank(self) -> tuple[int, float]:
        """Signals first, then the largest share of the headroom."""
        return self.judged.rank

    @property
    def is_general(self) -> bool:
        """Whether it holds for all members of its group, all heads for instance."""
        signals, members = self.alike
        return members > 1 and signals == members

    def record(self) -> dict[str, Any]:
        """The finding as JSON."""
        claim, judged = self.claim, self.judged
        low, high = self.ends
        return {
            "section": self.section,
            "origin": self.origin,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "value": claim.value,
            "low": low,
            "high": high,
            "control": claim.control,
            "control_name": claim.control_name,
            "difference": judged.comparison.difference,
            "difference_low": judged.low,
            "difference_high": judged.high,
            "headroom": judged.comparison.headroom,
            "texts": claim.texts,
            "comparisons": judged.comparisons,
        }


def best_findings(claims: Sequence[Claim], smallest_effect: float) -> list[Finding]:
    """The best claim of each group, the strongest first; also those that come to nothing."""
    judgeable = [claim for claim in claims if claim.comparison.has_interval]
    judged = judge([claim.comparison for claim in judgeable], smallest_effect)
    groups: dict[str, list[tuple[Claim, Judged]]] = {}
    for pair in zip(judgeable, judged, strict=True):
        groups.setdefault(pair[0].group or pair[0].words, []).append(pair)
    out = []
    for pairs in groups.values():
        claim, best = min(pairs, key=lambda pair: pair[1].rank)
        signals = sum(one.verdict == "signal" for _, one in pairs)
        out.append(Finding(claim, best, (signals, len(pairs))))
    return sorted(out, key=lambda one: one.rank)


def section_verdict(findings: Iterable[Finding]) -> Verdict | None:
    """The verdict of the best finding; None where nothing is compared."""
    first = next(iter(findings), None)
    return None if first is None else first.verdict
