"""Estimate: a mean over texts with its control, their difference, and 95% intervals."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attlas.core.states import Moments
from attlas.stats.intervals import mean_interval, student


@dataclass(frozen=True)
class Estimate:
    """A mean over the `texts` in which it is defined, with its control; intervals are Student's.

    `chance` and `random` are other names of the control.
    """

    value: float
    control: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    texts: int

    @property
    def chance(self) -> float:
        return self.control

    @property
    def random(self) -> float:
        return self.control

    def row(self, control: str) -> dict[str, float]:
        """All numbers by name, the control under a name of its own."""
        return {
            control if name == "control" else name: value for name, value in asdict(self).items()
        }

    def shown(self, control: str) -> str:
        """Value, interval and control as text."""
        return f"{shown(self.value, self.low, self.high)} ({control} {shown(self.control)})"


def estimate(values: Any, controls: Any) -> Estimate:
    """The estimate from a value and a control per text; NaN is excluded: [text], [text].

    >>> estimate([0.5, 0.7], [0.1, 0.1]).shown("chance")
    '0.600 [-0.671, 1.871] (chance 0.100)'
    """
    values, controls = (np.asarray(one, dtype=np.float64) for one in (values, controls))
    value, low, high = mean_interval(values)
    return Estimate(
        value,
        mean_interval(controls)[0],
        low,
        high,
        *mean_interval(values - controls),
        texts=int((~np.isnan(values)).sum()),
    )


def estimate_at(moments: Moments, index: tuple[Any, ...]) -> Estimate:
    """The estimate at an index of moments whose axis of three is value, control, difference."""
    count, mean = moments.count[index], moments.average()[index]
    half = moments.error()[index] * np.array([student(int(texts)) for texts in count])
    return Estimate(
        mean[0],
        mean[1],
        mean[0] - half[0],
        mean[0] + half[0],
        mean[2],
        mean[2] - half[2],
        mean[2] + half[2],
        int(count[0]),
    )


def shown(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """A number to three digits, with its interval if there is one."""
    number = "undefined" if math.isnan(value) else f"{round(value, 3) + 0.0:.3f}"
    return number if math.isnan(low) else f"{number} [{low:.3f}, {high:.3f}]"
