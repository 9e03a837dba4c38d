"""Rows of the benchmark table, and timing two ways in turns so that a noisy machine is unfair to neither."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What was measured: ours, the reference, and their ratio beside what we aim at."""

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
        return f"{self.what:52} {self.ours:9.2f} {self.unit:3} {self.reference_way:42} {self.reference:9.2f} {self.unit:3} ratio {self.ratio:7.3f}  (aim: {self.aim})"


def best_of(*ways: Callable[[], None], repeats: int = 3) -> list[float]:
    """The best time of each way, the ways taken in turns after one round to warm up."""
    for way in ways:
        way()
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        for way, taken in zip(ways, times, strict=True):
            began = time.perf_counter()
            way()
            taken.append(time.perf_counter() - began)
    return [min(taken) for taken in times]
