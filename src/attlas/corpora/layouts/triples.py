"""Relations between phrases of a text, read from rows of datasets.

A text's triples are its annotation `relations`. A triple that does not fit its text is excluded and
counted in `Relations.lost`; a malformed one is an error of its row. Spans are never moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from reprlib import repr as short
from typing import Any

from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.corpora.layouts.base import (
    Fields,
    Layout,
    has,
    inside,
    items_of,
    mapping_of,
    missing,
    name_of,
    pair_of,
    string_of,
)
from attlas.language.locate import REPEATED, Part, located
from attlas.language.words import Span, given_spans
from attlas.support.errors import CorpusError


def trex(row: Fields) -> tuple[str, Relations]:
    """Text and relations of a row with `text` and `triples`.

    The format of Chizhikova et al. 2022 for sentences of T-REx, and of users' own files: mappings
    with `head`, `tail`, `relation` and optionally `relation_words`. A phrase is a string that
    occurs in the text, or a pair [start, stop] of characters; `located` decides between several
    occurrences.

    >>> triple = {"head": "Ann", "tail": [11, 14], "relation": "teacher"}
    >>> trex({"text": "Ann taught Ben.", "triples": [triple]})[1].triples
    (Triple(head=(0, 3), tail=(11, 14), relation='teacher', words=None),)
    """
    text = string_of(row, "text")
    return text, relations_of(listed_triples(text, items_of(row.get("triples"), "triples")))


TREX = Layout(RELATIONS, "text", has("triples"), trex)


def listed_triples(text: str, items: Iterable[Any]) -> Iterator[Triple | str]:
    """The triples in a list of mappings, or why each does not fit its text."""
    for number, item in enumerate(items):
        with inside(f"item {number} of its 'triples'"):
            triple = mapping_of(item)
            head, tail, words = (_part(triple, name) for name in ("head", "tail", "relation_words"))
            if head is None or tail is None:
                raise CorpusError(missing(triple, "head" if head is None else "tail", "string"))
            relation = name_of(triple, "relation")
        spans = located(text, head, tail, words)
        yield spans if isinstance(spans, str) else Triple(spans[0], spans[1], relation, spans[2])


def _part(item: Fields, field: str) -> Part | None:
    value = item.get(field)
    if value is None or isinstance(value, str):
        return value
    span = pair_of(value)
    if span is None:
        expected = "it must be a string, or a span [start, stop] of characters"
        raise CorpusError(f"its {field!r} is {short(value)}; {expected}")
    return span


def relations_of(
    triples: Iterable[Triple | str],
    entities: tuple[tuple[Span, ...], ...] = (),
    facts: tuple[tuple[int, int, str], ...] = (),
    sentences: tuple[int, ...] = (0,),
) -> Relations:
    """Relations of distinct triples; strings are the reasons why others are excluded."""
    unique: dict[Triple, None] = {}
    lost: Counter[str] = Counter()
    for triple in triples:
        if isinstance(triple, str) or triple in unique:
            lost[triple if isinstance(triple, str) else REPEATED] += 1
        else:
            unique[triple] = None
    return Relations(tuple(unique), entities, facts, sentences, tuple(sorted(lost.items())))


def solid_tokens(tokens: Sequence[Any], field: str) -> tuple[tuple[str, ...], list[Span | None]]:
    """The tokens that are not blank, and the character span of each token, None for a blank one."""
    for number, token in enumerate(tokens):
        if not isinstance(token, str):
            raise CorpusError(f"token {number} of its {field!r} is {short(token)}, not a string")
    words = tuple(token for token in tokens if token.strip())
    spans = iter(given_spans(words))
    return words, [next(spans) if token.strip() else None for token in tokens]


def characters_of(spans: Sequence[Span | None], start: int, stop: int) -> Span:
    """The characters of the tokens [start, stop)."""
    solid = [span for span in spans[start:stop] if span is not None]
    if not solid:
        raise CorpusError(f"its tokens [{start}, {stop}) are blank; a mention must have words")
    return solid[0][0], solid[-1][1]
