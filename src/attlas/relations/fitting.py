"""Fitting readers, two linear classifiers: which cases are related, and by which relation.

A case is two phrases of a text, with the words of a relation between them where a data set marks
these. Attention and every control are fitted in the same way. Each reader is one job, so that an
interrupted run loses one reader at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attlas.experiments.workspace import Workspace
from attlas.relations.reading import RELATED, Sample
from attlas.stats.linear import (
    GRID,
    LinearReader,
    Scorer,
    by_balanced_accuracy,
    by_macro_f1,
    fit_published,
    fit_reader,
)
from attlas.support.arrays import Array as Floats
from attlas.support.errors import CorpusError


class Labelled(NamedTuple):
    """Features of cases, and what readers should answer."""

    features: Floats  # case feature
    related: npt.NDArray[np.bool_]  # case
    relations: list[str]  # of the related ones

    @classmethod
    def of(cls, sample: Sample, features: Floats) -> Labelled:
        return cls(features, sample.related, sample.relations)

    @property
    def all_cases(self) -> tuple[Floats, list[str]]:
        """Features and class of each case: related or not."""
        return self.features, [RELATED[int(is_related)] for is_related in self.related]

    @property
    def related_cases(self) -> tuple[Floats, list[str]]:
        """Features and relation of each related case."""
        return self.features[self.related], self.relations

    def with_columns(self, columns: npt.NDArray[Any]) -> Labelled:
        """The same cases with some of their features."""
        return self._replace(features=self.features[:, columns])


class Readers(NamedTuple):
    """The two classifiers of one kind of features: is a case related, and by which relation?"""

    related: LinearReader  # classes RELATED
    named: LinearReader

    def related_chances(self, features: Floats) -> npt.NDArray[Any]:
        """The probability that each case is related."""
        return self.related.probabilities(features)[:, 1]


@dataclass(frozen=True, eq=False)
class ReaderJob:
    """What one reader is fitted to and tuned on: features and the class of each case."""

    train: tuple[Floats, Sequence[str]]
    dev: tuple[Floats, Sequence[str]]
    scorer: Scorer  # what the penalty is chosen by
    grid: tuple[float, ...] = GRID
    n_unscaled: int = 0  # features, the last ones, that are not whitened
    published: bool = False  # the authors' solver; nothing is tuned


def fit_job(job: ReaderJob) -> dict[str, npt.NDArray[Any]]:
    """Fit one reader; as arrays, so that it can be cached."""
    return fitted(job).arrays()


def fitted(job: ReaderJob) -> LinearReader:
    """Fit one reader."""
    if job.published:
        return fit_published(*job.train, job.scorer is by_macro_f1)
    return fit_reader(*job.train, job.dev, job.scorer, job.grid, n_unscaled=job.n_unscaled)


def pair_of_jobs(
    train: Labelled,
    dev: Labelled,
    *,
    grid: Sequence[float] = GRID,
    n_unscaled: int = 0,
    published: bool = False,
) -> tuple[ReaderJob, ReaderJob]:
    """The jobs of both readers: related or not, and which relation."""
    if train.related.all() or dev.related.all():
        raise CorpusError(
            "no text has two phrases other than those of its triples, so there are no unrelated "
            "pairs to compare with; give texts that are whole sentences"
        )
    penalties = tuple(float(penalty) for penalty in grid)
    options: dict[str, Any] = {"grid": penalties, "n_unscaled": n_unscaled, "published": published}
    return (
        ReaderJob(train.all_cases, dev.all_cases, by_balanced_accuracy, **options),
        ReaderJob(train.related_cases, dev.related_cases, by_macro_f1, **options),
    )


def fit_jobs(work: Workspace, jobs: Mapping[str, ReaderJob], what: str) -> dict[str, LinearReader]:
    """Fit readers by name; those that are cached are not fitted again."""
    fits = work.map(fit_job, list(jobs.values()), what=what)
    return {name: LinearReader.of_arrays(arrays) for name, arrays in zip(jobs, fits, strict=True)}


def fit_pairs(
    work: Workspace, pairs: Mapping[str, tuple[ReaderJob, ReaderJob]]
) -> dict[str, Readers]:
    """Fit both readers of every kind of features."""
    questions = Readers._fields
    jobs = {
        f"{kind}/{question}": job
        for kind, pair in pairs.items()
        for question, job in zip(questions, pair, strict=True)
    }
    readers = fit_jobs(work, jobs, "fitting readers")
    return {
        kind: Readers(*(readers[f"{kind}/{question}"] for question in questions)) for kind in pairs
    }


def fit_readers(train: Labelled, dev: Labelled, grid: Sequence[float] = GRID) -> Readers:
    """Fit both readers at once."""
    return Readers(*map(fitted, pair_of_jobs(train, dev, grid=grid)))
