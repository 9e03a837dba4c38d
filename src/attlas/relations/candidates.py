"""Cases: phrases of a text that are related, and others of the same text that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from attlas.core.annotations import Relations, Triple, relations_of
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow, Corpus
from attlas.corpora.read import read
from attlas.corpora.splits import HELD_OUT, split
from attlas.language.phrases import Phrase, phrases
from attlas.language.tagging import Word, tagged
from attlas.language.words import Span
from attlas.support.errors import CorpusError

UNRELATED = ""  # the relation of a case that has none
NOUNS, PREDICATES = (
    ("NOUN", "PROPN", "PRON"),
    ("NOUN", "PROPN", "VERB", "AUX"),
)  # what the paper draws from
TRIES = 40  # for each negative that is asked for


@dataclass(frozen=True)
class Case:
    """Phrases of the text at place `text` of a list; `words` None if they are not looked at."""

    text: int
    head: Span
    tail: Span
    words: Span | None
    relation: str = UNRELATED

    @property
    def spans(self) -> tuple[Span, ...]:
        return (self.head, self.tail) if self.words is None else (self.head, self.tail, self.words)

    @property
    def related(self) -> bool:
        return self.relation != UNRELATED


def related_texts(source: Any) -> list[Text]:
    """Texts with triples, from anything `attlas.read` reads.

    A row that cannot be read is an error, and so is a corpus without any triple.
    """
    corpus = read(source) if not isinstance(source, Corpus) else source
    texts: list[Text] = []
    for row in corpus.rows():
        if isinstance(row, BadRow):
            raise row.error()
        texts.append(row)
    if not any(
        found.triples for text in texts if (found := relations_of(text.annotations)) is not None
    ):
        raise CorpusError(
            f"{corpus.name} has no triples; give rows with `text` and `triples` (head, tail, "
            "relation, perhaps relation_words), FewRel, SemEval-2010 Task 8 or DocRED"
        )
    return texts


def noted(text: Text) -> Relations:
    """The relations of a text; none if nothing was noted."""
    return relations_of(text.annotations) or Relations(())


def has_words(texts: Iterable[Text]) -> bool:
    """Whether every triple of the texts says which words state it."""
    return all(triple.words is not None for text in texts for triple in noted(text).triples)


def lost(texts: Iterable[Text]) -> dict[str, int]:
    """Why triples that were given cannot be used, and how many."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update(dict(noted(text).lost))
    return dict(found)


def gold_cases(texts: Sequence[Text], words: bool) -> list[Case]:
    """The triples of texts, in order; without `words`, each pair of a relation stands once."""
    found: dict[Case, None] = {}
    for place, text in enumerate(texts):
        for triple in noted(text).triples:
            found[
                Case(
                    place,
                    triple.head,
                    triple.tail,
                    triple.words if words else None,
                    triple.relation,
                )
            ] = None
    return list(found)


def drawn_cases(
    texts: Sequence[Text], *, words: bool, count: int, seed: int, published: bool, parser: str
) -> list[Case]:
    """The triples of texts, and `count` negatives for each."""
    gold = gold_cases(texts, words)
    if published:
        gold = first_occurrences(texts, gold)
    return gold + negatives(texts, gold, count, seed, published=published, parser=parser)


def divided(train: list[Text], dev: list[Text] | None, seed: int) -> tuple[list[Text], list[Text]]:
    """Texts to fit on and texts to tune on; without `dev` a fifth of each relation's texts."""
    if dev is None:
        labelled = [replace(text, label=_first_relation(text)) for text in train]
        train, dev = split(labelled, HELD_OUT, seed)
    for part, name in ((train, "learn from"), (dev, "tune on")):
        if not any(noted(text).triples for text in part):
            raise CorpusError(
                f"none of the {len(part)} texts to {name} has a triple; "
                "give more texts, or a file to tune on (--dev)"
            )
    return train, dev


def _first_relation(text: Text) -> str:
    triples = noted(text).triples
    return triples[0].relation if triples else ""


def first_occurrences(texts: Sequence[Text], cases: Sequence[Case]) -> list[Case]:
    """Each phrase moved to where its string first occurs, as the paper's code looks for it."""

    def first(text: str, span: Span) -> Span:
        start = text.index(text[slice(*span)])
        return start, start + span[1] - span[0]

    moved = []
    for case in cases:
        text = texts[case.text].text
        words = None if case.words is None else first(text, case.words)
        moved.append(
            replace(case, head=first(text, case.head), tail=first(text, case.tail), words=words)
        )
    return moved


def apart(*spans: Span) -> bool:
    """Whether no two spans overlap.

    >>> apart((0, 3), (3, 5)), apart((0, 3), (2, 5))
    (True, False)
    """
    ordered = sorted(spans)
    return all(left[1] <= right[0] for left, right in pairwise(ordered))


def same(one: Case, other: Case) -> bool:
    """Whether two cases differ at most in where their phrases begin and end.

    That is, head overlaps head, tail tail, and words words.

    >>> same(Case(0, (0, 3), (9, 12), None), Case(0, (0, 7), (9, 12), None))
    True
    """
    return all(not apart(mine, theirs) for mine, theirs in zip(one.spans, other.spans, strict=True))


Pools = tuple[list[Span], list[Span]]  # what a head or tail, and what relation words may be


def pools(text: str, gold: Sequence[Triple] | Sequence[Case], parser: str = "rules") -> Pools:
    """The phrases that negatives are drawn from: candidates, and those of the own triples."""
    return _pools(phrases(text, parser), gold)


def _pools(found: Sequence[Phrase], gold: Sequence[Triple] | Sequence[Case]) -> Pools:
    nominal = {(phrase.start, phrase.stop) for phrase in found if phrase.kind == "nominal"}
    relational = {(phrase.start, phrase.stop) for phrase in found if phrase.kind == "relational"}
    nominal |= {span for triple in gold for span in (triple.head, triple.tail)}
    relational |= {triple.words for triple in gold if triple.words is not None}
    return sorted(nominal), sorted(relational)


def unit_pools(words: Sequence[Word], gold: Sequence[Case]) -> Pools:
    """The paper's units: words by part of speech, those of a gold phrase joined."""
    phrases_ = {span for case in gold for span in case.spans}
    free = [
        word for word in words if all(apart((word.start, word.stop), span) for span in phrases_)
    ]
    nominal = {(word.start, word.stop) for word in free if word.tag in NOUNS}
    relational = {(word.start, word.stop) for word in free if word.tag in PREDICATES}
    nominal |= {span for case in gold for span in (case.head, case.tail)}
    relational |= {case.words for case in gold if case.words is not None}
    return sorted(nominal), sorted(relational)


def negatives(
    texts: Sequence[Text],
    gold: Sequence[Case],
    count: int,
    seed: int,
    *,
    published: bool = False,
    parser: str = "rules",
) -> list[Case]:
    """For each triple `count` other cases of its text that are not a triple.

    Nor are they one with its phrases delimited otherwise. They are drawn without replacement, and
    fewer where the text has no more. What is drawn depends on the text and the seed alone. As
    published, units are single words and gold phrases, the same may be drawn twice, and a triple of
    the text may be drawn too: the paper's filter never fires.
    """
    by_text: dict[int, list[Case]] = {}
    for case in gold:
        by_text.setdefault(case.text, []).append(case)
    told: dict[str, list[Case]] = {}  # a text of several triples may stand several times
    for case in gold:
        told.setdefault(texts[case.text].text, []).append(case)
    found: list[Case] = []
    for place, mine in by_text.items():
        text = texts[place]
        if published:
            nominal, relational = unit_pools(tagged(text.text), mine)
        else:
            nominal, relational = _sentence_pools(text, mine, parser)
        rng = np.random.default_rng([seed, text.number])
        found += _drawn(
            place, told[text.text], nominal, relational, count * len(mine), rng, again=published
        )
    return found


def _sentence_pools(text: Text, gold: Sequence[Case], parser: str) -> Pools:
    """The pools of a text; in a document those of the sentences that hold a gold phrase."""
    starts = noted(text).sentences
    if len(starts) < 2:
        return pools(text.text, gold, parser)
    ends = [*starts[1:], len(text.text)]
    held = {span for case in gold for span in case.spans}
    found: list[Phrase] = []
    for start, stop in zip(starts, ends, strict=True):
        if any(start <= span[0] < stop for span in held):
            found += [
                replace(phrase, start=phrase.start + start, stop=phrase.stop + start)
                for phrase in phrases(text.text[start:stop], parser)
            ]
    return _pools(found, gold)


def _drawn(
    place: int,
    gold: Sequence[Case],
    nominal: Sequence[Span],
    relational: Sequence[Span],
    count: int,
    rng: np.random.Generator,
    again: bool,
) -> list[Case]:
    """Cases of random phrases that do not overlap; different ones, no triple, unless `again`."""
    worded = gold[0].words is not None
    taken = set() if again else {(case.head, case.tail, case.words) for case in gold}
    found: list[Case] = []
    if len(nominal) < 2 or (worded and not relational):
        return found
    draw: Callable[[int], int] = lambda size: int(rng.integers(size))  # noqa: E731
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        head, tail = nominal[draw(len(nominal))], nominal[draw(len(nominal))]
        words = relational[draw(len(relational))] if worded else None
        key = (head, tail, words)
        case = Case(place, head, tail, words)
        if (
            key in taken
            or not apart(*case.spans)
            or (not again and any(same(case, other) for other in gold))
        ):
            continue
        found.append(case)
        if not again:
            taken.add(key)
    return found
