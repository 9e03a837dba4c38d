"""Which tokens does the model's answer rest on, and does attention say so too?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.alignment import word_sums
from attlas.core.annotations import RATIONALE
from attlas.core.batch import Batch
from attlas.core.masks import Keep
from attlas.core.measure import BatchReport, Measure, Outputs, Shape
from attlas.core.states import Moments, Rows, State, Tally
from attlas.explain.agreement import CONVENTIONS, METRICS, check_options, compare
from attlas.explain.experiment import USUAL, Explain
from attlas.explain.faithfulness import (
    BINS,
    MEASURED,
    Erasing,
    blank,
    erased,
    order_of,
    random_orders,
)
from attlas.explain.importance import importance_grid
from attlas.explain.kinds import ANY as ANY
from attlas.explain.methods import METHODS, Explained, Settings, explain_batch, settings_of
from attlas.explain.plausibility import (
    METRICS as PLAUSIBILITY_METRICS,
    check_options as check_plausibility,
    rationale_words,
    scores_of,
)
from attlas.models import Model
from attlas.stats.chance import RUNS, SHUFFLES
from attlas.stats.intervals import student
from attlas.support.errors import AttlasError, MeasureError
from attlas.support.options import same_option, seed_option

Floats = npt.NDArray[np.float64]
KEEPS = ("all", "ordinary", "keywords")
SHOWN = 500  # types on each end of a table
APART = "\x1f"  # between an answer and a string


@dataclass
class ExplanationsState(State):
    """Rows for each text and token, totals by type, and means over texts."""

    explanations: Rows
    attributions: Rows
    agreement_texts: Rows
    faithfulness_texts: Rows
    plausibility_texts: Rows
    types: Tally  # answer and string: texts, occurrences, a total for each method
    answers: Tally  # answer: texts
    agreement: Moments  # pair: value, chance, difference; metric
    faithfulness: Moments  # how and method: value, random, difference; measured; bin, mean of bins
    plausibility: Moments  # method: value, random, difference; metric


@dataclass(frozen=True, kw_only=True)
class Explanations(Measure[ExplanationsState]):
    """Every text explained by each method; see docs/explain.md for the tables.

    The first method is what the others are compared with, by the size of their scores, on the tokens that each of `keep` keeps, soundly and as published. With `faithfulness` (remove, mask) tokens are taken away to see
    whether the answer rests on them; texts with a rationale are scored against it. The options are those of `attlas.explain.explain`; `share` is that of `plausibility`.
    """

    name: ClassVar[str] = "explanations"
    needs: ClassVar[frozenset[str]] = frozenset({"network"})
    costly: ClassVar[bool] = True
    methods: tuple[str, ...] = USUAL
    target: str | int | None = None
    of: str = "probability"
    position: int | None = same_option(Explain, "position", None)
    baseline: str = "padding"
    at: str = "embeddings"
    tolerance: float = same_option(Explain, "tolerance", 0.01)
    max_evaluations: int = same_option(Explain, "max_evaluations", 500)
    importance: Any = None  # layer head: kept as tuples
    keep: tuple[str, ...] = KEEPS
    p: float = same_option(Explain, "p", 0.9)
    top: float = same_option(Explain, "top", 0.05)
    permutations: int = same_option(Explain, "permutations", SHUFFLES)
    faithfulness: tuple[str, ...] = ()
    bins: tuple[float, ...] = same_option(Explain, "bins", BINS)
    draws: int = same_option(Explain, "draws", RUNS)
    share: float | None = same_option(Explain, "share", None)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        for name in ("methods", "keep", "faithfulness", "bins"):
            given = getattr(self, name)
            object.__setattr__(
                self, name, tuple(given.split("+")) if isinstance(given, str) else _tuple(given)
            )
        super().__post_init__()
        if self.importance is not None and not isinstance(self.importance, tuple):
            grid = importance_grid(self.importance)
            object.__setattr__(
                self,
                "importance",
                None if grid is None else tuple(tuple(map(float, row)) for row in grid),
            )
        if self.at == "parts":
            raise MeasureError(
                "a corpus is explained at the whole embeddings or at words; explain single texts with at='parts'"
            )
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise MeasureError(
                f"the methods are {', '.join(self.methods) or 'none'}; name at least one, each once"
            )
        for method in self.methods:
            METHODS.question(method)
        self.settings, self.erasings, self.kept  # noqa: B018  what cannot be is said at once
        check_options("sound", self.p, self.top, self.permutations, self.seed)
        check_plausibility(self.share, seed=self.seed)

    @cached_property
    def settings(self) -> Settings:
        return settings_of(
            target=self.target,
            of=self.of,
            position=self.position,
            baseline=self.baseline,
            at=self.at,
            tolerance=self.tolerance,
            max_evaluations=self.max_evaluations,
            importance=None if self.importance is None else np.array(self.importance),
            seed=self.seed,
        )

    @cached_property
    def erasings(self) -> list[Erasing]:
        return [Erasing(how, self.bins, self.draws, self.seed) for how in self.faithfulness]

    @cached_property
    def kept(self) -> list[Keep]:
        return [Keep.of(keep) for keep in self.keep]

    @property
    def pairs(self) -> list[tuple[str, str, str, str]]:
        """What is compared: left, right, which tokens, by which convention."""
        return [
            (left, self.methods[0], keep, convention)
            for left in self.methods[1:]
            for keep in self.keep
            for convention in CONVENTIONS
        ]

    def check(self, model: Model, labels: Mapping[str, int] | None = None) -> None:
        self.settings.check(model, self.methods)
        if self.target == "label" and labels is not None and not labels:
            raise MeasureError(
                "the target is 'label', but no text has one; name the column with label=... (--label)"
            )
        if "mask" in self.faithfulness:
            blank(model)

    def start(self, model: Shape) -> ExplanationsState:
        count = len(self.methods)
        return ExplanationsState(
            Rows.empty(),
            Rows.empty(),
            Rows.empty(),
            Rows.empty(),
            Rows.empty(),
            Tally(2 + count),
            Tally(1),
            Moments.zeros(len(self.pairs), 3, len(METRICS)),
            Moments.zeros(len(self.erasings) * count, 3, len(MEASURED), len(self.bins) + 1),
            Moments.zeros(count, 3, len(PLAUSIBILITY_METRICS)),
        )

    def finish_batch(self, state: ExplanationsState, batch: Batch, outputs: Outputs) -> BatchReport:
        model = outputs.network
        try:
            done = explain_batch(model, batch, self.methods, self.settings)
        except AttlasError as error:
            if batch.n_texts == 1:
                return BatchReport(
                    [(batch.places[0], str(error))],
                    Counter(explained=0, unexplained=1, not_converged=0, not_compared=0),
                )
            report = BatchReport()
            for text in range(batch.n_texts):  # one text must not take the others with it
                report.add(self.finish_batch(state, batch[text : text + 1], outputs))
            return report
        self._take_texts(state, done)
        self._take_tokens(state, done)
        self._take_types(state, done)
        compared = self._take_agreement(state, done)
        self._take_faithfulness(state, model, done)
        self._take_plausibility(state, done)
        missed = done.scores.get("integrated_gradients")
        late = 0 if missed is None else int((~missed.converged(self.tolerance)).sum())
        return BatchReport(
            [],
            Counter(
                explained=batch.n_texts,
                unexplained=0,
                not_converged=late,
                not_compared=batch.n_texts - compared if self.pairs else 0,
            ),
        )

    def _take_texts(self, state: ExplanationsState, done: Explained) -> None:
        """A row for each text and method."""
        batch, count = done.batch, len(self.methods)
        scores = [done.scores[method] for method in self.methods]

        def each(values: Iterable[Any], kind: Any = object) -> npt.NDArray[Any]:
            return np.repeat(np.array(list(values), dtype=kind), count)

        def stacked(name: str) -> npt.NDArray[Any]:
            return np.stack([getattr(one, name) for one in scores], 1).reshape(-1)

        columns = {
            "text": each(text.id for text in batch.texts),
            "method": np.tile(np.array(self.methods, dtype=object), batch.n_texts),
            "label": each(text.label for text in batch.texts),
            "predicted": each(done.aim.predicted),
            "probability": each(done.aim.probabilities, np.float64),
            "target": each(done.aim.names),
            "of": each([self.of] * batch.n_texts),
            "value": each(done.values, np.float64),
            "baseline": stacked("baseline"),
            "total": np.stack([one.scores.sum(1) for one in scores], 1).reshape(-1),
            "gap": stacked("gap"),
            "error": stacked("error"),
            "evaluations": stacked("evaluations").astype(np.int64),
            "converged": np.stack([one.converged(self.tolerance) for one in scores], 1).reshape(-1),
        }
        state.explanations.add(np.repeat(np.array(batch.places), count), columns)

    def _take_tokens(self, state: ExplanationsState, done: Explained) -> None:
        """A row for each token."""
        batch = done.batch
        columns = {
            **batch.token_columns(),
            **{
                method: done.scores[method].scores.astype(np.float32).reshape(-1)
                for method in self.methods
            },
        }
        state.attributions.add(np.repeat(np.array(batch.places), batch.n_tokens), columns)

    def _take_types(self, state: ExplanationsState, done: Explained) -> None:
        """Totals by type: a text's scores summed by string, by what the model answered."""
        batch = done.batch
        for text in range(batch.n_texts):
            ordinary = ~batch.special[text]
            strings = np.array(batch.surfaces[text], dtype=object)[ordinary]
            known, of = np.unique(strings.astype(str), return_inverse=True)
            scores = np.stack(
                [done.scores[method].scores[text][ordinary] for method in self.methods], 1
            )
            each = np.column_stack(
                [np.ones(len(of)), scores.astype(np.float64)]
            )  # occurrences, then scores
            rows = np.column_stack([np.ones(len(known)), word_sums(each, of, len(known))])
            answer = done.aim.predicted[text]
            state.types.add([f"{answer}{APART}{string}" for string in known], rows)
            state.answers.add([answer], np.ones((1, 1)))

    def _take_agreement(self, state: ExplanationsState, done: Explained) -> int:
        """Compare every method with the first, by the size of scores; in how many texts that could be done under every mask."""
        batch, sizes = done.batch, {name: np.abs(one.scores) for name, one in done.scores.items()}
        masks = {
            keep: one.mask(batch).cpu().numpy()
            for keep, one in zip(self.keep, self.kept, strict=True)
        }
        whole = 0
        for text in range(batch.n_texts):
            seed = batch.texts[text].number
            found = np.full((len(self.pairs), 2, len(METRICS)), np.nan)
            for number, (left, right, keep, convention) in enumerate(self.pairs):
                found[number] = compare(
                    sizes[left][text],
                    sizes[right][text],
                    masks[keep][text],
                    convention=convention,
                    p=self.p,
                    top=self.top,
                    permutations=self.permutations,
                    seed=(self.seed, seed),
                )
                state.agreement.add(
                    number,
                    np.concatenate([found[number], found[number][:1] - found[number][1:]])[None],
                )
            whole += bool(all(mask[text].sum() > 1 for mask in masks.values()))
            if self.pairs:
                columns = dict(
                    zip(
                        ("left", "right", "keep", "convention"),
                        np.array(self.pairs, dtype=object).T,
                        strict=True,
                    )
                )
                ids = np.full(len(self.pairs), batch.texts[text].id, dtype=object)
                kept = np.array([masks[pair[2]][text].sum() for pair in self.pairs], dtype=np.int64)
                numbers = {
                    f"{metric}{end}": found[:, side, column]
                    for column, metric in enumerate(METRICS)
                    for side, end in enumerate(("", "_chance"))
                }
                state.agreement_texts.add(
                    np.full(len(self.pairs), batch.places[text]),
                    {"text": ids, **columns, "kept": kept, **numbers},
                )
        return whole

    def _take_faithfulness(self, state: ExplanationsState, model: Model, done: Explained) -> None:
        """Take tokens away in the order of each method's scores, and in random orders."""
        batch, count = done.batch, len(self.methods)
        for turn, erasing in enumerate(self.erasings):
            orders = [
                [order_of(done.scores[method].scores[text]) for method in self.methods]
                + random_orders(batch, text, erasing)
                for text in range(batch.n_texts)
            ]
            lost = erased(model, batch, done.aim, orders, erasing)  # text order measured bin
            lost = np.concatenate([lost, lost.mean(-1, keepdims=True)], -1)
            random = lost[:, count:].mean(1)
            for number, method in enumerate(self.methods):
                values = np.stack([lost[:, number], random, lost[:, number] - random], 1)
                state.faithfulness.add(turn * count + number, values)
                columns = {
                    "text": np.array([text.id for text in batch.texts], dtype=object),
                    "how": np.full(batch.n_texts, erasing.how, dtype=object),
                    "method": np.full(batch.n_texts, method, dtype=object),
                    **{
                        f"{name}{end}": part[:, which, -1]
                        for which, name in enumerate(MEASURED)
                        for end, part in (("", lost[:, number]), ("_random", random))
                    },
                }
                state.faithfulness_texts.add(np.array(batch.places), columns)

    def _take_plausibility(self, state: ExplanationsState, done: Explained) -> None:
        """Score the words of texts that have a human rationale against it."""
        batch = done.batch
        for text, one in enumerate(batch.texts):
            if RATIONALE not in one.annotations:
                continue
            marked, words = _marked_words(batch, text)
            if not marked.any() or marked.all():
                continue
            found = []
            for number, method in enumerate(self.methods):
                each = done.scores[method].scores[text].astype(np.float64)
                scores = word_sums(each, batch.words[text].of, len(batch.words[text]))[words]
                values, controls = scores_of(scores, marked, share=self.share, seed=self.seed)
                state.plausibility.add(
                    number, np.stack([values, controls, values - controls])[None]
                )
                found.append(np.stack([values, controls]))
            numbers = {
                f"{metric}{end}": np.array([pair[side, column] for pair in found])
                for column, metric in enumerate(PLAUSIBILITY_METRICS)
                for side, end in enumerate(("", "_random"))
            }
            columns = {
                "text": np.full(len(self.methods), one.id, dtype=object),
                "method": np.array(self.methods, dtype=object),
                "words": np.full(len(self.methods), len(marked)),
                "marked": np.full(len(self.methods), int(marked.sum())),
            }
            state.plausibility_texts.add(
                np.full(len(self.methods), batch.places[text]), {**columns, **numbers}
            )

    def result(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        out = {name: part.frame() for name, part in state.streamed().items() if part.blocks}
        if not state.answers.rows:  # nothing could be explained
            return out
        out |= {"attribution_types": self._types(state)} | self._difference(state)
        if self.pairs:
            out["agreement"] = self._agreement(state)
        if self.erasings:
            out["faithfulness"] = self._faithfulness(state)
        if state.plausibility.count.any():
            out["plausibility"] = self._plausibility(state)
        return out

    def _totals(self, state: ExplanationsState) -> dict[str, tuple[float, dict[str, Floats]]]:
        """By answer, and for any: how many texts, and the totals of each string."""
        answers, counts = state.answers.table()
        out: dict[str, tuple[float, dict[str, Floats]]] = {ANY: (float(counts.sum()), {})}
        out |= {
            answer: (float(count[0]), {}) for answer, count in zip(answers, counts, strict=True)
        }
        keys, totals = state.types.table()
        for key, row in zip(keys, totals, strict=True):
            answer, _, string = key.partition(APART)
            out[answer][1][string] = row
            every = out[ANY][1]
            every[string] = every[string] + row if string in every else row
        return out

    def _types(self, state: ExplanationsState) -> pd.DataFrame:
        """The types that speak most for and most against, by method and answer: means over texts (absent is zero) and by occurrence."""
        frames = []
        for answer, (texts, rows) in self._totals(state).items():
            strings = np.array(sorted(rows), dtype=object)
            totals = np.array([rows[string] for string in strings]).reshape(
                len(strings), 2 + len(self.methods)
            )
            for number, method in enumerate(self.methods):
                frame = pd.DataFrame(
                    {
                        "method": method,
                        "predicted": answer,
                        "string": strings,
                        "texts": totals[:, 0].astype(np.int64),
                        "occurrences": totals[:, 1].astype(np.int64),
                        "mean": totals[:, 2 + number] / max(texts, 1),
                        "per_occurrence": totals[:, 2 + number] / totals[:, 1],
                    }
                ).sort_values(["mean", "string"], ascending=[False, True], kind="stable")
                chosen = frame["mean"].rank(method="first").pipe(_at_the_ends) | frame[
                    "per_occurrence"
                ].rank(method="first").pipe(_at_the_ends)
                frames.append(frame[chosen])
        return pd.concat(frames, ignore_index=True)

    def _difference(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        """Types by how differently they count where the model gave its two most frequent answers."""
        totals = self._totals(state)
        answers = sorted(
            (answer for answer in totals if answer != ANY),
            key=lambda answer: (-totals[answer][0], answer),
        )[:2]
        if len(answers) < 2:
            return {}
        (first, left), (second, right) = (totals[answer] for answer in answers)
        strings = sorted({*left, *right})
        nothing = np.zeros(2 + len(self.methods))
        one, two = (
            np.array([rows.get(string, nothing) for string in strings]) / count
            for count, rows in ((first, left), (second, right))
        )
        frames = []
        for number, method in enumerate(self.methods):
            a, b = one[:, 2 + number], two[:, 2 + number]
            frame = pd.DataFrame(
                {
                    "method": method,
                    "string": strings,
                    "left": answers[0],
                    "right": answers[1],
                    "left_mean": a,
                    "right_mean": b,
                    "difference": a - b,
                }
            )
            frame = frame.sort_values(
                ["difference", "string"], ascending=[False, True], kind="stable"
            )
            frames.append(frame[frame["difference"].rank(method="first").pipe(_at_the_ends)])
        return {"attribution_difference": pd.concat(frames, ignore_index=True)}

    def _agreement(self, state: ExplanationsState) -> pd.DataFrame:
        rows = []
        for number, (left, right, keep, convention) in enumerate(self.pairs):
            for column, metric in enumerate(METRICS):
                names = {
                    "left": left,
                    "right": right,
                    "keep": keep,
                    "convention": convention,
                    "metric": metric,
                    "p": 1.0 if convention == "published" else self.p,
                    "top": self.top,
                }
                rows.append(
                    {**names, **_told(state.agreement, (number, slice(None), column), "chance")}
                )
        return pd.DataFrame(rows)

    def _faithfulness(self, state: ExplanationsState) -> pd.DataFrame:
        """A row for each way, method and number, over all bins (bin 0) and in each."""
        rows = []
        for turn, erasing in enumerate(self.erasings):
            for number, method in enumerate(self.methods):
                for which, measured in enumerate(MEASURED):
                    for place, share in [(-1, 0.0), *enumerate(self.bins)]:
                        names = {
                            "how": erasing.how,
                            "method": method,
                            "measured": measured,
                            "bin": share,
                        }
                        rows.append(
                            {
                                **names,
                                **_told(
                                    state.faithfulness,
                                    (turn * len(self.methods) + number, slice(None), which, place),
                                    "random",
                                ),
                            }
                        )
        return pd.DataFrame(rows)

    def _plausibility(self, state: ExplanationsState) -> pd.DataFrame:
        return pd.DataFrame(
            [
                {
                    "method": method,
                    "metric": metric,
                    **_told(state.plausibility, (number, slice(None), column), "random"),
                }
                for number, method in enumerate(self.methods)
                for column, metric in enumerate(PLAUSIBILITY_METRICS)
            ]
        )


def _told(moments: Moments, where: tuple[Any, ...], control: str) -> dict[str, float]:
    """Value, control and difference from moments [value, control, difference] at a place, the value's and the difference's intervals by Student's t."""
    count, mean, error = moments.count[where], moments.average()[where], moments.error()[where]
    half = error * np.array([student(int(texts)) for texts in count])
    return {
        "value": mean[0],
        control: mean[1],
        "low": mean[0] - half[0],
        "high": mean[0] + half[0],
        "difference": mean[2],
        "difference_low": mean[2] - half[2],
        "difference_high": mean[2] + half[2],
        "texts": int(count[0]),
    }


def _marked_words(batch: Batch, text: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which of the words that the model read people marked, and which of all words those are."""
    alone = batch.by_word(text)
    words = np.flatnonzero(~alone.special[0])
    return rationale_words(
        batch.texts[text].annotations[RATIONALE], alone.offsets[0][words].tolist()
    ), words


def _at_the_ends(ranks: pd.Series[float]) -> pd.Series[bool]:
    """Which of the ranks are among the lowest and highest."""
    return (ranks <= SHOWN) | (ranks > len(ranks) - SHOWN)


def _tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, Iterable) else (given,)
