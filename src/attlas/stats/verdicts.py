"""Does a value differ from its control beyond noise, selection and negligible size?

All comparisons of a section are judged together: Benjamini-Hochberg at 5%, and intervals widened to
match (Benjamini and Yekutieli 2005), so that an interval excludes zero where the test rejects. No
scipy: pages are drawn without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attlas.stats.student import student_quantile
from attlas.support.arrays import Array

Direction = Literal["above", "below", "either"]
Verdict = Literal["signal", "weak", "nothing beyond chance"]
VERDICTS: tuple[Verdict, ...] = ("signal", "weak", "nothing beyond chance")
RATE = 0.05  # false discoveries among those that are rejected
ENOUGH = 30  # texts


@dataclass(frozen=True)
class Comparison:
    """A value and its control, with the 95% interval of their difference.

    `texts` is the number of independent texts behind the interval, `direction` on which side of the
    control the value is of interest, `best` the best value there is, for the headroom, `choices`
    among how many values this one was chosen on the same texts, and `least` the smallest effect of
    interest where it is larger than that of the section.
    """

    value: float
    control: float
    low: float
    high: float
    texts: int
    direction: Direction = "above"
    best: float = 1.0
    choices: int = 1
    least: float = 0.0

    @property
    def difference(self) -> float:
        """The value minus its control."""
        return self.value - self.control

    @property
    def headroom(self) -> float:
        """The difference as a share of the distance from the control to the best value.

        >>> Comparison(0.75, 0.5, 0.2, 0.3, 40).headroom
        0.5
        """
        room = self.best - self.control
        return self.difference / room if room else 0.0

    @property
    def has_interval(self) -> bool:
        """Whether there is a difference with an interval."""
        return all(map(math.isfinite, (self.difference, self.low, self.high)))

    @property
    def is_on_wanted_side(self) -> bool:
        """Whether the value is on the side of its control that is of interest."""
        if self.direction == "either":
            return self.difference != 0
        return self.difference > 0 if self.direction == "above" else self.difference < 0

    @property
    def width_towards_zero(self) -> float:
        """The width of the interval on the side of zero."""
        return max(
            0.0, self.difference - self.low if self.difference > 0 else self.high - self.difference
        )


@dataclass(frozen=True)
class Judged:
    """A comparison among others: its verdict, and how much wider its interval has become.

    `significant` is after correction for all `comparisons`; `low` and `high` are the corrected
    interval of the difference.
    """

    comparison: Comparison
    verdict: Verdict
    significant: bool
    widening: float
    comparisons: int

    @property
    def low(self) -> float:
        """The lower end of the corrected interval of the difference."""
        one = self.comparison
        return one.low - (one.difference - one.low) * (self.widening - 1)

    @property
    def high(self) -> float:
        """The upper end of the corrected interval of the difference."""
        one = self.comparison
        return one.high + (one.high - one.difference) * (self.widening - 1)

    @property
    def rank(self) -> tuple[int, float]:
        """Signals first, then the largest share of the headroom."""
        return VERDICTS.index(self.verdict), -abs(self.comparison.headroom)


def judge(comparisons: Sequence[Comparison], smallest_effect: float) -> list[Judged]:
    """The verdict on each of the comparisons that a section makes; without an interval, none.

    *signal*: the corrected interval excludes zero on the side of interest, the difference is at
    least the smallest effect of interest, and there are at least 30 texts. *weak*: only without
    correction, or smaller, or on fewer texts. Otherwise the uncorrected interval includes zero, or
    the difference has the wrong sign.
    """
    judgeable = [one for one in comparisons if one.has_interval]
    if not judgeable:
        return []
    sizes = np.array([_in_intervals(one) for one in judgeable])
    texts = np.array([one.texts for one in judgeable])
    total = sum(one.choices for one in judgeable)
    rejected = discoveries(sizes, texts, total)
    level = RATE * max(1, rejected) / total
    wider = _widening(level, texts)
    significant = (sizes > wider) & (rejected > 0)
    return [
        Judged(
            one,
            _verdict(one, bool(sure), size > 1, smallest_effect),
            bool(sure),
            float(factor),
            total,
        )
        for one, sure, size, factor in zip(judgeable, significant, sizes, wider, strict=True)
    ]


def corrected(comparisons: Sequence[Comparison]) -> dict[str, Array]:
    """Columns: ends of the intervals that are corrected for all comparisons, and significance.

    A comparison without an interval has NaN.
    """
    judged = iter(judge(comparisons, smallest_effect=0.0))
    every = [next(judged) if one.has_interval else None for one in comparisons]
    return {
        "corrected_low": np.array([math.nan if one is None else one.low for one in every]),
        "corrected_high": np.array([math.nan if one is None else one.high for one in every]),
        "significant": np.array([one is not None and one.significant for one in every], dtype=bool),
    }


def _verdict(one: Comparison, significant: bool, uncorrected: bool, smallest: float) -> Verdict:
    if not (uncorrected and one.is_on_wanted_side):
        return "nothing beyond chance"
    large = abs(one.difference) >= max(smallest, one.least) and one.texts >= ENOUGH
    return "signal" if significant and large else "weak"


def _in_intervals(one: Comparison) -> float:
    """The difference in units of its 95% interval: above 1, the interval excludes zero."""
    if one.width_towards_zero > 0:
        return abs(one.difference) / one.width_towards_zero
    return math.inf if one.difference else 0.0


def discoveries(sizes: Array, texts: Array, total: int | None = None) -> int:
    """How many differences Benjamini-Hochberg rejects.

    `sizes` are differences in units of their 95% intervals, `total` counts also those that were not
    chosen. The number is the largest R of which at least R are outside an interval of level
    1 - 0.05 R / m; raising R never loses one, so that the search from m downwards ends there.

    >>> discoveries(np.array([3.0, 1.05, 0.1]), np.array([100, 100, 100]))
    1
    """
    rejected = len(sizes)
    while rejected:
        level = RATE * rejected / (total or len(sizes))
        count = int((sizes > _widening(level, texts)).sum())
        if count >= rejected:
            return rejected
        rejected = count
    return 0


def _widening(level: float, texts: Array) -> Array:
    """How many times as wide as a 95% interval one of error `level` is."""
    out: Array = student_quantile(1 - level / 2, texts) / student_quantile(1 - RATE / 2, texts)
    return out
