"""Scoring of extraction: predicted triples against those of the data.

They match by exact spans, or by the lenient match of Chizhikova et al. 2022.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from attlas.core.annotations import Relations, Triple
from attlas.core.text import Text
from attlas.language.words import Span
from attlas.relations.candidates import relations_in
from attlas.stats.scores import retrieval_scores

# Jaccard distance of the sets of characters below which two strings match, as published
NEAR, NEAR_LONG = 0.4, 0.2  # in sentences, in long texts


@dataclass(frozen=True)
class ExtractedTriple:
    """Spans of a text, their relation, and the probabilities of the two readers."""

    head: Span
    tail: Span
    words: Span | None
    relation: str
    related: float
    named: float

    @property
    def probability(self) -> float:
        """The probability that it is a triple, and of this relation.

        It is calibrated for as many triples as unrelated pairs. Among the many candidates of a text
        fewer are right.
        """
        return self.related * self.named

    def record(self, text: str) -> dict[str, Any]:
        """What `--json` prints: strings and spans."""
        spans = {"head": self.head, "relation_words": self.words, "tail": self.tail}
        strings = {
            name: None if span is None else text[slice(*span)] for name, span in spans.items()
        }
        return {
            **strings,
            "relation": self.relation,
            "probability": self.probability,
            "related": self.related,
            "named": self.named,
            "spans": {name: None if span is None else list(span) for name, span in spans.items()},
        }

    def to_json(self) -> list[Any]:
        """All fields, for a cache."""
        return [self.head, self.tail, self.words, self.relation, self.related, self.named]

    @classmethod
    def of_json(cls, fields: Sequence[Any]) -> ExtractedTriple:
        """A triple from what `to_json` gave."""
        head, tail, words, *rest = fields
        return cls(tuple(head), tuple(tail), None if words is None else tuple(words), *rest)


Match = Callable[[str, ExtractedTriple, Triple], bool]


def exact(text: str, one: ExtractedTriple, gold: Triple) -> bool:
    """Whether head, tail and relation words (where both have them) are the same characters."""
    same = one.head == gold.head and one.tail == gold.tail
    return same and (one.words is None or gold.words is None or one.words == gold.words)


def lenient(text: str, one: ExtractedTriple, gold: Triple) -> bool:
    """The published match: each part's string in the other's, or of nearly the same characters."""
    pairs = [(one.head, gold.head), (one.tail, gold.tail)]
    if one.words is not None and gold.words is not None:
        pairs.append((one.words, gold.words))
    return all(_near(text[slice(*a)].lower(), text[slice(*b)].lower()) for a, b in pairs)


def _near(one: str, other: str, most: float = NEAR) -> bool:
    """Whether one string lies in the other, or their sets of characters differ by less than `most`.

    >>> _near("born in", "was born in"), _near("listen", "silent"), _near("Ann", "Bob")
    (True, True, False)
    """
    if one in other or other in one:
        return True
    left, right = set(one), set(other)
    return 1 - len(left & right) / len(left | right) < most


def extraction_scores(
    texts: Sequence[str],
    predicted: Sequence[Sequence[ExtractedTriple]],
    gold: Sequence[Sequence[Triple]],
    match: Match,
    relation: bool = True,
) -> dict[str, Any]:
    """Precision, recall and F1 over all triples, and their means over relations (macro).

    Without `relation` its id is not compared. By spans a triple of the data is found by one
    prediction at most, and a prediction finds one triple at most; by the lenient match several
    predictions may find the same triple, and each of them counts in recall too (right / (right +
    missed)), as in the authors' code.
    """
    once = match is exact
    rows: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by relation
    for text, mine, theirs in zip(texts, predicted, gold, strict=True):
        hit: set[int] = set()
        for one in mine:
            free = [
                n
                for n, triple in enumerate(theirs)
                if not (once and n in hit)
                and (not relation or triple.relation == one.relation)
                and match(text, one, triple)
            ]
            hit.update(free[:1] if once else free)
            counts = rows[one.relation if relation or not free else theirs[free[0]].relation]
            counts["predicted"] += 1
            counts["right"] += bool(free)
        for n, triple in enumerate(theirs):
            counts = rows[triple.relation]
            counts["gold"] += 1
            counts["hit"] += n in hit
    total = sum(rows.values(), start=Counter[str]())
    each = [_scores(counts, once) for counts in rows.values() if counts["gold"]]
    names = ("precision", "recall", "f1")
    macro = {f"macro_{name}": sum(row[name] for row in each) / max(1, len(each)) for name in names}
    return {
        **_scores(total, once),
        **macro,
        "predicted": total["predicted"],
        "gold": total["gold"],
    }


def _scores(counts: Counter[str], once: bool) -> dict[str, float]:
    """Precision, recall and F1 of predictions, `right` or not, and of gold triples, `hit` or not.

    If not `once`, every right prediction counts in recall.
    """
    right, predicted, hit, gold = (counts[name] for name in ("right", "predicted", "hit", "gold"))
    if once:
        return retrieval_scores(right, predicted, hit, gold)
    return retrieval_scores(right, predicted, right, right + gold - hit)


def scores_by_match(
    texts: Sequence[Text], predicted: Sequence[Sequence[ExtractedTriple]]
) -> dict[str, dict[str, Any]]:
    """Extraction by exact spans and by the lenient match, the relation compared.

    Also by the lenient match without comparing the relation, as the poster counts.
    """
    strings, gold = [text.text for text in texts], [relations_in(text).triples for text in texts]
    matches = {
        "exact": (exact, True),
        "published": (lenient, True),
        "published_any_relation": (lenient, False),
    }
    return {
        name: extraction_scores(strings, predicted, gold, match, relation)
        for name, (match, relation) in matches.items()
    }


def fact_scores(
    texts: Sequence[str],
    predicted: Sequence[Sequence[ExtractedTriple]],
    gold: Sequence[Relations],
    known: Collection[str],
    lenient_: bool = False,
) -> dict[str, Any]:
    """Precision, recall and F1 of the facts of documents, of the relations that are `known`.

    Head and tail may be any mention of their entities, by spans, or by the lenient match of
    strings. A fact counts once however often it is found. `within` is how many facts have both
    entities in one sentence, which is all that reading sentence by sentence can find.
    """
    n_predicted = right = hits = total = within = 0
    for text, mine, of_text in zip(texts, predicted, gold, strict=True):
        facts = {fact for fact in of_text.facts if fact[2] in known}
        is_mention = _mentions(text, of_text, lenient_)
        hit: set[tuple[int, int, str]] = set()
        for one in mine:
            if one.relation not in known:
                continue
            fits = [
                fact
                for fact in facts
                if fact[2] == one.relation
                and is_mention(one.head, fact[0])
                and is_mention(one.tail, fact[1])
            ]
            n_predicted, right = n_predicted + 1, right + bool(fits)
            hit.update(fits)
        hits, total = hits + len(hit), total + len(facts)
        sentence = [
            {bisect_right(of_text.sentences, span[0]) for span in mentions}
            for mentions in of_text.entities
        ]
        within += sum(bool(sentence[head] & sentence[tail]) for head, tail, _ in facts)
    scores = retrieval_scores(right, n_predicted, hits, total)
    return {**scores, "predicted": n_predicted, "gold": total, "within": within}


def _mentions(text: str, relations: Relations, near: bool) -> Callable[[Span, int], bool]:
    """Whether a span is a mention of an entity: the same characters, or nearly its string."""
    spans = [set(mentions) for mentions in relations.entities]
    if not near:
        return lambda span, entity: span in spans[entity]
    strings = [{text[slice(*span)].lower() for span in mentions} for mentions in spans]
    return lambda span, entity: any(
        _near(text[slice(*span)].lower(), name, NEAR_LONG) for name in strings[entity]
    )
