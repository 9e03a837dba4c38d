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
from attlas.relations.candidates import Case, first_occurrences, gold_cases, negatives
from attlas.relations.vectors import CaseVectors, directions_of, gather
from attlas.stats.bootstrap import bootstrap, ends
from attlas.stats.linear import GRID, Floats, LinearReader, by_balanced_accuracy, by_macro_f1, fit_published, fit_reader
from attlas.stats.scores import balanced_accuracy, codes_of, confusion, f1, macro, macro_f1, precision, recall
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
    related = fit_reader(x, learnt.answers, (y, held.answers), by_balanced_accuracy, grid, whiten, plain)
    named = fit_reader(x[mine], learnt.relations, (y[theirs], held.relations), by_macro_f1, grid, whiten, plain)
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
    def _coded(self) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
        """The relations in order, and which of them each case has and is given."""
        return codes_of(self.gold, self.named)

    @property
    def known(self) -> tuple[str, ...]:
        """The relations that cases have or are given, in order."""
        return tuple(map(str, self._coded[0]))

    @property
    def answered(self) -> npt.NDArray[np.int64]:
        """Whether each case was answered to be related: 0 or 1."""
        return (self.related == self.right).astype(np.int64)

    @cached_property
    def table(self) -> npt.NDArray[Any]:
        """How many cases of each relation are given each: [relation, relation]."""
        gold, named = self._coded[1]
        return confusion(gold, named, len(self.known))

    def scores(self) -> dict[str, float]:
        """Balanced accuracy of related or not, and macro precision, recall and F1 of the relations that cases have."""
        sides = confusion(self.related.astype(np.int64), self.answered, 2)
        each = {"precision": precision(self.table), "recall": recall(self.table), "f1": f1(self.table)}
        return {
            "binary_accuracy": float(balanced_accuracy(sides)),
            **{name: float(macro(values, self.table)) for name, values in each.items()},
        }


def intervals(
    told: Mapping[str, Told], texts: int, first: str, other: str | None = None, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Scores of several readers of one sample, and by how much the first (and another, in columns `both_`) is better than each.

    All have 95 % intervals of a bootstrap over texts, in which all readers see the same texts.
    """
    samples = _resampled(told, texts, seed)
    points = {name: one.scores() for name, one in told.items()}
    found: dict[str, dict[str, Any]] = {}
    for name, row in points.items():
        found[name] = {**row}
        for score in samples:
            found[name] |= _with_ends(f"{score}_", samples[score][name])
            for reader, prefix in ((first, ""), (other, "both_")):
                if reader is not None:
                    ahead = samples[score][reader] - samples[score][name]
                    found[name][f"{prefix}{score}_ahead"] = points[reader][score] - row[score]
                    found[name] |= _with_ends(f"{prefix}{score}_ahead_", ahead)
    return found


def _resampled(told: Mapping[str, Told], texts: int, seed: int) -> dict[str, dict[str, Floats]]:
    """Draws of the scores that have intervals, of each reader."""
    one = next(iter(told.values()))
    sides = bootstrap(
        one.related.astype(np.int64), [each.answered for each in told.values()], 2, balanced_accuracy, texts=(one.text, texts), seed=seed
    )  # fmt: skip
    known, (gold, *named) = codes_of(one.gold, *(each.named for each in told.values()))
    relations = bootstrap(gold, named, len(known), macro_f1, texts=(one.text[one.related], texts), seed=seed)
    return {
        "binary_accuracy": dict(zip(told, sides, strict=True)),
        "f1": dict(zip(told, relations, strict=True)),
    }


def _with_ends(prefix: str, values: Floats) -> dict[str, float]:
    return dict(zip((f"{prefix}low", f"{prefix}high"), ends(values), strict=True))


def phrases_of(texts: Sequence[Text], cases: Iterable[Case]) -> list[str]:
    """The relation words of cases, in lower case ("" without)."""
    return ["" if case.words is None else texts[case.text].text[slice(*case.words)].lower() for case in cases]
