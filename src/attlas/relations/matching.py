"""Scoring of extraction: predicted triples against those that people noted, by exact spans or by the paper's lenient match."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from attlas.core.annotations import Relations, Triple
from attlas.language.words import Span

NEAR, NEAR_LONG = (
    0.4,
    0.2,
)  # Jaccard distance of the sets of characters under which two strings match, in sentences and in long texts, as published


@dataclass(frozen=True)
class Found:
    """An extracted triple: spans of the text, the relation, and how sure the two readers are."""

    head: Span
    tail: Span
    words: Span | None
    relation: str
    related: float
    named: float

    @property
    def probability(self) -> float:
        """That it is a triple, and of this relation: as sure as the readers are where a triple stands beside one that is none. Among the many candidates of a text fewer are right."""
        return self.related * self.named

    def record(self, text: str) -> dict[str, Any]:
        """As JSON."""
        words = None if self.words is None else text[slice(*self.words)]
        return {
            "head": text[slice(*self.head)], "relation_words": words, "tail": text[slice(*self.tail)], "relation": self.relation,
            "probability": self.probability, "related": self.related, "named": self.named,
            "spans": {"head": list(self.head), "relation_words": None if self.words is None else list(self.words), "tail": list(self.tail)},
        }  # fmt: skip


Match = Callable[[str, Found, Triple], bool]


def exact(text: str, found: Found, gold: Triple) -> bool:
    """Whether head, tail and relation words are the same characters (relation words only where both have them)."""
    same = found.head == gold.head and found.tail == gold.tail
    return same and (found.words is None or gold.words is None or found.words == gold.words)


def lenient(text: str, found: Found, gold: Triple) -> bool:
    """The paper's match: each part's string within the other's, or of nearly the same set of characters."""
    pairs = [(found.head, gold.head), (found.tail, gold.tail)]
    if found.words is not None and gold.words is not None:
        pairs.append((found.words, gold.words))
    return all(_near(text[slice(*one)].lower(), text[slice(*other)].lower()) for one, other in pairs)


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
    found: Sequence[Sequence[Found]],
    gold: Sequence[Sequence[Triple]],
    match: Match,
    relation: bool = True,
) -> dict[str, Any]:
    """Precision, recall and F1 over all triples, and their means over relations (macro; as the poster's). Without `relation` its id is not compared.

    By spans a triple of the data is found by one prediction at most, and a prediction finds one triple at most; by the lenient match several predictions
    may find the same triple, and each of them counts in recall too (right / (right + missed)), as in the paper's code.
    """
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])  # predictions, right ones, triples, found ones
    once = match is exact
    for text, mine, theirs in zip(texts, found, gold, strict=True):
        hit: set[int] = set()
        for one in mine:
            free = [n for n, triple in enumerate(theirs) if not (once and n in hit) and (not relation or triple.relation == one.relation) and match(text, one, triple)]  # fmt: skip
            hit.update(free[:1] if once else free)
            counts = rows[one.relation if relation or not free else theirs[free[0]].relation]
            counts[0] += 1
            counts[1] += bool(free)
        for n, triple in enumerate(theirs):
            counts = rows[triple.relation]
            counts[2] += 1
            counts[3] += n in hit
    total = [sum(counts[part] for counts in rows.values()) for part in range(4)]
    each = [_three(*counts, once=once) for counts in rows.values() if counts[2]]
    macro = {f"macro_{name}": sum(row[name] for row in each) / max(1, len(each)) for name in ("precision", "recall", "f1")}  # fmt: skip
    return {**_three(*total, once=once), **macro, "predicted": total[0], "gold": total[2]}


def _three(predicted: int, right: int, gold: int, hit: int, *, once: bool = True) -> dict[str, float]:
    precision, recall = right / predicted if predicted else 0.0, hit / gold if gold else 0.0
    if not once:
        recall = right / (right + gold - hit) if right + gold - hit else 0.0
    both = precision + recall
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / both if both else 0.0}


def fact_scores(
    texts: Sequence[str], found: Sequence[Sequence[Found]], gold: Sequence[Relations], known: Collection[str], lenient_: bool = False
) -> dict[str, Any]:  # fmt: skip
    """Precision, recall and F1 of the facts of documents, of the relations that are `known`: head and tail may be any mention of their entities.

    By spans, or by the paper's match of strings. A fact counts once however often it is found. `within` is how many facts have both entities in one sentence,
    which is all that reading sentence by sentence can find.
    """
    predicted = right = hits = total = within = 0
    for text, mine, noted in zip(texts, found, gold, strict=True):
        facts = [fact for fact in noted.facts if fact[2] in known]
        named = [{text[slice(*span)].lower() for span in mentions} for mentions in noted.entities]
        of = [set(mentions) for mentions in noted.entities]
        hit: set[tuple[int, int, str]] = set()

        def is_one(
            span: Span,
            entity: int,
            text: str = text,
            of: list[set[Span]] = of,
            named: list[set[str]] = named,
        ) -> bool:
            return any(_near(text[slice(*span)].lower(), name, NEAR_LONG) for name in named[entity]) if lenient_ else span in of[entity]  # fmt: skip

        for one in mine:
            if one.relation not in known:
                continue
            fits = [
                fact
                for fact in facts
                if fact[2] == one.relation and is_one(one.head, fact[0]) and is_one(one.tail, fact[1])
            ]
            predicted, right = predicted + 1, right + bool(fits)
            hit.update(fits)
        hits, total = hits + len(hit), total + len(set(facts))
        sentence = [[bisect_right(noted.sentences, span[0]) for span in mentions] for mentions in noted.entities]
        within += sum(bool(set(sentence[head]) & set(sentence[tail])) for head, tail, _ in set(facts))
    return {**_three(predicted, right, total, hits), "predicted": predicted, "gold": total, "within": within}
