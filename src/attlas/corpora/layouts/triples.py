"""Relations: which phrases of a text stand in which relation, read from the rows of data sets that hold them.

A text's triples are its annotation `relations`. A triple that its text cannot hold is left out and counted in `Relations.lost`; what is
broken in itself is an error of its row. Spans are never moved to fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from reprlib import repr as short
from typing import Any

import numpy as np

from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.corpora.layouts.base import (
    Fields,
    Layout,
    has,
    inside,
    is_whole,
    items_of,
    missing,
    name_of,
    string_of,
)
from attlas.language.locate import REPEATED, Part, located
from attlas.language.words import Span, given_spans
from attlas.support.errors import CorpusError


def trex(row: Fields) -> tuple[str, Relations]:
    """Text and relations of a row with `text` and `triples`: mappings with `head`, `tail`, `relation` and perhaps `relation_words`.

    The form of Chizhikova et al. 2022 for sentences of T-REx, and of users' own files. A phrase is a string that occurs in the text, or a
    pair [start, stop] of characters; `located` says which occurrence is meant.

    >>> trex({"text": "Ann taught Ben.", "triples": [{"head": "Ann", "tail": [11, 14], "relation": "teacher"}]})[1].triples
    (Triple(head=(0, 3), tail=(11, 14), relation='teacher', words=None),)
    """
    text = string_of(row, "text")
    return text, relations_of(listed_triples(text, items_of(row.get("triples"), "triples")))


TREX = Layout(RELATIONS, "text", has("triples"), trex)


def listed_triples(text: str, items: Iterable[Any]) -> Iterator[Triple | str]:
    """The triples of a text as a list of mappings gives them, or why each is lost."""
    for number, item in enumerate(items):
        with inside(f"item {number} of its 'triples'"):
            if not isinstance(item, Mapping):
                raise CorpusError(f"it is a {type(item).__name__}, not a mapping")
            head, tail, words = (_part(item, field) for field in ("head", "tail", "relation_words"))
            if head is None or tail is None:
                raise CorpusError(missing(item, "head" if head is None else "tail", "string"))
            relation = name_of(item, "relation")
        spans = located(text, head, tail, words)
        yield spans if isinstance(spans, str) else Triple(spans[0], spans[1], relation, spans[2])


def _part(item: Fields, field: str) -> Part | None:
    value = item.get(field)
    if value is None or isinstance(value, str):
        return value
    ends = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(map(is_whole, ends)):
        raise CorpusError(
            f"its {field!r} is {short(ends)}; it must be a string, or a span [start, stop] of characters"
        )
    return int(ends[0]), int(ends[1])


def relations_of(
    found: Iterable[Triple | str],
    entities: tuple[tuple[Span, ...], ...] = (),
    facts: tuple[tuple[int, int, str], ...] = (),
    sentences: tuple[int, ...] = (0,),
) -> Relations:
    """Relations of the triples that are not lost, each once, and of what else is known of a document."""
    triples: dict[Triple, None] = {}
    lost: Counter[str] = Counter()
    for one in found:
        if isinstance(one, str) or one in triples:
            lost[one if isinstance(one, str) else REPEATED] += 1
        else:
            triples[one] = None
    return Relations(tuple(triples), entities, facts, sentences, tuple(sorted(lost.items())))


def solid_tokens(tokens: Sequence[Any], field: str) -> tuple[tuple[str, ...], list[Span | None]]:
    """The tokens that are not blank, and for each token its characters in them joined by blanks, None for a blank one."""
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
