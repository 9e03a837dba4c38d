"""Attributions over a corpus: rows per text and token, and which strings score highest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.alignment import word_sums
from attlas.core.states import Accumulator, Rows, Tally
from attlas.explain.corpus import ExplanationsState
from attlas.explain.kinds import ANY, UNIFORM
from attlas.explain.methods import Explained
from attlas.models import Model
from attlas.support.arrays import Array, Floats

Totals = dict[str, tuple[float, dict[str, Floats]]]  # answer: number of texts, totals by string
SHOWN = 500  # strings at each end of a table
SEPARATOR = "\x1f"  # between an answer and a string
FIRST = 2  # column of the first method in the totals, after texts and occurrences


@dataclass(frozen=True)
class Attributions:
    """The scores of all methods: `explanations`, `attributions` and means by string."""

    methods: tuple[str, ...]
    tolerance: float

    def start(self) -> dict[str, Accumulator]:
        return {
            "explanations": Rows.empty(),
            "attributions": Rows.empty(),
            "types": Tally(FIRST + len(self.methods)),
            "answers": Tally(1),
        }

    def add(self, state: ExplanationsState, model: Model, explained: Explained) -> Counter[str]:
        self._add_texts(state, explained)
        self._add_tokens(state, explained)
        self._add_types(state, explained)
        integrated = explained.scores.get("integrated_gradients")
        not_converged = (
            0 if integrated is None else int((~integrated.converged(self.tolerance)).sum())
        )
        return Counter(explained=explained.batch.n_texts, not_converged=not_converged)

    def _add_texts(self, state: ExplanationsState, explained: Explained) -> None:
        """One row per text and method."""
        batch, target, count = explained.batch, explained.target, len(self.methods)
        scores = [explained.scores[method] for method in self.methods]

        def each(values: Iterable[Any], kind: Any = object) -> Array:
            return np.repeat(np.array(list(values), dtype=kind), count)

        def stacked(parts: Iterable[Array]) -> Array:
            return np.stack(list(parts), 1).reshape(-1)

        columns = {
            "text": each(text.id for text in batch.texts),
            "method": np.tile(np.array(self.methods, dtype=object), batch.n_texts),
            "label": each(text.label for text in batch.texts),
            "predicted": each(target.predicted),
            "probability": each(target.probabilities, np.float64),
            "target": each(target.names),
            "of": each([target.of] * batch.n_texts),
            "value": each(explained.values, np.float64),
            "baseline": stacked(one.baseline for one in scores),
            "total": stacked(one.scores.sum(1) for one in scores),
            "gap": stacked(one.gap for one in scores),
            "error": stacked(one.error for one in scores),
            "evaluations": stacked(one.evaluations for one in scores).astype(np.int64),
            "converged": stacked(one.converged(self.tolerance) for one in scores),
        }
        state.explanations.add(np.repeat(np.array(batch.indices), count), columns)

    def _add_tokens(self, state: ExplanationsState, explained: Explained) -> None:
        """One row per token: its scores by each method, and by uniform attention if it has such."""
        batch = explained.batch
        by_method = {method: explained.scores[method] for method in self.methods}
        scores = {method: one.scores for method, one in by_method.items()}
        uniform = {
            f"{method}{UNIFORM}": one.uniform
            for method, one in by_method.items()
            if one.uniform is not None
        }
        columns = {
            name: values.astype(np.float32).reshape(-1)
            for name, values in (scores | uniform).items()
        }
        indices = np.repeat(np.array(batch.indices), batch.n_tokens)
        state.attributions.add(indices, {**batch.token_columns(), **columns})

    def _add_types(self, state: ExplanationsState, explained: Explained) -> None:
        """Each text's scores summed by string, under what the model predicted."""
        batch = explained.batch
        for text in range(batch.n_texts):
            ordinary = ~batch.special[text]
            strings = np.array(batch.surfaces[text], dtype=object)[ordinary]
            known, of = np.unique(strings.astype(str), return_inverse=True)
            scores = [explained.scores[method].scores[text][ordinary] for method in self.methods]
            each = np.column_stack([np.ones(len(of)), np.stack(scores, 1).astype(np.float64)])
            rows = np.column_stack([np.ones(len(known)), word_sums(each, of, len(known))])
            answer = explained.target.predicted[text]
            state.types.add([f"{answer}{SEPARATOR}{string}" for string in known], rows)
            state.answers.add([answer], np.ones((1, 1)))

    def tables(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        totals = _totals(state)
        tables = {"attribution_types": self._types(totals)}
        counts = {answer: texts for answer, (texts, _) in totals.items() if answer != ANY}
        answers = sorted(counts, key=lambda answer: (-counts[answer], answer))[:2]
        if len(answers) == 2:
            tables["attribution_difference"] = self._difference(totals, *answers)
        return tables

    def _types(self, totals: Totals) -> pd.DataFrame:
        """The highest and lowest strings by method and answer, per text and per occurrence."""
        frames = []
        for answer, (texts, by_string) in totals.items():
            strings = np.array(sorted(by_string), dtype=object)
            rows = np.array([by_string[string] for string in strings]).reshape(
                len(strings), FIRST + len(self.methods)
            )
            for column, method in enumerate(self.methods, FIRST):
                frame = pd.DataFrame(
                    {
                        "method": method,
                        "predicted": answer,
                        "string": strings,
                        "texts": rows[:, 0].astype(np.int64),
                        "occurrences": rows[:, 1].astype(np.int64),
                        "mean": rows[:, column] / max(texts, 1),
                        "per_occurrence": rows[:, column] / rows[:, 1],
                    }
                ).sort_values(["mean", "string"], ascending=[False, True], kind="stable")
                frames.append(frame[_extreme(frame["mean"]) | _extreme(frame["per_occurrence"])])
        return pd.concat(frames, ignore_index=True)

    def _difference(self, totals: Totals, left: str, right: str) -> pd.DataFrame:
        """The strings whose means differ most between the two most frequent answers."""
        strings = sorted({*totals[left][1], *totals[right][1]})
        absent = np.zeros(FIRST + len(self.methods))
        left_means, right_means = (
            np.array([by_string.get(string, absent) for string in strings]) / texts
            for texts, by_string in (totals[left], totals[right])
        )
        frames = []
        for column, method in enumerate(self.methods, FIRST):
            ours, theirs = left_means[:, column], right_means[:, column]
            frame = pd.DataFrame(
                {
                    "method": method,
                    "string": strings,
                    "left": left,
                    "right": right,
                    "left_mean": ours,
                    "right_mean": theirs,
                    "difference": ours - theirs,
                }
            ).sort_values(["difference", "string"], ascending=[False, True], kind="stable")
            frames.append(frame[_extreme(frame["difference"])])
        return pd.concat(frames, ignore_index=True)


def _totals(state: ExplanationsState) -> Totals:
    """For any answer and for each: the number of texts, and the totals of each string."""
    answers, counts = state.answers.table()
    totals: Totals = {ANY: (float(counts.sum()), {})}
    totals |= {answer: (float(count[0]), {}) for answer, count in zip(answers, counts, strict=True)}
    over_answers = totals[ANY][1]
    for key, row in zip(*state.types.table(), strict=True):
        answer, _, string = key.partition(SEPARATOR)
        totals[answer][1][string] = row
        over_answers[string] = over_answers[string] + row if string in over_answers else row
    return totals


def _extreme(values: pd.Series[float]) -> pd.Series[bool]:
    """Which values are among the lowest and highest."""
    ranks = values.rank(method="first")
    return (ranks <= SHOWN) | (ranks > len(ranks) - SHOWN)
