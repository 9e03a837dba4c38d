"""Kinds of features: attention, and everything else that could show which relation a case has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attlas.models import Model
from attlas.relations.baselines import Surface
from attlas.relations.fitting import Labelled, ReaderJob, pair_of_jobs
from attlas.relations.reading import Sample, Setup, attention_features
from attlas.relations.vectors import PAIR_DIRECTIONS
from attlas.support.arrays import Array as Floats

ATTENTION, RANDOM, BAG = "attention", "random_model", "relation_words"
HEAD_TAIL, BOTH = "head_tail", "attention_and_words"
CONTROLS = (RANDOM, BAG, HEAD_TAIL, "distance", "part_of_speech", "word_embeddings")
WORD_GRID = (0.1, 1.0, 10.0, 100.0)  # penalties tried for words, which are not whitened


@dataclass(frozen=True, eq=False)
class Evidence:
    """The same cases as the model and as random weights read them, with the words around them."""

    setup: Setup
    own: Sample
    random: Sample
    model: Model
    vocabulary: Mapping[str, int]
    surface: Surface


def _attention(of: Evidence) -> Floats:
    return _of_attention(of.own, of.setup)


def _random_model(of: Evidence) -> Floats:
    return _of_attention(of.random, of.setup)


def _of_attention(sample: Sample, setup: Setup) -> Floats:
    return attention_features(sample.vectors, setup.worded, setup.directions, setup.published)


def _head_tail(of: Evidence) -> Floats:
    setup = of.setup
    return attention_features(of.own.vectors, setup.worded, PAIR_DIRECTIONS, setup.published)


def _relation_words(of: Evidence) -> Floats:
    return of.surface.bag(of.own.cases, of.vocabulary)


def _distance(of: Evidence) -> Floats:
    return of.surface.distance(of.own.cases)


def _part_of_speech(of: Evidence) -> Floats:
    return of.surface.tags(of.own.cases)


def _word_embeddings(of: Evidence) -> Floats:
    return of.surface.embeddings(of.own.cases, of.model)


def _attention_and_words(of: Evidence) -> Floats:
    return np.concatenate([_attention(of), _relation_words(of)], 1)


KINDS: Mapping[str, Callable[[Evidence], Floats]] = {  # [case, feature]
    ATTENTION: _attention,
    RANDOM: _random_model,
    BAG: _relation_words,
    HEAD_TAIL: _head_tail,
    "distance": _distance,
    "part_of_speech": _part_of_speech,
    "word_embeddings": _word_embeddings,
    BOTH: _attention_and_words,
}


def kinds(worded: bool) -> tuple[str, ...]:
    """The kinds that are read; pairs without relation words are head and tail already."""
    return tuple(name for name in KINDS if worded or name != HEAD_TAIL)


def features_of(evidence: Evidence) -> dict[str, Labelled]:
    """The features of every kind, with what readers should answer."""
    return {
        name: Labelled.of(evidence.own, KINDS[name](evidence))
        for name in kinds(evidence.setup.worded)
    }


def jobs_of(
    train: Mapping[str, Labelled], dev: Mapping[str, Labelled], setup: Setup, words: int
) -> dict[str, tuple[ReaderJob, ReaderJob]]:
    """The readers of every kind; as published, only those that the paper has are fitted its way."""
    theirs = (ATTENTION, RANDOM, HEAD_TAIL) if setup.published else ()
    return {
        name: pair_of_jobs(
            train[name],
            dev[name],
            grid=grid_of(name, setup),
            plain=plain_of(name, words),
            published=name in theirs,
        )
        for name in train
    }


def grid_of(name: str, setup: Setup) -> Sequence[float]:
    """The penalties that are tried for one kind."""
    return WORD_GRID if name == BAG else setup.grid


def plain_of(name: str, words: int) -> int:
    """How many of a kind's features, the last ones, are not whitened: words alone.

    Next to attention they are whitened with it, because one penalty serves both.
    """
    return words if name == BAG else 0
