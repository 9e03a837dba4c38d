"""The methods by name, and all of them in one call for a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attlas.core.batch import Batch
from attlas.explain import attention, captum_methods
from attlas.explain.gradients import BASELINES, GradientEvaluator, baseline_of, blank_vector
from attlas.explain.integrated import Progress, check_tolerance, integrate, scale_of
from attlas.explain.kinds import METHODS as METHODS
from attlas.explain.target import ResolvedTarget, Target, check_target
from attlas.models import Model
from attlas.models.embeddings import AT
from attlas.support.arrays import Bools, Floats, Ints
from attlas.support.errors import MeasureError, ModelError


def has_baseline(method: str) -> bool:
    """Whether a method starts from a baseline."""
    return method == "integrated_gradients" or method in captum_methods.METHODS


@dataclass(frozen=True)
class Settings:
    """How texts are explained: the target, the baseline, at which embeddings, and how exactly."""

    target: Target = field(default_factory=Target)
    baseline: str | Tensor = "padding"
    at: str = "embeddings"
    tolerance: float = 0.01
    max_evaluations: int = 500
    importance: Floats | None = field(default=None, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.baseline, str | Tensor):
            raise MeasureError(
                f"baseline is a {type(self.baseline).__name__}; give {', '.join(BASELINES)}, or a "
                "torch tensor"
            )
        if isinstance(self.baseline, str) and self.baseline not in BASELINES:
            raise MeasureError(
                f"there is no baseline {self.baseline!r}; the baselines are {', '.join(BASELINES)}"
            )
        if self.at not in AT:
            raise MeasureError(f"at is {self.at!r}; it must be {', '.join(AT)}")
        check_tolerance(self.tolerance, self.max_evaluations)

    def check(self, model: Model, methods: Sequence[str]) -> None:
        """Refuse, before any work, what cannot be done with this model."""
        check_target(model, self.target)
        if isinstance(self.baseline, str) and any(map(has_baseline, methods)):
            blank_vector(model, self.baseline)
        for method in methods:
            METHODS.question(method)
            if self.at == "parts" and method in captum_methods.METHODS:
                raise MeasureError(
                    f"{method} has no parts; at='parts' is for integrated_gradients only (--at)"
                )
            if method in attention.SCALED and self.importance is None:
                raise ModelError(
                    f"{method} needs the importance of heads; give importance=, a study with that "
                    "measure, its folder, or an array [layer, head]"
                )


def settings_of(
    *, target: Any = None, of: str = "probability", position: int | None = None, **options: Any
) -> Settings:
    """Settings from the keyword arguments of calls and measures."""
    return Settings(target=Target(target, of, position), **options)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one method for a batch, with their cost and their error."""

    method: str
    scores: Floats  # text token
    evaluations: Ints  # text
    gap: Floats  # text: |sum of scores - difference| / difference; NaN if they need not add up
    error: Floats  # text: estimated error over all tokens, relative to their sizes; NaN if unknown
    baseline: Floats  # text: the explained number at the baseline; NaN where there is none
    parts: dict[str, Floats] = field(default_factory=dict)  # text token, by part of the embedding
    uniform: Floats | None = None  # text token: by uniform attention; None if it has no such scores

    def converged(self, tolerance: float) -> Bools:
        """Which texts' gap and error are within the tolerance; NaN counts as converged: [text]."""
        return np.isnan(self.error) | ((self.gap <= tolerance) & (self.error <= tolerance))


@dataclass(frozen=True, eq=False)
class Explained:
    """A batch, what is explained of each text, and the scores of every method."""

    batch: Batch
    target: ResolvedTarget
    values: Floats  # text: the explained number
    scores: dict[str, Scores]


def explain_batch(
    model: Model,
    batch: Batch,
    methods: Sequence[str],
    settings: Settings,
    on_progress: Progress = lambda evaluations: None,
) -> Explained:
    """Explain a batch of `Model.full_encoder` by each method; what they share is computed once."""
    evaluator = GradientEvaluator(model, batch, settings.target, settings.at)
    scores: dict[str, Scores] = {}
    with evaluator.open():
        values = evaluator.answer[1].double().cpu().numpy()
        start = baseline_of(evaluator, settings.baseline) if any(map(has_baseline, methods)) else {}
        at_baseline = np.full(batch.n_texts, np.nan)
        if any(METHODS[name].complete and name in captum_methods.METHODS for name in methods):
            at_baseline = _values(evaluator, start)
        received: dict[str, Tensor] = {}
        uniform: dict[str, Tensor] = {}
        if attending := [name for name in methods if name in attention.METHODS]:
            received, uniform = attention.attention_scores(
                attending, evaluator, settings.importance
            )
        for name in methods:
            if name == "integrated_gradients":
                scores[name] = _integrated(evaluator, start, settings, on_progress)
                continue
            if name in captum_methods.METHODS:
                by_captum = captum_methods.captum_scores(name, evaluator, start, settings.seed)
                each, evaluations = by_captum[0].cpu().numpy(), by_captum[1]
            elif name in received:
                each, evaluations = received[name].numpy(), 1
            else:
                each, evaluations = _random(batch, settings.seed), 0
            scores[name] = _single(name, each, evaluations, values, at_baseline)
    for name, even in uniform.items():
        scores[name] = replace(scores[name], uniform=even.numpy())
    return Explained(batch, evaluator.resolved, values, scores)


def _values(evaluator: GradientEvaluator, given: dict[str, Tensor]) -> Floats:
    """The explained number of each text from some embeddings."""
    with torch.no_grad():
        values = torch.cat(
            [
                evaluator.values({name: tensor[rows] for name, tensor in given.items()}, rows)
                for rows in evaluator.chunks(evaluator.every)
            ]
        )
    evaluator.check(values)
    return values.double().cpu().numpy()


def _integrated(
    evaluator: GradientEvaluator,
    start: dict[str, Tensor],
    settings: Settings,
    on_progress: Progress,
) -> Scores:
    how = (settings.tolerance, settings.max_evaluations)
    paths = integrate(evaluator, start, *how, on_progress)
    totals = np.stack([path.total() for path in paths])  # text part token
    parts = {name: totals[:, number] for number, name in enumerate(start)}
    return Scores(
        "integrated_gradients",
        totals.sum(1),
        np.array([len(path.points) for path in paths]),
        np.array([path.gap for path in paths]),
        np.array([path.error for path in paths]),
        np.array([path.points[0.0][1] for path in paths]),
        parts if settings.at == "parts" else {},
    )


def _single(
    name: str, scores: Floats, evaluations: int, values: Floats, at_baseline: Floats
) -> Scores:
    """Scores of a method that does not iterate, with their gap if they should add up."""
    complete = METHODS[name].complete
    gap = np.abs(scores.sum(1) - (values - at_baseline)) / scale_of(values, at_baseline)
    unknown = np.full(len(scores), np.nan)
    return Scores(
        name,
        scores,
        np.full(len(scores), evaluations),
        gap if complete else unknown,
        unknown,
        at_baseline if complete else unknown,
    )


def _random(batch: Batch, seed: int) -> Floats:
    """Scores drawn from the seed and the text alone."""
    return np.stack(
        [np.random.default_rng([seed, text.number]).random(batch.n_tokens) for text in batch.texts]
    )
