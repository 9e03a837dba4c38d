"""From texts to a pair of readers: which cases are related, and by which relation; the same way for attention and for every control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.models import Model
from attlas.probes.relations.cases import Case, first_occurrences, gold_cases, negatives
from attlas.probes.relations.linear import GRID, Floats, LinearReader, accuracy, fit_published, fit_reader, macro_f1
from attlas.probes.relations.vectors import CaseVectors, directions_of, gather
from attlas.support.errors import CorpusError

FLOOR = 1e-6  # added to a weight before its logarithm is taken
RELATED = ("no", "yes")


@dataclass(frozen=True, eq=False)
class Sample:
    """Cases of texts, triples and negatives, that the model saw whole; and what it did not see."""

    texts: Sequence[Text]
    cases: tuple[Case, ...]
    vectors: CaseVectors
    unseen: int  # triples with a phrase that was cut off

    @property
    def related(self) -> npt.NDArray[np.bool_]:
        return np.array([case.related for case in self.cases], dtype=bool)

    @property
    def answers(self) -> list[str]:
        """Whether each case is related, as a class."""
        return [RELATED[case.related] for case in self.cases]

    @property
    def relations(self) -> list[str]:
        """The relation of each related case."""
        return [case.relation for case in self.cases if case.related]

    def part(self, chosen: npt.NDArray[np.bool_]) -> Sample:
        """Some of the cases."""
        vectors = CaseVectors(self.vectors.attention[chosen], self.vectors.seen[chosen], None if self.vectors.states is None else self.vectors.states[chosen])  # fmt: skip
        return Sample(self.texts, tuple(case for case, keep in zip(self.cases, chosen, strict=True) if keep), vectors, self.unseen)  # fmt: skip


def drawn_cases(
    texts: Sequence[Text], *, words: bool, count: int, seed: int, published: bool, parser: str
) -> list[Case]:
    """The triples of texts, and for each so many negatives."""
    gold = gold_cases(texts, words)
    if published:
        gold = first_occurrences(texts, gold)
    return gold + negatives(texts, gold, count, seed, published=published, parser=parser)


def sample(
    model: Model,
    texts: Sequence[Text],
    cases: Sequence[Case],
    *,
    published: bool = False,
    states: bool = False,
    cache: str | Path | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    what: str = "reading attention between phrases",
) -> Sample:
    """Cases with their vectors, those left out that were cut off."""
    vectors = gather(
        model, texts, cases, mean=not published, states=states, cache=cache, workers=workers, progress=progress, what=what
    )  # fmt: skip
    whole = Sample(texts, tuple(cases), vectors, sum(case.related and not seen for case, seen in zip(cases, vectors.seen, strict=True)))  # fmt: skip
    if not any(case.related and seen for case, seen in zip(cases, vectors.seen, strict=True)):
        raise CorpusError(
            f"none of the {sum(case.related for case in cases)} triples is left: their phrases lie behind the {model.max_length} tokens that the model reads"
        )
    return whole.part(vectors.seen)


def attention_features(
    vectors: CaseVectors, worded: bool, directions: Sequence[str] | None = None, published: bool = False
) -> Floats:
    """What readers take: the logarithm of each weight (as published, the weight), direction by direction, maps by layer and head: [case, feature]."""
    known = directions_of(worded)
    chosen = [known.index(name) for name in (directions or known)]
    weights = vectors.attention[:, chosen].reshape(len(vectors.attention), -1)
    return as_features(weights, published)


def as_features(weights: Floats, published: bool) -> Floats:
    """The logarithm of each weight; as published, the weight."""
    return weights if published else np.log(weights + FLOOR)


@dataclass(frozen=True, eq=False)
class Readers:
    """Is a case related, and how."""

    related: LinearReader  # classes RELATED
    named: LinearReader

    def told(self, features: Floats) -> npt.NDArray[Any]:
        """The probability that each case is related."""
        return self.related.probabilities(features)[:, 1]


def fit_readers(
    train: tuple[Floats, Sample],
    dev: tuple[Floats, Sample],
    *,
    grid: Sequence[float] = GRID,
    published: bool = False,
    whiten: bool = True,
    plain: int = 0,
) -> Readers:
    """Both readers, tuned and calibrated on `dev`: features and the sample that they are of; the last `plain` features are not whitened."""
    (x, learnt), (y, held) = train, dev
    mine, theirs = learnt.related, held.related
    if not (~mine).any() or not (~theirs).any():
        raise CorpusError("no text has two phrases beside its triples, so there is nothing unrelated to tell them from; give texts that are whole sentences")  # fmt: skip
    if published:
        return Readers(fit_published(x, learnt.answers, False), fit_published(x[mine], learnt.relations, True))
    related = fit_reader(x, learnt.answers, (y, held.answers), accuracy, grid, whiten, plain)
    named = fit_reader(x[mine], learnt.relations, (y[theirs], held.relations), macro_f1, grid, whiten, plain)
    return Readers(related, named)


@dataclass(frozen=True, eq=False)
class Told:
    """What readers say of a sample: [case] for all, and [case] for the related ones."""

    text: npt.NDArray[np.int64]  # the text of each case
    related: npt.NDArray[np.bool_]
    right: npt.NDArray[np.bool_]  # whether `related` was answered rightly
    gold: npt.NDArray[np.str_]  # of the related ones
    named: npt.NDArray[np.str_]

    @classmethod
    def by(cls, readers: Readers, features: Floats, of: Sample) -> Told:
        related = of.related
        text = np.array([case.text for case in of.cases], dtype=np.int64)
        yes = readers.told(features) >= 0.5
        return cls(text, related, yes == related, np.array(of.relations, dtype=np.str_), readers.named.predict(features[related]))  # fmt: skip

    @cached_property
    def _codes(self) -> tuple[npt.NDArray[np.str_], npt.NDArray[Any], npt.NDArray[Any]]:
        """The relations in order, and which of them each case has and is given."""
        known, codes = np.unique(np.concatenate([self.gold, self.named]), return_inverse=True)
        return known, codes[: len(self.gold)], codes[len(self.gold) :]

    @property
    def known(self) -> tuple[str, ...]:
        """The relations that cases have or are given, in order."""
        return tuple(map(str, self._codes[0]))

    def counts(self, weights: Floats) -> Floats:
        """How many cases have each relation, are given it, and both: [relation, 3]."""
        known, of, given = self._codes
        hits = of == given
        parts = [(of, weights), (given, weights), (of[hits], weights[hits])]
        return np.stack([np.bincount(codes, each, len(known)) for codes, each in parts], 1)

    def scores(self, weights: Floats | None = None) -> dict[str, float]:
        """Binary accuracy (each side weighing the same) and macro precision, recall and F1 of the relations that cases have; they may be weighed by text: [text]."""
        each = np.ones(len(self.text)) if weights is None else weights[self.text]
        sides = [self.right[side] @ each[side] / max(each[side].sum(), 1e-12) for side in (self.related, ~self.related) if side.any()]  # fmt: skip
        table = self.counts(each[self.related])
        kept = table[table[:, 0] > 0]
        right = kept[:, 2]
        precision = np.divide(right, kept[:, 1], out=np.zeros(len(kept)), where=kept[:, 1] > 0)
        recall = np.divide(right, kept[:, 0], out=np.zeros(len(kept)), where=kept[:, 0] > 0)
        f1 = 2 * right / np.maximum(kept[:, 0] + kept[:, 1], 1e-12)
        return {"binary_accuracy": float(np.mean(sides)), "precision": float(precision.mean()), "recall": float(recall.mean()), "f1": float(f1.mean())}  # fmt: skip


RESAMPLES = 400


def intervals(told: Mapping[str, Told], texts: int, first: str, other: str | None = None, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Scores of several readers of one sample with 95 % intervals, and by how much the first (and another, in columns `both_`) is better than each: the texts
    drawn again, the same for all."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(texts, np.full(texts, 1 / texts), size=resamples).astype(np.float64)
    found: dict[str, dict[str, Any]] = {}
    samples = {name: [one.scores(row) for row in drawn] for name, one in told.items()}
    for name, one in told.items():
        row: dict[str, Any] = {**one.scores()}
        for score in ("binary_accuracy", "f1"):
            values = np.array([each[score] for each in samples[name]])
            row |= _ends(f"{score}_", values)
            for reader, prefix in ((first, ""), (other, "both_")):
                if reader is None:
                    continue
                ahead = np.array([each[score] for each in samples[reader]]) - values
                row[f"{prefix}{score}_ahead"] = told[reader].scores()[score] - row[score]
                row |= _ends(f"{prefix}{score}_ahead_", ahead)
        found[name] = row
    return found


def _ends(prefix: str, values: Floats) -> dict[str, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return {f"{prefix}low": float(low), f"{prefix}high": float(high)}


def phrases_of(texts: Sequence[Text], cases: Iterable[Case]) -> list[str]:
    """The relation words of cases, in lower case ("" without)."""
    return ["" if case.words is None else texts[case.text].text[slice(*case.words)].lower() for case in cases]
