"""Scores of what readers answer on a sample: with intervals, by reader and by relation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.relations.fitting import Readers
from attlas.relations.reading import Sample
from attlas.stats.bootstrap import bootstrap, ends
from attlas.stats.scores import (
    balanced_accuracy,
    codes_of,
    confusion,
    f1,
    macro,
    macro_f1,
    precision,
    recall,
)
from attlas.support.arrays import Array as Floats


@dataclass(frozen=True, eq=False)
class Answers:
    """The predictions of readers: for all cases, and for the related ones."""

    text: npt.NDArray[np.int64]  # case: its text
    related: npt.NDArray[np.bool_]  # case
    right: npt.NDArray[np.bool_]  # case: whether `related` was predicted
    gold: npt.NDArray[np.str_]  # related case
    named: npt.NDArray[np.str_]  # related case

    @classmethod
    def by(cls, readers: Readers, features: Floats, of: Sample) -> Answers:
        related, yes = of.related, readers.related_chances(features) >= 0.5
        gold = np.array(of.relations, dtype=np.str_)
        named = readers.named.predict(features[related])
        return cls(of.text_of_case, related, yes == related, gold, named)

    @cached_property
    def _coded(self) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
        """The relations in order, and the codes of gold and predicted ones."""
        return codes_of(self.gold, self.named)

    @property
    def known(self) -> tuple[str, ...]:
        """The gold and predicted relations, in order."""
        return tuple(map(str, self._coded[0]))

    @property
    def answered(self) -> npt.NDArray[np.int64]:
        """Whether each case is predicted to be related: 0 or 1."""
        return (self.related == self.right).astype(np.int64)

    @cached_property
    def table(self) -> npt.NDArray[Any]:
        """The confusion matrix: [gold relation, predicted relation]."""
        gold, named = self._coded[1]
        return confusion(gold, named, len(self.known))

    def scores(self) -> dict[str, float]:
        """Balanced accuracy of related or not; macro precision, recall and F1 of relations."""
        sides = confusion(self.related.astype(np.int64), self.answered, 2)
        table = self.table
        each = {"precision": precision(table), "recall": recall(table), "f1": f1(table)}
        return {
            "binary_accuracy": float(balanced_accuracy(sides)),
            **{name: float(macro(values, table)) for name, values in each.items()},
        }


def intervals(
    answers: Mapping[str, Answers], texts: int, first: str, other: str | None = None, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Scores of several readers of one sample, and by how much the first is better than each.

    Also by how much another is, in columns `both_`. All have 95% intervals of a bootstrap over
    texts, in which all readers see the same texts.
    """
    samples = _resampled(answers, texts, seed)
    points = {name: one.scores() for name, one in answers.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, scores in points.items():
        row = rows[name] = {**scores}
        for score in samples:
            row |= _with_ends(f"{score}_", samples[score][name])
            for reader, prefix in ((first, ""), (other, "both_")):
                if reader is not None:
                    ahead = samples[score][reader] - samples[score][name]
                    row[f"{prefix}{score}_ahead"] = points[reader][score] - scores[score]
                    row |= _with_ends(f"{prefix}{score}_ahead_", ahead)
    return rows


def _resampled(
    answers: Mapping[str, Answers], texts: int, seed: int
) -> dict[str, dict[str, Floats]]:
    """Bootstrap samples of the scores that have intervals, of each reader."""
    one = next(iter(answers.values()))
    sides = bootstrap(
        one.related.astype(np.int64),
        [each.answered for each in answers.values()],
        2,
        balanced_accuracy,
        texts=(one.text, texts),
        seed=seed,
    )
    known, (gold, *named) = codes_of(one.gold, *(each.named for each in answers.values()))
    own = one.text[one.related], texts
    relations = bootstrap(gold, named, len(known), macro_f1, texts=own, seed=seed)
    return {
        "binary_accuracy": dict(zip(answers, sides, strict=True)),
        "f1": dict(zip(answers, relations, strict=True)),
    }


def _with_ends(prefix: str, values: Floats) -> dict[str, float]:
    return dict(zip((f"{prefix}low", f"{prefix}high"), ends(values), strict=True))


def scores_frame(scores: Mapping[str, Mapping[str, Any]], cases: int, texts: int) -> pd.DataFrame:
    """One row per reader: `ahead` is by how much attention, the first, is better."""
    rows = [{"reader": name, **row, "cases": cases, "texts": texts} for name, row in scores.items()]
    return pd.DataFrame(rows)


def each_relation(
    answers: Mapping[str, Answers], names: Mapping[str, str], first: str
) -> pd.DataFrame:
    """Precision, recall and F1 of each relation by the first reader, F1 by the others.

    `taken_for` is the relation that it is most often mistaken for.
    """
    own = answers[first]
    others = {name: _by_relation(one) for name, one in answers.items() if name != first}
    by_relation = _by_relation(own)
    rows = []
    for relation in sorted(set(own.gold.tolist())):
        cases = own.gold == relation
        wrong, counts = np.unique(own.named[cases & (own.named != relation)], return_counts=True)
        rows.append(
            {
                "relation": relation,
                "name": names.get(relation, ""),
                "n": int(cases.sum()),
                **by_relation[relation],
                **{f"f1_{name}": table[relation]["f1"] for name, table in others.items()},
                "taken_for": str(wrong[counts.argmax()]) if len(wrong) else "",
                "taken": int(counts.max()) if len(wrong) else 0,
            }
        )
    return pd.DataFrame(rows)


def _by_relation(answers: Answers) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each relation."""
    table = answers.table
    each = np.stack([precision(table), recall(table), f1(table)], 1).tolist()
    names = ("precision", "recall", "f1")
    return {
        relation: dict(zip(names, row, strict=True))
        for relation, row in zip(answers.known, each, strict=True)
    }
