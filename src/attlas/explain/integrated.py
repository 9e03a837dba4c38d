"""Integrated gradients (Sundararajan et al. 2017), refined until their error is small enough.

Along the straight path from baseline to text the gradient gives each token's share of every step,
and the value gives what all shares must sum to. So each interval of the path has its own gap: the
sum of its shares minus the change of the value. Intervals are integrated by Simpson's rule. Halving
one reuses all its points and shows by how much each token's share changes: its error, which is at
least its gap. Intervals are halved where gap or error is largest, until both are small for the
whole path: the gap relative to the difference between text and baseline, the error relative to all
scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attlas.explain.gradients import GradientEvaluator
from attlas.support.arrays import Floats
from attlas.support.errors import MeasureError

Interval = tuple[float, float]
Progress = Callable[[int], None]  # gets the number of new evaluations
START = 4  # intervals to begin with
FLOOR = 1e-5  # of the larger value: smaller differences are lost in the model's own rounding
DEEPEST, TINY = 2.0**-24, 1e-30


def scale_of(value: Any, baseline: Any, largest: float = 0.0) -> Any:
    """What a gap is relative to: the difference between text and baseline.

    At least what rounding leaves of the largest value on the path.
    """
    size = np.maximum(np.maximum(np.abs(value), np.abs(baseline)), largest)
    return np.maximum(np.abs(value - baseline), FLOOR * size + TINY)


@dataclass
class Path:
    """One text's path from baseline (0) to text (1): its evaluated points and its intervals."""

    points: dict[float, tuple[Floats, float]] = field(default_factory=dict)  # shares, value
    known: dict[Interval, Floats] = field(default_factory=dict)  # shares [part, token]
    intervals: list[Interval] = field(
        default_factory=lambda: [(step / START, (step + 1) / START) for step in range(START)]
    )

    def missing_points(self) -> list[float]:
        """The points that are still to be evaluated."""
        ends = {at for start, stop in self.intervals for at in (start, (start + stop) / 2, stop)}
        return sorted(ends - self.points.keys())

    def shares(self, interval: Interval) -> Floats:
        """Simpson's integral of the shares over an interval: [part, token]."""
        if interval not in self.known:
            start, stop = interval
            first, middle, last = (self.points[at][0] for at in (start, (start + stop) / 2, stop))
            self.known[interval] = (first + 4 * middle + last) * ((stop - start) / 6)
        return self.known[interval]

    def interval_gap(self, interval: Interval) -> float:
        """The sum of the shares of an interval minus the change of the value."""
        start, stop = interval
        change = self.points[stop][1] - self.points[start][1]
        return float(self.shares(interval).sum() - change)

    @property
    def difference(self) -> float:
        """The value of the text minus that of the baseline."""
        return self.points[1.0][1] - self.points[0.0][1]

    @property
    def scale(self) -> float:
        """What the gap is relative to."""
        largest = max(abs(value) for _, value in self.points.values())
        return float(scale_of(self.points[1.0][1], self.points[0.0][1], largest))

    @property
    def gap(self) -> float:
        """The gap of the whole path relative to the difference between text and baseline."""
        return abs(sum(self.interval_gap(interval) for interval in self.intervals)) / self.scale

    def interval_error(self, interval: Interval) -> float:
        """How far off the shares of an interval are, summed over tokens; at least its gap.

        A fifteenth of what halving its parent changed: Simpson's usual estimate, all of it assigned
        to each half.
        """
        start, stop = interval
        size = stop - start
        first = round(start / size) % 2 == 0
        parent = (start, stop + size) if first else (start - size, stop)
        middle = (parent[0] + parent[1]) / 2
        halves = self.shares((parent[0], middle)) + self.shares((middle, parent[1]))
        change = float(np.abs(halves - self.shares(parent)).sum())
        return max(change / 15, abs(self.interval_gap(interval)))

    @property
    def error(self) -> float:
        """How far off the scores are, summed over tokens, relative to their sizes."""
        return sum(map(self.interval_error, self.intervals)) / self.size

    @property
    def size(self) -> float:
        """The sum of the sizes of all scores; at least what the gap is relative to."""
        return max(float(np.abs(self.total()).sum()), self.scale)

    def total(self) -> Floats:
        """The shares over the whole path: [part, token]."""
        return np.sum([self.shares(interval) for interval in self.intervals], axis=0)

    def refine(self, tolerance: float, points: int) -> bool:
        """Halve the intervals with the largest gaps or errors, with at most `points` new points.

        Only as many as make up the excess; False if nothing is left to do.
        """
        gap, error, size, scale = self.gap, self.error, self.size, self.scale
        if gap <= tolerance and error <= tolerance:
            return False
        weights = {
            interval: (abs(self.interval_gap(interval)) / scale if gap > tolerance else 0.0)
            + (self.interval_error(interval) / size if error > tolerance else 0.0)
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
    evaluator: GradientEvaluator,
    baseline: dict[str, Tensor],
    tolerance: float = 0.01,
    max_evaluations: int = 500,
    on_progress: Progress = lambda evaluations: None,
) -> list[Path]:
    """The path of each text of a batch, from the embeddings `baseline`.

    Paths are refined until gap and error are below the tolerance or the evaluations are used up.
    Points of all texts go through the model together.
    """
    check_tolerance(tolerance, max_evaluations)
    paths = [Path() for _ in range(evaluator.batch.n_texts)]
    waiting = list(range(len(paths)))
    with evaluator.open():
        while waiting:
            points = [(text, at) for text in waiting for at in paths[text].missing_points()]
            _evaluate(evaluator, baseline, points, paths, on_progress)
            waiting = [
                text
                for text in waiting
                if paths[text].refine(tolerance, max_evaluations - len(paths[text].points))
            ]
    return paths


def check_tolerance(tolerance: float, max_evaluations: int) -> None:
    """Refuse a tolerance of 0 or less, or too few evaluations to begin with."""
    if not tolerance > 0:
        raise MeasureError(
            f"tolerance is {tolerance}; it must be above 0, such as 0.01 for a gap of 1%"
        )
    if max_evaluations < 2 * START + 1:
        raise MeasureError(
            f"max_evaluations is {max_evaluations}; integrated gradients need at least "
            f"{2 * START + 1}"
        )


def _evaluate(
    evaluator: GradientEvaluator,
    baseline: dict[str, Tensor],
    points: Sequence[tuple[int, float]],
    paths: Sequence[Path],
    on_progress: Progress,
) -> None:
    """Evaluate points (text, at): the value, and each token's share (gradient times whole way)."""
    device, inputs = evaluator.model.device, evaluator.inputs
    rows = torch.tensor([text for text, _ in points], device=device)
    steps = torch.tensor([at for _, at in points], dtype=torch.float64, device=device)
    for some in evaluator.chunks(torch.arange(len(points), device=device)):
        texts, step = rows[some], steps[some][:, None, None]
        ways = {name: inputs[name][texts] - start[texts] for name, start in baseline.items()}
        given = {name: baseline[name][texts] + step.to(way) * way for name, way in ways.items()}
        values, gradients = evaluator.gradients(given, texts)
        shares = torch.stack(
            [(gradients[name] * way).double().sum(-1) for name, way in ways.items()], 1
        )  # row part token
        evaluator.check(values, shares)
        for number, share, value in zip(
            some.tolist(), shares.cpu().numpy(), values.tolist(), strict=True
        ):
            text, at = points[number]
            paths[text].points[at] = share, value
        on_progress(len(some))
