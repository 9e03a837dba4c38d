"""Plausibility over a corpus: scores of words against human rationales, where texts have one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attlas.core.alignment import word_sums
from attlas.core.annotations import RATIONALE
from attlas.core.batch import Batch
from attlas.core.states import Accumulator, Moments, Rows
from attlas.explain.corpus import ExplanationsState
from attlas.explain.estimate import estimate_at, number_columns, with_difference
from attlas.explain.methods import Explained
from attlas.explain.plausibility import METRICS, rationale_words, scores_of
from attlas.models import Model
from attlas.support.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class PlausibilityOverTexts:
    """Each method's scores of words against the words that people marked."""

    methods: tuple[str, ...]
    share: float | None
    seed: int

    def start(self) -> dict[str, Accumulator]:
        moments = Moments.zeros(len(self.methods), 3, len(METRICS))
        return {"plausibility_texts": Rows.empty(), "plausibility": moments}

    def add(self, state: ExplanationsState, model: Model, explained: Explained) -> Counter[str]:
        batch = explained.batch
        for text, one in enumerate(batch.texts):
            if RATIONALE not in one.annotations:
                continue
            marked, words = _marked_words(batch, text)
            if not marked.any() or marked.all():
                continue
            values = np.stack(
                [
                    scores_of(scores[words], marked, share=self.share, seed=self.seed)
                    for scores in self._word_scores(explained, text)
                ]
            )  # method, value or control, metric
            for number, (value, control) in enumerate(values):
                state.plausibility.add(number, with_difference(value, control)[None])
            count = len(self.methods)
            columns = {
                "text": np.full(count, one.id, dtype=object),
                "method": np.array(self.methods, dtype=object),
                "words": np.full(count, len(marked)),
                "marked": np.full(count, int(marked.sum())),
                **number_columns(METRICS, values, "random"),
            }
            state.plausibility_texts.add(np.full(count, batch.indices[text]), columns)
        return Counter()

    def _word_scores(self, explained: Explained, text: int) -> list[Floats]:
        """Each method's scores of all words of a text, the sums of their tokens'."""
        words = explained.batch.words[text]
        return [
            word_sums(
                explained.scores[method].scores[text].astype(np.float64), words.of, len(words)
            )
            for method in self.methods
        ]

    def tables(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        if not state.plausibility.count.any():
            return {}
        rows = [
            {
                "method": method,
                "metric": metric,
                **estimate_at(state.plausibility, (number, slice(None), column)).row("random"),
            }
            for number, method in enumerate(self.methods)
            for column, metric in enumerate(METRICS)
        ]
        return {"plausibility": pd.DataFrame(rows)}


def _marked_words(batch: Batch, text: int) -> tuple[Bools, Ints]:
    """Which of the words that the model read people marked, and which of all words those are."""
    alone = batch.by_word(text)
    words = np.flatnonzero(~alone.special[0])
    spans = batch.texts[text].annotations[RATIONALE]
    return rationale_words(spans, alone.offsets[0][words].tolist()), words
