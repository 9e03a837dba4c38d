"""DocRED and Re-DocRED: facts between entities of documents (Yao et al. 2019, Tan et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.corpora.layouts.base import (
    Fields,
    Layout,
    has,
    index_of,
    inside,
    items_of,
    mapping_of,
    name_of,
    span_of,
)
from attlas.corpora.layouts.triples import characters_of, relations_of, solid_tokens
from attlas.language.locate import OVERLAP, closest
from attlas.language.words import Span
from attlas.support.errors import CorpusError


def docred(row: Fields) -> tuple[tuple[str, ...], Relations]:
    """Words and relations of a row with `sents`, `vertexSet` and `labels`.

    Each fact between entities gives the triple of their closest mentions, in one sentence if
    possible. Without `labels` there are no facts. Blank tokens are skipped.
    """
    sentences = [items_of(sentence, "sents") for sentence in items_of(row.get("sents"), "sents")]
    words, spans = solid_tokens([token for sentence in sentences for token in sentence], "sents")
    firsts = [0, *accumulate(map(len, sentences))]  # sentence: its first token
    entities = []
    for number, entity in enumerate(items_of(row.get("vertexSet"), "vertexSet")):
        with inside(f"entity {number} of its 'vertexSet'"):
            entities.append(_entity(items_of(entity, "mentions"), sentences, firsts, spans))
    begins = [next(filter(None, spans[start:stop]), None) for start, stop in pairwise(firsts)]
    starts = tuple(begin[0] for begin in begins if begin is not None)
    facts = _facts(row, len(entities))
    pairs = [closest(entities[head], entities[tail], starts) for head, tail, _ in facts]
    triples = [
        Triple(*pair, fact[2]) if pair else OVERLAP for pair, fact in zip(pairs, facts, strict=True)
    ]
    return words, relations_of(triples, tuple(entities), tuple(dict.fromkeys(facts)), starts)


DOCRED = Layout(RELATIONS, "sents", has("vertexSet"), docred)


def _entity(
    mentions: list[Any],
    sentences: Sequence[list[Any]],
    firsts: Sequence[int],
    spans: Sequence[Span | None],
) -> tuple[Span, ...]:
    """The mentions of an entity as character spans."""
    if not mentions:
        raise CorpusError("it has no mentions")
    characters = []
    for number, item in enumerate(mentions):
        with inside(f"mention {number}"):
            mention = mapping_of(item)
            sentence = index_of(mention, "sent_id", len(sentences), "sentences")
            size, first = len(sentences[sentence]), firsts[sentence]
            start, stop = span_of(mention.get("pos"), "pos", size, "tokens", "sentence")
            characters.append(characters_of(spans, first + start, first + stop))
    return tuple(characters)


def _facts(row: Fields, entities: int) -> list[tuple[int, int, str]]:
    """The facts (head, tail, relation) in a row's `labels`, if it has any."""
    labels = [] if row.get("labels") is None else items_of(row["labels"], "labels")
    facts = []
    for number, item in enumerate(labels):
        with inside(f"item {number} of its 'labels'"):
            label = mapping_of(item)
            head, tail = (index_of(label, field, entities, "entities") for field in ("h", "t"))
            facts.append((head, tail, name_of(label, "r")))
    return facts
