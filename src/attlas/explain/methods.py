"""The methods by name, and all of them behind one call for a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.batch import Batch
from attlas.explain import attention, captum_methods
from attlas.explain.gradients import BASELINES, Field, baseline_of, blank_vector
from attlas.explain.integrated import check_tolerance, integrate, scale_of
from attlas.explain.kinds import METHODS as METHODS
from attlas.explain.target import Aim, Target, check_target
from attlas.models import Model
from attlas.models.embeddings import AT
from attlas.support.errors import MeasureError, ModelError

Floats = npt.NDArray[np.float64]
Tell = Callable[[int], None]


def is_based(method: str) -> bool:
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
                f"baseline is a {type(self.baseline).__name__}; give {', '.join(BASELINES)}, or a torch tensor"
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
        if isinstance(self.baseline, str) and any(map(is_based, methods)):
            blank_vector(model, self.baseline)
        for method in methods:
            METHODS.question(method)
            if self.at == "parts" and method in captum_methods.METHODS:
                raise MeasureError(
                    f"{method} has no parts; with at='parts' only integrated_gradients has (--at)"
                )
            if method in attention.SCALED and self.importance is None:
                raise ModelError(
                    f"{method} needs the importance of heads; give importance=, a study with that measure, its folder, or an array [layer, head]"
                )


@dataclass(frozen=True, eq=False)
class Scores:
    """What one method says of a batch: scores [text, token], by part of the embedding if asked for, and what they cost and miss."""

    method: str
    scores: Floats  # text token
    evaluations: npt.NDArray[np.int64]  # text
    gap: Floats  # text: |sum of scores - difference| / difference; NaN where nothing must add up
    error: Floats  # text: by how much the scores are off, all tokens together, as a share of their sizes; estimated, NaN where it cannot be
    baseline: Floats  # text: the explained number at the baseline; NaN where there is none
    parts: dict[str, Floats] = field(default_factory=dict)  # text token

    def converged(self, tolerance: float) -> npt.NDArray[np.bool_]:
        """Which texts' scores add up as well as was asked for: [text]; methods that do not go on until they do are always done."""
        return np.isnan(self.error) | ((self.gap <= tolerance) & (self.error <= tolerance))


@dataclass(frozen=True, eq=False)
class Explained:
    """A batch, what is explained of each text, and the scores of every method."""

    batch: Batch
    aim: Aim
    values: Floats  # text: the explained number
    scores: dict[str, Scores]


def explain_batch(
    model: Model,
    batch: Batch,
    methods: Sequence[str],
    settings: Settings,
    tell: Tell = lambda evaluations: None,
) -> Explained:
    """Explain the texts of a batch by each method; what methods share is computed once. The batch is of `Model.full_encoder`."""
    one = Field(model, batch, settings.target, settings.at)
    out: dict[str, Scores] = {}
    with one.open():
        values = one.answer[1].double().cpu().numpy()
        start = baseline_of(one, settings.baseline) if any(map(is_based, methods)) else {}
        complete = any(
            METHODS[name].complete and name in captum_methods.METHODS for name in methods
        )
        at_baseline = _values(one, start) if complete else np.full(batch.n_texts, np.nan)
        attending = [name for name in methods if name in attention.METHODS]
        looked = (
            attention.attention_scores(attending, one, settings.importance) if attending else {}
        )
        for name in methods:
            if name == "integrated_gradients":
                out[name] = _integrated(one, start, settings, tell)
            elif name in captum_methods.METHODS:
                scores, evaluations = captum_methods.captum_scores(name, one, start, settings.seed)
                out[name] = _single(name, scores.cpu().numpy(), evaluations, values, at_baseline)
            elif name in attention.METHODS:
                out[name] = _single(name, looked[name].numpy(), 1, values, at_baseline)
            else:
                out[name] = _single(name, _random(batch, settings.seed), 0, values, at_baseline)
    return Explained(batch, one.aim, values, out)


def _values(one: Field, given: dict[str, Tensor]) -> Floats:
    """The explained number of each text from some embeddings."""
    with torch.no_grad():
        found = torch.cat(
            [
                one.values({name: tensor[rows] for name, tensor in given.items()}, rows)
                for rows in one.chunks(one.every)
            ]
        )
    one.check(found)
    return found.double().cpu().numpy()


def _integrated(one: Field, start: dict[str, Tensor], settings: Settings, tell: Tell) -> Scores:
    paths = integrate(one, start, settings.tolerance, settings.max_evaluations, tell)
    totals = np.stack([path.total() for path in paths])  # text part token
    missed = np.array([path.missed for path in paths])
    return Scores(
        "integrated_gradients",
        totals.sum(1),
        np.array([len(path.points) for path in paths]),
        missed,
        np.array([path.error for path in paths]),
        np.array([path.points[0.0][1] for path in paths]),
        {name: totals[:, number] for number, name in enumerate(start)}
        if settings.at == "parts"
        else {},
    )


def _single(
    name: str, scores: Floats, evaluations: int, values: Floats, at_baseline: Floats
) -> Scores:
    """Scores of a method that is done when it is done; those that should add up say how far they are from it."""
    complete = METHODS[name].complete
    gap = np.abs(scores.sum(1) - (values - at_baseline)) / scale_of(values, at_baseline)
    nothing = np.full(len(scores), np.nan)
    return Scores(
        name,
        scores,
        np.full(len(scores), evaluations),
        gap if complete else nothing,
        nothing,
        at_baseline if complete else nothing,
    )


def _random(batch: Batch, seed: int) -> Floats:
    """Scores drawn from the seed and the text alone."""
    return np.stack(
        [np.random.default_rng([seed, text.number]).random(batch.n_tokens) for text in batch.texts]
    )


def settings_of(**options: Any) -> Settings:
    """Settings from the options that calls and measures take flat."""
    aimed = {name: options.pop(name) for name in ("target", "of", "position") if name in options}
    return replace(Settings(target=Target(**aimed)), **options)
