"""Estimate: a mean over texts with its control, their difference, and 95% intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from attlas.core.states import Moments
from attlas.stats.intervals import mean_interval, student
from attlas.support.arrays import Array, Floats
from attlas.support.errors import MeasureError
from attlas.views import numbers
from attlas.views.tables import TextTable


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

    def cells(self) -> tuple[str, str, str]:
        """Value, control and difference as text, with their intervals."""
        return (
            shown(self.value, self.low, self.high),
            shown(self.control),
            shown(self.difference, self.difference_low, self.difference_high),
        )

    def shown(self, control: str) -> str:
        """Value, interval and control as text."""
        value, by_chance, _ = self.cells()
        return f"{value} ({control} {by_chance})"


class Estimates(ABC):
    """Estimates by name, as a table and as text."""

    names: ClassVar[tuple[str, ...]]
    kind: ClassVar[str] = "metric"  # what the names are
    control: ClassVar[str] = "random"  # what the control is

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.names:
            known = ", ".join(self.names)
            raise MeasureError(f"there is no {self.kind} {name!r}; the {self.kind}s are {known}")
        one: Estimate = getattr(self, name)
        return one

    @abstractmethod
    def _about(self) -> str:
        """The settings, and the number of texts."""

    def _labels(self) -> tuple[str, ...]:
        """The names as they are shown."""
        return self.names

    def to_frame(self) -> pd.DataFrame:
        """One row per name: value, control and difference with their intervals."""
        return pd.DataFrame(
            [{self.kind: name, **self[name].row(self.control)} for name in self.names]
        )

    def __repr__(self) -> str:
        named = zip(self._labels(), self.names, strict=True)
        parts = ", ".join(f"{label} {self[name].shown(self.control)}" for label, name in named)
        return f"{type(self).__name__}({parts}; {self._about()})"

    def _repr_html_(self) -> str:
        columns = (self.kind, "value", self.control, f"value - {self.control}")
        named = zip(self._labels(), self.names, strict=True)
        rows = tuple((label, *self[name].cells()) for label, name in named)
        caption = escape(f"{type(self).__name__}: {self._about()}")
        return f"<p>{caption}</p>{TextTable(columns, rows).html()}"


def count_texts(count: int) -> str:
    """The number of texts, in words.

    >>> count_texts(1), count_texts(3)
    ('1 text', '3 texts')
    """
    return f"{count} text{'s' * (count != 1)}"


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
    (value, control, difference), (low, _, below) = mean, mean - half
    high, _, above = mean + half
    return Estimate(value, control, low, high, difference, below, above, int(count[0]))


def with_difference(values: Any, controls: Any, axis: int = 0) -> Floats:
    """Values, controls and their differences along a new axis."""
    return np.stack([values, controls, values - controls], axis)


def number_columns(names: Sequence[str], values: Array, control: str) -> dict[str, Array]:
    """The columns NAME and NAME_CONTROL, from [row, value or control, name]."""
    return {
        f"{name}{end}": values[:, side, column]
        for column, name in enumerate(names)
        for side, end in enumerate(("", f"_{control}"))
    }


def shown(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """A number to three digits, with its interval if there is one."""
    if math.isnan(low):
        return "undefined" if math.isnan(value) else numbers.decimal(value, 3)
    return numbers.estimate(value, low, high, 3)
