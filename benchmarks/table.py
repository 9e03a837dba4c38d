"""Rows of the benchmark table; two ways are timed alternately, so that noise hits both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement: ours, the reference, their ratio, and the target."""

    what: str
    ours: float
    reference_way: str
    reference: float
    aim: str
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.ours / self.reference

    def __str__(self) -> str:
        ours = f"{self.what:52} {self.ours:9.2f} {self.unit:3}"
        reference = f"{self.reference_way:42} {self.reference:9.2f} {self.unit:3}"
        return f"{ours} {reference} ratio {self.ratio:7.3f}  (aim: {self.aim})"


def best_of(*ways: Callable[[], None], repeats: int = 3) -> list[float]:
    """The best time of each way; they alternate, after one round to warm up."""
    for way in ways:
        way()
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        for way, taken in zip(ways, times, strict=True):
            began = time.perf_counter()
            way()
            taken.append(time.perf_counter() - began)
    return [min(taken) for taken in times]
