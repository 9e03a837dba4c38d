"""Kinds of features for relations: attention, and controls that might predict them as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.relations.baselines import Surface
from attlas.relations.fitting import Labelled, ReaderJob, pair_of_jobs
from attlas.relations.reading import Sample, Setup, attention_features, cases_of, read_sample
from attlas.relations.vectors import PAIR_DIRECTIONS, spans_by_text
from attlas.support.arrays import Array as Floats

ATTENTION, RANDOM, BAG = "attention", "random_model", "relation_words"
HEAD_TAIL, BOTH = "head_tail", "attention_and_words"
CONTROLS = (RANDOM, BAG, HEAD_TAIL, "distance", "part_of_speech", "word_embeddings")
WORD_GRID = (0.1, 1.0, 10.0, 100.0)  # penalties tried for words, which are not whitened


@dataclass(frozen=True, eq=False)
class Part:
    """The cases of texts: their attention in a model and with random weights, and their words."""

    setup: Setup
    sample: Sample
    random: Sample
    model: Model
    vocabulary: Mapping[str, int]
    surface: Surface

    @cached_property
    def features(self) -> dict[str, Labelled]:
        """The features of every kind, with the labels that readers (classifiers) are fitted to."""
        return {
            name: Labelled.of(self.sample, FEATURE_KINDS[name](self))
            for name in feature_kinds(self.setup.relation_words)
        }

    @property
    def texts(self) -> Sequence[Text]:
        return self.sample.texts

    @property
    def triples(self) -> int:
        return int(self.sample.related.sum())


FEATURE_KINDS: Mapping[str, Callable[[Part], Floats]] = {  # [case, feature]
    ATTENTION: lambda part: attention_features(part.sample.vectors, part.setup),
    RANDOM: lambda part: attention_features(part.random.vectors, part.setup),
    BAG: lambda part: part.surface.bag(part.sample.cases, part.vocabulary),
    HEAD_TAIL: lambda part: attention_features(part.sample.vectors, part.setup, PAIR_DIRECTIONS),
    "distance": lambda part: part.surface.distance(part.sample.cases),
    "part_of_speech": lambda part: part.surface.tags(part.sample.cases),
    "word_embeddings": lambda part: part.surface.embeddings(part.sample.cases, part.model),
    BOTH: lambda part: np.concatenate([FEATURE_KINDS[one](part) for one in (ATTENTION, BAG)], 1),
}


def feature_kinds(relation_words: bool) -> tuple[str, ...]:
    """The kinds to compute; without relation words, attention is between head and tail anyway."""
    return tuple(name for name in FEATURE_KINDS if relation_words or name != HEAD_TAIL)


def read_part(
    work: Workspace,
    texts: Sequence[Text],
    setup: Setup,
    models: tuple[Model, Model],
    count: int | None = None,
    vocabulary: Mapping[str, int] | None = None,
    *,
    states: bool = False,
) -> Part:
    """Draw cases from texts; compute their attention in a model and with random weights."""
    cases = cases_of(texts, setup, count)
    how: dict[str, Any] = {"published": setup.published, "spans": spans_by_text(texts, cases)}
    sample = read_sample(work, models[0], texts, cases, states=states, **how)
    random = read_sample(work, models[1], texts, cases, **how)
    surface = Surface(texts)
    known = surface.vocabulary(sample.cases) if vocabulary is None else vocabulary
    return Part(setup, sample, random, models[0], known, surface)


def jobs_of(train: Part, dev: Part) -> dict[str, tuple[ReaderJob, ReaderJob]]:
    """Fit jobs for each kind; if `published`, the authors' own kinds are fitted as they do."""
    theirs = (ATTENTION, RANDOM, HEAD_TAIL) if train.setup.published else ()
    return {
        name: pair_of_jobs(
            train.features[name],
            dev.features[name],
            published=name in theirs,
            **fit_options(name, train),
        )
        for name in train.features
    }


def fit_options(name: str, train: Part) -> dict[str, Any]:
    """How readers of one kind are fitted: penalties to try, and the last features not whitened.

    Words alone are not; next to attention they are, because one penalty serves both.
    """
    if name == BAG:
        return {"grid": WORD_GRID, "n_unscaled": len(train.vocabulary)}
    return {"grid": train.setup.grid, "n_unscaled": 0}
