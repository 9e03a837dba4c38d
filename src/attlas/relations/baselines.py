"""Features that could show a relation without attention: distances, tags, words, vectors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.language.phrases import head_tag
from attlas.language.tagging import Word, tagged
from attlas.language.words import Span
from attlas.models import Model
from attlas.models.vectors import ModelVectors
from attlas.relations.candidates import Case

Floats = npt.NDArray[np.float32]
TAGS = (
    *("NOUN", "PROPN", "PRON", "VERB", "AUX", "ADJ", "ADV", "ADP", "DET"),
    *("NUM", "CCONJ", "SCONJ", "PART", "PUNCT", "SYM", "INTJ", "X", ""),
)
ONE_HOT = dict(zip(TAGS, np.eye(len(TAGS)), strict=True))
GAPS = (-20, -10, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 10, 20)
VOCABULARY = 2000  # words in a bag: those of triples first


@dataclass
class Surface:
    """Features of cases that need no attention; `vocabulary` is that of the training cases."""

    texts: Sequence[Text]
    _words: dict[int, list[Word]] = field(default_factory=dict)
    _ranges: dict[tuple[int, Span], tuple[int, int]] = field(default_factory=dict)

    def words(self, text: int) -> list[Word]:
        """The tagged words of a text."""
        if text not in self._words:
            self._words[text] = tagged(self.texts[text].text)
        return self._words[text]

    def word_range(self, text: int, span: Span) -> tuple[int, int]:
        """The words of a text that a span covers, at least in part: from, up to."""
        if (text, span) not in self._ranges:
            words = self.words(text)
            start = bisect_right(words, span[0], key=lambda word: word.stop)
            stop = bisect_left(words, span[1], key=lambda word: word.start)
            self._ranges[text, span] = start, max(start, stop)
        return self._ranges[text, span]

    def distance(self, cases: Sequence[Case]) -> Floats:
        """How far apart the phrases are in words, in which order, how long, where in the text."""
        return np.array([self._distance(case) for case in cases], dtype=np.float32)

    def _distance(self, case: Case) -> list[float]:
        words = self.words(case.text)
        ranges = [self.word_range(case.text, span) for span in case.spans]
        row: list[float] = [np.log1p(len(words))]
        for number, (start, stop) in enumerate(ranges):
            row += [
                stop - start,
                start / max(1, len(words)),
                float(start == 0),
                float(stop == len(words)),
            ]
            for other_start, other_stop in ranges[number + 1 :]:
                gap = other_start - stop + 1 if other_start >= start else other_stop - start - 1
                row += [float(gap), np.sign(gap) * np.log1p(abs(gap))]
                row += [
                    float(low <= gap < high)
                    for low, high in zip((-999, *GAPS), (*GAPS, 999), strict=True)
                ]
        order = tuple(np.argsort([start for start, _ in ranges], kind="stable").tolist())
        return row + [float(order == other) for other in permutations(range(len(ranges)))]

    def tags(self, cases: Sequence[Case]) -> Floats:
        """Parts of speech: of each phrase's head, of the words next to it, of the words in it."""
        return np.array([self._tags(case) for case in cases], dtype=np.float32)

    def _tags(self, case: Case) -> npt.NDArray[Any]:
        words = self.words(case.text)
        rows = []
        for span in case.spans:
            start, stop = self.word_range(case.text, span)
            before = words[start - 1].tag if start else ""
            after = words[stop].tag if stop < len(words) else ""
            rows += [_one_hot(tag) for tag in (head_tag(words, span), before, after)]
            inside = (_one_hot(word.tag) for word in words[start:stop])
            rows.append(sum(inside, start=np.zeros(len(TAGS))))
        return np.concatenate(rows)

    def strings(self, case: Case) -> list[str]:
        """The content of a bag: the relation words, and the phrase they make.

        Without them, the words between head and tail, and which of the two comes first.
        """
        text = self.texts[case.text].text
        if case.words is not None:
            words = [word.string.lower() for word in self._inside(case.text, case.words)]
            return [*words, f"= {text[slice(*case.words)].lower()}"]
        left, right = sorted((case.head, case.tail))
        order = ["< head first" if case.head == left else "< tail first"]
        return order + [
            word.string.lower() for word in self._inside(case.text, (left[1], right[0]))
        ]

    def _inside(self, text: int, span: Span) -> list[Word]:
        start, stop = self.word_range(text, span)
        return self.words(text)[start:stop] if span[0] < span[1] else []

    def bag(self, cases: Sequence[Case], vocabulary: Mapping[str, int]) -> Floats:
        """Which words of the vocabulary a case holds."""
        bags = np.zeros((len(cases), len(vocabulary)), dtype=np.float32)
        for row, case in enumerate(cases):
            bags[row, [vocabulary[word] for word in self.strings(case) if word in vocabulary]] = 1
        return bags

    def vocabulary(self, cases: Sequence[Case], size: int = VOCABULARY) -> dict[str, int]:
        """The words of cases: those of related ones first, the most frequent first."""
        counts = Counter(word for case in cases for word in set(self.strings(case)))
        of_triples = {word for case in cases if case.related for word in self.strings(case)}
        kept = sorted(counts, key=lambda word: (word not in of_triples, -counts[word], word))[:size]
        return {word: number for number, word in enumerate(kept)}

    def embeddings(self, cases: Sequence[Case], model: Model) -> Floats:
        """The mean of the model's input embeddings over the words of a phrase, out of context."""
        parts = [
            [[word.string for word in self._inside(case.text, span)] for span in case.spans]
            for case in cases
        ]
        known = sorted({word for case in parts for part in case for word in part})
        row = {word: number for number, word in enumerate(known)}
        table = ModelVectors(model).of(known)
        blank = np.zeros(table.shape[1] if table.ndim == 2 else 1, dtype=np.float32)
        means = [
            [table[[row[word] for word in part]].mean(0) if part else blank for part in case]
            for case in parts
        ]
        return np.array([np.concatenate(case) for case in means], dtype=np.float32)


def _one_hot(tag: str) -> npt.NDArray[Any]:
    return ONE_HOT[tag if tag in ONE_HOT else "X"]
