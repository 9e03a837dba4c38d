"""Claims of sections, and the findings that are left of them when they have been judged together.

A claim is one comparison in words. A section makes all of them, also those that come to nothing, so
that the verdict covers the choice of the best.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attlas.stats.student import student_quantile
from attlas.stats.verdicts import Comparison, Direction, Judged, Verdict, judge
from attlas.support.json import to_json
from attlas.views.numbers import decimal, estimate, finding, head_name, head_of
from attlas.views.tables import Column

MOST_FINDINGS = 3  # of a section
SIDES = {"above": "Above", "below": "Below", "either": "Different from"}


@dataclass(frozen=True)
class Claim:
    """A sentence about a value and its control.

    `low` and `high` are the 95% interval of the value, `difference_low` and `difference_high` that
    of its distance from the control. `texts` are independent, `n` are cases. Of the claims of one
    `group`, the best becomes a finding; `members` is what they are about. `bounds` are the smallest
    and the largest value there can be; the best is the largest, or the smallest of a claim that
    goes below. `choices` is the number of values that it was chosen from, on the texts that it is
    scored on; `least` its smallest effect of interest, if larger than that of the section.
    `head` is the layer and the head that it is about, `label` what a table of that head calls the
    value. Claims of several sections about one `fact`, such as "previous token", repeat each other.
    A claim that `is_of_most` is about most heads and opens a report. `further` is a sentence that
    follows the numbers.
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
    head: tuple[int, int] | None = None
    label: str = ""
    choices: int = 1
    least: float = 0.0
    fact: str = ""
    further: str = ""
    is_of_most: bool = False

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
        paired: tuple[float, float] | None = None,
        **more: Any,
    ) -> Claim:
        """A claim about two rows; `columns` are the value and the ends of its interval.

        `paired` is the interval of their difference on the same texts. Tables of earlier versions
        have none: then it is made from the intervals of the two (Newcombe 1998), as if they were
        independent, which is too wide rather than too narrow.
        """
        value, low, high = (float(row[name]) for name in columns)
        other, other_low, other_high = (float(rival[name]) for name in columns)
        if paired is None:
            gap = value - other
            paired = (
                gap - math.hypot(value - low, other_high - other),
                gap + math.hypot(high - value, other - other_low),
            )
        return cls(words, value, low, high, other, control_name, *paired, **more)

    @property
    def comparison(self) -> Comparison:
        """What is judged."""
        best = self.bounds[0] if self.direction == "below" else self.bounds[1]
        ends = self.difference_low, self.difference_high
        return Comparison(
            self.value,
            self.control,
            *ends,
            self.texts,
            self.direction,
            best,
            self.choices,
            self.least,
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
        options |= {"head": head_of(row), "label": column.label}
        about = f"{head_name(row)} {words}"
        out.append(Claim(about, value, *ends[0], control, control_name, *ends[1], texts, **options))
    return out


def control_of_difference(row: Mapping[Any, Any]) -> tuple[float, str, tuple[str, ...]]:
    """The control of a `difference`, its name, and what else to say: uniform attention or none.

    `beyond` says which of them is harder to exceed.

    >>> control_of_difference({"difference": 0.3, "uniform_difference": 0.1, "beyond": 0.2})
    (0.1, 'uniform attention', ())
    >>> control_of_difference({"difference": 0.3, "uniform_difference": -0.1, "beyond": 0.3})
    (0.0, 'no difference', ('uniform attention -0.10',))
    """
    uniform = float(row["uniform_difference"])
    if row["beyond"] != row["difference"] or uniform == 0:
        return uniform, "uniform attention", ()
    return 0.0, "no difference", (f"uniform attention {decimal(uniform)}",)


def paired_ends(frame: pd.DataFrame | None, **row: str) -> tuple[float, float] | None:
    """The paired interval of a difference from the row of a table with these values, if any.

    >>> frame = pd.DataFrame({"who": ["head"], "difference_low": [0.1], "difference_high": [0.3]})
    >>> paired_ends(frame, who="head"), paired_ends(frame, who="rules"), paired_ends(None)
    ((0.1, 0.3), None, None)
    """
    if frame is None:
        return None
    rows = frame[np.all([frame[name] == value for name, value in row.items()], axis=0)]
    if not len(rows):
        return None
    return float(rows["difference_low"].iloc[0]), float(rows["difference_high"].iloc[0])


def whole(count: float | None) -> int:
    """A count that may be missing.

    >>> whole(12.0), whole(float("nan")), whole(None)
    (12, 0, 0)
    """
    return 0 if count is None or count != count else int(count)


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict, as report, terminal and JSON have it.

    `distance` is 0 if it is of the study that is reported, 1 if it is of the same model on another
    corpus, 2 if it is of another model. A `caveat` says why it carries little weight.
    """

    claim: Claim
    judged: Judged
    alike: tuple[int, int]  # signals in its group, and all members
    section: str = ""
    origin: str = ""
    distance: int = 0
    caveat: str = ""

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
        return " ".join(filter(None, (f"{self.claim.words}: {self.numbers}", self.caveat)))

    @property
    def numbers(self) -> str:
        """What follows the claim: effect, interval, control, cases, and for how many it holds."""
        claim, (signals, members) = self.claim, self.alike
        effect = f"{claim.what} {estimate(claim.value, *self.ends)}".strip()
        unit = f" {claim.unit}" if claim.unit else ""
        control = f"{claim.control_name} {decimal(claim.control)}"
        cases = claim.texts if claim.n is None else claim.n
        out = finding("", effect + unit, control, *claim.also, n=cases)
        if claim.further:
            return f"{out} {claim.further}"
        if signals < 2 or self.verdict != "signal":
            return out
        some = f"all {members:,}" if self.is_general else f"{signals:,} of {members:,}"
        return f"{out} {SIDES[claim.direction]} the control: {some} {claim.members}."

    @property
    def rank(self) -> tuple[bool, int, bool, int, bool, float]:
        """The order of findings: the smallest rank is the strongest finding.

        Findings without a caveat come first, then signals before other verdicts. Among those, what
        holds for every head (or classifier) comes last, since it says little about any; the study
        that is reported comes before others, a finding about most heads before those about one,
        and a large share of the headroom before a small one.
        """
        verdict, share = self.judged.rank
        of_one = not self.claim.is_of_most
        return bool(self.caveat), verdict, self.is_general, self.distance, of_one, share

    @property
    def is_general(self) -> bool:
        """Whether it holds for all members of its group, all heads for instance."""
        signals, members = self.alike
        return members > 1 and signals == members and not self.claim.is_of_most

    def repeats(self, other: Finding) -> bool:
        """Whether another finding of the same model has the same fact or the same head."""
        if self.origin != other.origin and max(self.distance, other.distance) > 1:
            return False
        mine, theirs = self.claim, other.claim
        same_head = mine.head is not None and mine.head == theirs.head
        return same_head or (mine.fact != "" and mine.fact == theirs.fact)

    def record(self) -> dict[str, Any]:
        """The finding as JSON."""
        claim, judged = self.claim, self.judged
        low, high = self.ends
        return {
            "section": self.section,
            "origin": self.origin,
            "caveat": self.caveat,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "value": claim.value,
            "low": to_json(low),
            "high": to_json(high),
            "control": claim.control,
            "control_name": claim.control_name,
            "difference": judged.comparison.difference,
            "difference_low": judged.low,
            "difference_high": judged.high,
            "headroom": judged.comparison.headroom,
            "texts": claim.texts,
            "comparisons": judged.comparisons,
        }


def judged_claims(claims: Sequence[Claim], smallest_effect: float) -> list[Finding]:
    """All claims of a section that have an interval, judged together, in their order."""
    known = [claim for claim in claims if claim.comparison.has_interval]
    judged = judge([claim.comparison for claim in known], smallest_effect)
    groups = [claim.group or claim.words for claim in known]
    members = Counter(groups)
    signals = Counter(
        group for group, one in zip(groups, judged, strict=True) if one.verdict == "signal"
    )
    return [
        Finding(claim, one, (signals[group], members[group]))
        for claim, one, group in zip(known, judged, groups, strict=True)
    ]


def best_findings(claims: Sequence[Claim], smallest_effect: float) -> list[Finding]:
    """The best claim of each group, whatever its verdict; the strongest first."""
    best: dict[str, Finding] = {}
    for one in judged_claims(claims, smallest_effect):
        group = one.claim.group or one.claim.words
        if group not in best or one.rank < best[group].rank:
            best[group] = one
    return sorted(best.values(), key=lambda one: one.rank)


def section_verdict(findings: Iterable[Finding]) -> Verdict | None:
    """The verdict of the best finding; None where nothing is compared."""
    first = next(iter(findings), None)
    return None if first is None else first.verdict
