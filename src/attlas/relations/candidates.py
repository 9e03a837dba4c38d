"""Cases: phrases of a text that are related, and others of the same text that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from attlas.core.annotations import Relations, Triple, relations_of
from attlas.core.text import Text
from attlas.corpora.read import read
from attlas.corpora.splits import HELD_OUT, split
from attlas.language.phrases import phrases
from attlas.language.tagging import Word, tagged
from attlas.language.words import Span
from attlas.support.errors import CorpusError

UNRELATED = ""  # the relation of a case that has none
NOUNS = ("NOUN", "PROPN", "PRON")  # what Chizhikova et al. 2022 draw heads and tails from
PREDICATES = ("NOUN", "PROPN", "VERB", "AUX")  # and relation words
TRIES = 40  # for each negative


@dataclass(frozen=True)
class Case:
    """A candidate triple: phrases of one text; `words` are None where they are not read."""

    text: int  # its index in a list
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
    corpus = read(source)
    texts = list(corpus)
    if not any(relations_in(text).triples for text in texts):
        raise CorpusError(
            f"{corpus.name} has no triples; give rows with `text` and `triples` (head, tail, "
            "relation, perhaps relation_words), FewRel, SemEval-2010 Task 8 or DocRED"
        )
    return texts


def relations_in(text: Text) -> Relations:
    """The relations of a text; empty if it is not annotated."""
    return relations_of(text.annotations) or Relations(())


def has_words(texts: Iterable[Text]) -> bool:
    """Whether every triple of the texts says which words state it."""
    return all(triple.words is not None for text in texts for triple in relations_in(text).triples)


def count_unusable(texts: Iterable[Text]) -> dict[str, int]:
    """How many triples of the data cannot be used, by reason."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(dict(relations_in(text).lost))
    return dict(counts)


def gold_cases(texts: Sequence[Text], words: bool) -> list[Case]:
    """The triples of texts, in order; without `words`, each pair of a relation once."""
    cases = [
        Case(index, one.head, one.tail, one.words if words else None, one.relation)
        for index, text in enumerate(texts)
        for one in relations_in(text).triples
    ]
    return list(dict.fromkeys(cases))


def draw_cases(
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
        names = ([one.relation for one in relations_in(text).triples] or [""] for text in train)
        labelled = [replace(text, label=own[0]) for text, own in zip(train, names, strict=True)]
        train, dev = split(labelled, HELD_OUT, seed)
    for part, name in ((train, "fit on"), (dev, "tune on")):
        if not any(relations_in(text).triples for text in part):
            raise CorpusError(
                f"none of the {len(part)} texts to {name} has a triple; "
                "give more texts, or texts to tune on (--dev)"
            )
    return train, dev


def first_occurrences(texts: Sequence[Text], cases: Sequence[Case]) -> list[Case]:
    """Each phrase moved to the first occurrence of its string, as in the authors' code."""

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
    """Whether two cases differ at most in the boundaries of their phrases.

    That is, head overlaps head, tail overlaps tail, and words overlap words.

    >>> same(Case(0, (0, 3), (9, 12), None), Case(0, (0, 7), (9, 12), None))
    True
    """
    return all(not apart(mine, theirs) for mine, theirs in zip(one.spans, other.spans, strict=True))


Pools = tuple[list[Span], list[Span]]  # candidate heads and tails, and relation words
Gold = Sequence[Triple] | Sequence[Case]


def pools(text: str, gold: Gold, parser: str = "rules", sentences: Sequence[int] = ()) -> Pools:
    """The phrases that negatives are drawn from: candidates, and those of the text's triples.

    Of a document, whose `sentences` begin at these characters, those with a gold phrase are read.
    """
    several = len(sentences) > 1
    parts = pairwise([*sentences, len(text)]) if several else [(0, len(text))]
    held = {span for one in gold for span in (one.head, one.tail, one.words) if span is not None}
    by_kind: dict[str, set[Span]] = {"nominal": set(), "relational": set()}
    for start, stop in parts:
        if several and not any(start <= span[0] < stop for span in held):
            continue
        for phrase in phrases(text[start:stop], parser):
            by_kind[phrase.kind].add((phrase.start + start, phrase.stop + start))
    return _with_gold(by_kind["nominal"], by_kind["relational"], gold)


def _with_gold(nominal: set[Span], relational: set[Span], gold: Gold) -> Pools:
    nominal = nominal | {span for triple in gold for span in (triple.head, triple.tail)}
    relational = relational | {triple.words for triple in gold if triple.words is not None}
    return sorted(nominal), sorted(relational)


def unit_pools(words: Sequence[Word], gold: Sequence[Case]) -> Pools:
    """The published units: words by part of speech, those of a gold phrase joined."""
    taken = {span for case in gold for span in case.spans}
    free = [word for word in words if all(apart((word.start, word.stop), span) for span in taken)]
    nominal = {(word.start, word.stop) for word in free if word.tag in NOUNS}
    relational = {(word.start, word.stop) for word in free if word.tag in PREDICATES}
    return _with_gold(nominal, relational, gold)


def negatives(
    texts: Sequence[Text],
    gold: Sequence[Case],
    count: int,
    seed: int,
    *,
    published: bool = False,
    parser: str = "rules",
) -> list[Case]:
    """For each triple, `count` other cases of its text that are not a triple.

    Nor do they differ from one in the boundaries of phrases alone. They are drawn without
    replacement, and depend on the text and the seed alone; a text may have fewer. As published,
    units are single words and gold phrases, the same may be drawn twice, and a triple of the text
    may be drawn too: the filter in the authors' code never fires.
    """
    by_text: dict[int, list[Case]] = {}
    by_string: dict[str, list[Case]] = {}  # the same string may be several texts
    for case in gold:
        by_text.setdefault(case.text, []).append(case)
        by_string.setdefault(texts[case.text].text, []).append(case)
    drawn: list[Case] = []
    for index, mine in by_text.items():
        text = texts[index]
        if published:
            spans = unit_pools(tagged(text.text), mine)
        else:
            spans = pools(text.text, mine, parser, relations_in(text).sentences)
        rng = np.random.default_rng([seed, text.number])
        every = by_string[text.text]
        drawn += _draw(index, every, spans, count * len(mine), rng, replacement=published)
    return drawn


def _draw(
    index: int,
    gold: Sequence[Case],
    spans: Pools,
    count: int,
    rng: np.random.Generator,
    replacement: bool,
) -> list[Case]:
    """Cases of random phrases that do not overlap; without `replacement`, distinct non-triples."""
    nominal, relational = spans
    with_words = gold[0].words is not None
    taken: set[tuple[Span, ...]] = set() if replacement else {case.spans for case in gold}
    cases: list[Case] = []
    if len(nominal) < 2 or (with_words and not relational):
        return cases

    def draw(pool: list[Span]) -> Span:
        return pool[int(rng.integers(len(pool)))]

    for _ in range(TRIES * count):
        if len(cases) == count:
            break
        head, tail = draw(nominal), draw(nominal)
        case = Case(index, head, tail, draw(relational) if with_words else None)
        if case.spans in taken or not apart(*case.spans):
            continue
        if not replacement:
            if any(same(case, other) for other in gold):
                continue
            taken.add(case.spans)
        cases.append(case)
    return cases
