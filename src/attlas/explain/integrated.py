"""Integrated gradients (Sundararajan et al. 2017) that say how far off they are, and go on until that is little enough.

Along the straight path from baseline to text the gradient gives each token's share of every step, and the value gives what all shares together must be. So each
interval of the path knows its own gap: the sum of its shares less the change of the value over it. Intervals are integrated by Simpson's rule, and halving one
uses all its points again and shows by how much each token's share changes: its error, which is at least its gap. Intervals are halved where gap or error is largest, until both are small for the whole path:
the gap as a share of the difference between text and baseline, the error as a share of all scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.explain.gradients import Field
from attlas.support.errors import MeasureError

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]
START = 4  # intervals to begin with
FLOOR = 1e-5  # of the larger value: a smaller difference between text and baseline is lost in the model's own rounding
DEEPEST, TINY = 2.0**-24, 1e-30


def scale_of(value: Any, baseline: Any, largest: float = 0.0) -> Any:
    """What a gap is a share of: the difference between text and baseline, or what rounding leaves of it beside the largest value on the way."""
    size = np.maximum(np.maximum(np.abs(value), np.abs(baseline)), largest)
    return np.maximum(np.abs(value - baseline), FLOOR * size + TINY)


@dataclass
class Path:
    """One text's path from baseline (0) to text (1): the points it was looked at, and the intervals it is cut into."""

    points: dict[float, tuple[Floats, float]] = field(
        default_factory=dict
    )  # at: shares [part, token], value
    known: dict[Interval, Floats] = field(default_factory=dict)  # shares of intervals
    intervals: list[Interval] = field(
        default_factory=lambda: [(step / START, (step + 1) / START) for step in range(START)]
    )

    def wanted(self) -> list[float]:
        """The points that are not known yet."""
        ends = {at for start, stop in self.intervals for at in (start, (start + stop) / 2, stop)}
        return sorted(ends - self.points.keys())

    def shares(self, interval: Interval) -> Floats:
        """Simpson's integral of the shares over an interval: [part, token]."""
        if interval not in self.known:
            start, stop = interval
            first, middle, last = (self.points[at][0] for at in (start, (start + stop) / 2, stop))
            self.known[interval] = (first + 4 * middle + last) * ((stop - start) / 6)
        return self.known[interval]

    def gap(self, interval: Interval) -> float:
        """By how much the shares of an interval miss the change of the value."""
        return float(
            self.shares(interval).sum()
            - (self.points[interval[1]][1] - self.points[interval[0]][1])
        )

    @property
    def difference(self) -> float:
        """The value of the text less that of the baseline."""
        return self.points[1.0][1] - self.points[0.0][1]

    @property
    def scale(self) -> float:
        """What the gap is a share of."""
        largest = max(abs(value) for _, value in self.points.values())
        return float(scale_of(self.points[1.0][1], self.points[0.0][1], largest))

    @property
    def missed(self) -> float:
        """The gap of the whole path as a share of the difference."""
        return abs(sum(self.gap(interval) for interval in self.intervals)) / self.scale

    def off(self, interval: Interval) -> float:
        """By how much the shares of an interval are off, all tokens together: a fifteenth of what halving its parent changed (Simpson's usual estimate, all of it laid to each half), at least its gap."""
        start, stop = interval
        size = stop - start
        first = round(start / size) % 2 == 0
        parent = (start, stop + size) if first else (start - size, stop)
        middle = (parent[0] + parent[1]) / 2
        change = (
            self.shares((parent[0], middle))
            + self.shares((middle, parent[1]))
            - self.shares(parent)
        )
        return max(float(np.abs(change).sum()) / 15, abs(self.gap(interval)))

    @property
    def error(self) -> float:
        """By how much the scores are off, all tokens together, as a share of their sizes."""
        return sum(map(self.off, self.intervals)) / self.size

    @property
    def size(self) -> float:
        """The sizes of all scores together; at least what the gap is a share of."""
        return max(float(np.abs(self.total()).sum()), self.scale)

    def total(self) -> Floats:
        """The shares over the whole path: [part, token]."""
        return np.sum([self.shares(interval) for interval in self.intervals], axis=0)

    def refine(self, tolerance: float, points: int) -> bool:
        """Halve the intervals with the largest gaps or errors, those that make up what is too much, as far as `points` new points allow; False if there is nothing to do."""
        missed, error = self.missed, self.error
        if missed <= tolerance and error <= tolerance:
            return False
        size = self.size
        weights = {
            interval: (abs(self.gap(interval)) / self.scale if missed > tolerance else 0.0)
            + (self.off(interval) / size if error > tolerance else 0.0)
            for interval in self.intervals
        }
        left = sum(weights.values())
        enough = min(left, tolerance) / 2
        halved: list[Interval] = []
        for interval in sorted(weights, key=lambda one: -weights[one]):
            if left <= enough or 2 * (len(halved) + 1) > points:
                break
            if interval[1] - interval[0] > DEEPEST:
                halved.append(interval)
                left -= weights[interval]
        for start, stop in halved:
            middle = (start + stop) / 2
            self.intervals.remove((start, stop))
            self.intervals += [(start, middle), (middle, stop)]
        self.intervals.sort()
        return bool(halved)


def integrate(
    field: Field,
    baseline: dict[str, Tensor],
    tolerance: float = 0.01,
    max_evaluations: int = 500,
    tell: Callable[[int], None] = lambda evaluations: None,
) -> list[Path]:
    """The path of each text of a batch, refined until its gap and error are below the tolerance or its evaluations are used up.

    `baseline` has the embeddings the paths start from. Points of all texts go through the model together.
    """
    check_tolerance(tolerance, max_evaluations)
    paths = [Path() for _ in range(field.batch.n_texts)]
    waiting = list(range(len(paths)))
    with field.open():
        while waiting:
            wanted = [(text, at) for text in waiting for at in paths[text].wanted()]
            _evaluate(field, baseline, wanted, paths, tell)
            waiting = [
                text
                for text in waiting
                if paths[text].refine(tolerance, max_evaluations - len(paths[text].points))
            ]
    return paths


def check_tolerance(tolerance: float, max_evaluations: int) -> None:
    """Refuse a tolerance that cannot be, or too few evaluations to begin with."""
    if not tolerance > 0:
        raise MeasureError(
            f"tolerance is {tolerance}; it must be above 0, such as 0.01 for a gap of 1 %"
        )
    if max_evaluations < 2 * START + 1:
        raise MeasureError(
            f"max_evaluations is {max_evaluations}; integrated gradients begin with {2 * START + 1}"
        )


def _evaluate(
    field: Field,
    baseline: dict[str, Tensor],
    wanted: Sequence[tuple[int, float]],
    paths: Sequence[Path],
    tell: Callable[[int], None],
) -> None:
    """Look at paths at some points: the value there, and each token's share of the way (gradient times whole way)."""
    rows = torch.tensor([text for text, _ in wanted], device=field.model.device)
    at = torch.tensor([at for _, at in wanted], dtype=torch.float64, device=field.model.device)
    for some in field.chunks(torch.arange(len(wanted), device=field.model.device)):
        text, step = rows[some], at[some][:, None, None]
        ways = {name: field.inputs[name][text] - start[text] for name, start in baseline.items()}
        given = {name: baseline[name][text] + step.to(way) * way for name, way in ways.items()}
        values, gradients = field.gradients(given, text)
        shares = torch.stack(
            [(gradients[name] * way).double().sum(-1) for name, way in ways.items()], 1
        )  # row part token
        field.check(values, shares)
        for number, share, value in zip(
            some.tolist(), shares.cpu().numpy(), values.tolist(), strict=True
        ):
            text_number, place = wanted[number]
            paths[text_number].points[place] = share, value
        tell(len(some))
