"""Triples from plain text: phrases are candidates, and two readers score their pairs.

Documents are read sentence by sentence. A linear reader of pairs of phrases is a sum over pairs, so
no vector is made for the thousands of candidates of a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.language.phrases import phrases
from attlas.language.sentences import sentence_spans
from attlas.language.words import Span, word_spans
from attlas.models import Model
from attlas.relations.candidates import relations_in
from attlas.relations.fitting import Readers
from attlas.relations.matching import ExtractedTriple, exact, extraction_scores
from attlas.relations.reading import Setup, as_features, attention_features
from attlas.relations.vectors import CaseVectors, Units, case_vectors, directions_of, read_units

REACH = 40  # words between the phrases of a triple, at most
CHUNK = 384  # sentences of plain text in one chunk
THRESHOLDS = (*(round(0.05 * step, 2) for step in range(1, 20)), 0.97, 0.98, 0.99, 0.995, 0.999)
PUBLISHED_THRESHOLDS = (0.7, 0.2)
Thresholds = tuple[float, float]  # related, named
Floats = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sentence:
    """A sentence with its candidate phrases."""

    index: int  # of its text in the chunk
    start: int  # its first character in the text
    text: str
    nominal: tuple[Span, ...]
    relational: tuple[Span, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.nominal + self.relational


@dataclass(frozen=True)
class Extracted:
    """The triples of each text, and how many phrases the model did not read."""

    triples: list[list[ExtractedTriple]]
    unseen: int  # phrases beyond the tokens that the model reads of a sentence

    def above(self, thresholds: Thresholds) -> Extracted:
        """The triples that reach both thresholds, by probability."""
        triples = [
            sorted(mine, key=lambda one: (-one.probability, one.head, one.tail))
            for mine in reaching(self.triples, thresholds)
        ]
        return replace(self, triples=triples)


def extract_triples(
    work: Workspace,
    model: Model,
    texts: Sequence[Text],
    readers: Readers,
    setup: Setup,
    least: float,
) -> Extracted:
    """The triples of texts that are related with a probability of at least `least`."""
    common = (texts, model, readers, setup, least)
    ranges = list(pairwise(accumulate(map(len, chunks(texts)), initial=0)))  # of each chunk
    parts = work.map(extract_range, ranges, common=common, what="extracting triples")
    triples = [
        [ExtractedTriple.of_json(one) for one in mine] for part in parts for mine in part["triples"]
    ]
    return Extracted(triples, sum(part["unseen"] for part in parts))


def tuned_extraction(
    work: Workspace, model: Model, texts: Sequence[Text], readers: Readers, setup: Setup
) -> tuple[Thresholds, Extracted]:
    """The best thresholds on texts with triples (or the published ones), and what they extract."""
    least = PUBLISHED_THRESHOLDS[0] if setup.published else 0.0
    extracted = extract_triples(work, model, texts, readers, setup, least)
    thresholds = PUBLISHED_THRESHOLDS
    if not setup.published:
        thresholds = best_thresholds(texts, extracted.triples)
    return thresholds, extracted.above(thresholds)


def extract_range(
    span: tuple[int, int],
    texts: Sequence[Text],
    model: Model,
    readers: Readers,
    setup: Setup,
    least: float,
) -> dict[str, Any]:
    """The triples of some texts, as JSON."""
    extracted = extract_chunk(texts[slice(*span)], model, readers, setup, least)
    triples = [[one.to_json() for one in mine] for mine in extracted.triples]
    return {"triples": triples, "unseen": extracted.unseen}


def chunks(texts: Iterable[Text]) -> Iterator[list[Text]]:
    """Texts in groups of about CHUNK sentences, lazily."""
    chunk: list[Text] = []
    count = 0
    for text in texts:
        chunk.append(text)
        count += sum(1 for _ in sentence_spans(text.text))
        if count >= CHUNK:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def extract_chunk(
    texts: Sequence[Text], model: Model, readers: Readers, setup: Setup, least: float
) -> Extracted:
    """The best triples of each text that do not join the same phrases."""
    triples: list[list[ExtractedTriple]] = [[] for _ in texts]
    every = [one for n, text in enumerate(texts) for one in sentences_of(n, text.text, setup)]
    inputs = [(n, Text(str(n), one.text)) for n, one in enumerate(every) if len(one.nominal) > 1]
    spans = {n: one.spans for n, one in enumerate(every)}
    unseen = 0
    for units in read_units(model, inputs, spans, mean=not setup.published):
        sentence = every[units.index]
        unseen += int((~units.seen).sum())
        triples[sentence.index] += best_triples(sentence, units, readers, setup, least)
    return Extracted(triples, unseen)


def sentences_of(index: int, text: str, setup: Setup) -> Iterator[Sentence]:
    """The sentences of a text with their candidates."""
    for start, stop in sentence_spans(text):
        every = phrases(text[start:stop], setup.parser)
        nominal, relational = (
            tuple((one.start, one.stop) for one in every if one.kind == kind)
            for kind in ("nominal", "relational")
        )
        words = relational if setup.relation_words else ()
        yield Sentence(index, start, text[start:stop], nominal, words)


def best_triples(
    sentence: Sentence, units: Units, readers: Readers, setup: Setup, least: float
) -> Iterator[ExtractedTriple]:
    """The candidates of a sentence that are most likely related, each with its relation.

    One that overlaps a more probable one in both head and tail is excluded.
    """
    triples, chances = candidates(sentence, units, readers, setup, least)
    kept = different(units.spans, triples, chances)
    if not kept:
        return
    parts = np.array([triples[number] for number in kept])
    names = readers.named.probabilities(candidate_features(units, parts, setup))
    for number, chances_of in zip(kept, names, strict=True):
        spans = (units.spans[unit] for unit in triples[number])
        head, tail, *words = ((a + sentence.start, b + sentence.start) for a, b in spans)
        best = int(chances_of.argmax())
        yield ExtractedTriple(
            head,
            tail,
            words[0] if words else None,
            readers.named.classes[best],
            float(chances[number]),
            float(chances_of[best]),
        )


def candidate_features(units: Units, parts: Ints, setup: Setup) -> Floats:
    """The features of some candidates: [candidate, part] as units -> [candidate, feature]."""
    vectors = CaseVectors(case_vectors(units.weights, parts), np.ones(len(parts), dtype=bool))
    return attention_features(vectors, setup)


def candidates(
    sentence: Sentence, units: Units, readers: Readers, setup: Setup, least: float
) -> tuple[list[tuple[int, ...]], Floats]:
    """Every head and tail of a sentence with the words that make them most likely related.

    Phrases further apart than REACH are not candidates.
    """
    reader = readers.related
    triples, scores = _scored(
        sentence, units, _pair_scores(units, readers, setup), setup.relation_words
    )
    both = np.array(scores, dtype=np.float64) + float(reader.intercept[1] - reader.intercept[0])
    chances = both
    if len(both):
        chances = reader.calibrated(np.stack([np.zeros_like(both), both], -1))[:, 1]
    chances = np.where(np.isfinite(both), chances, 0.0)
    kept = np.flatnonzero((chances >= least) & (chances > 0))
    return [triples[number] for number in kept], chances[kept]


def _pair_scores(units: Units, readers: Readers, setup: Setup) -> dict[str, Floats]:
    """What each direction adds to the score of a pair of phrases: [unit, unit] by direction."""
    names = setup.read_directions
    values = as_features(units.weights, setup.published)
    coef = (readers.related.coef[1] - readers.related.coef[0]).reshape(len(names), -1)
    scores = {name: values @ coef[number] for number, name in enumerate(names)}
    zero = np.zeros(values.shape[:2], dtype=np.float32)
    return {name: scores.get(name, zero) for name in directions_of(True)}


def _scored(
    sentence: Sentence, units: Units, pair: dict[str, Floats], relation_words: bool
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Every head and tail with its best words, and the score of the three."""
    heads_tails = pair["h-t"] + pair["t-h"].T
    heads_words, words_tails = pair["h-r"] + pair["r-h"].T, pair["r-t"] + pair["t-r"].T
    position = word_numbers(sentence.text, units.spans)
    count = len(sentence.nominal)
    start, stop = np.array(units.spans, dtype=np.int64).reshape(-1, 2).T
    triples: list[tuple[int, ...]] = []
    scores: list[float] = []
    for head in range(count):
        if not units.seen[head]:
            continue
        near = units.seen & (np.abs(position - position[head]) <= REACH)
        near &= (stop <= start[head]) | (start >= stop[head])
        tails, words = np.flatnonzero(near[:count]), np.flatnonzero(near[count:]) + count
        if relation_words and len(words):
            free = (stop[words] <= start[tails][:, None]) | (start[words] >= stop[tails][:, None])
            free &= np.abs(position[words] - position[tails][:, None]) <= REACH
            total = heads_tails[head, tails][:, None] + heads_words[head, words]
            total = total + words_tails[np.ix_(words, tails)].T
            total = np.where(free, total, -np.inf)  # tail words
            best = total.argmax(1)
            pairs = zip(tails, best, strict=True)
            triples += [(head, int(tail), int(words[one])) for tail, one in pairs]
            scores += total[np.arange(len(tails)), best].tolist()
        elif not relation_words:
            triples += [(head, int(tail)) for tail in tails]
            scores += heads_tails[head, tails].tolist()
    return triples, scores


def different(
    spans: Sequence[Span], triples: Sequence[Sequence[int]], chances: Floats
) -> list[int]:
    """Candidates by probability, without those that join the same two phrases again.

    Parts of the phrases, and the other way round, are the same.
    """
    if not triples:
        return []
    pairs = np.array([triple[:2] for triple in triples])
    ends = np.array(spans, dtype=np.int64)[pairs]  # candidate part end
    order = np.argsort(-chances, kind="stable")
    alive, kept = np.ones(len(triples), dtype=bool), []
    for number in order.tolist():
        if not alive[number]:
            continue
        kept.append(number)
        mine = ends[number]  # part end
        before = ends[:, :, None, 0] < mine[None, None, :, 1]
        meets = before & (mine[None, None, :, 0] < ends[:, :, None, 1])
        alive &= ~((meets[:, 0, 0] & meets[:, 1, 1]) | (meets[:, 0, 1] & meets[:, 1, 0]))
    return kept


def word_numbers(text: str, spans: Sequence[Span]) -> Ints:
    """The number of the word at which each span begins."""
    starts = np.array([start for start, _ in word_spans(text)], dtype=np.int64)
    first = np.array([span[0] for span in spans], dtype=np.int64)
    return np.searchsorted(starts, first, side="right")


def reaching(
    triples: Iterable[Sequence[ExtractedTriple]], thresholds: Thresholds
) -> list[list[ExtractedTriple]]:
    """The triples of each text that reach both thresholds."""
    related, named = thresholds
    return [
        [one for one in mine if one.related >= related and one.named >= named] for mine in triples
    ]


def best_thresholds(
    texts: Sequence[Text], triples: Sequence[Sequence[ExtractedTriple]]
) -> Thresholds:
    """The thresholds with the highest F1 of exact spans and relations."""
    gold, strings = [relations_in(text).triples for text in texts], [text.text for text in texts]
    best: tuple[float, Thresholds] = (0.0, (0.5, 0.0))
    for related, named in product(THRESHOLDS, (0.0, *THRESHOLDS[1:18:4], *THRESHOLDS[-6:])):
        kept = reaching(triples, (related, named))
        f1 = extraction_scores(strings, kept, gold, exact)["f1"]
        if f1 > best[0]:
            best = f1, (related, named)
    return best[1]
