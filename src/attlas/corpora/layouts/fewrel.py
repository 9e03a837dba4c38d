"""FewRel: one relation between two mentions in each sentence (Han et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as short
from typing import Any

from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.corpora.layouts.base import Fields, Layout, has, inside, is_whole, items_of, name_of
from attlas.corpora.layouts.triples import characters_of, relations_of, solid_tokens
from attlas.language.locate import OVERLAP, closest
from attlas.language.words import Span
from attlas.support.errors import CorpusError


def fewrel(row: Fields) -> tuple[tuple[str, ...], Relations]:
    """Words and relation of a row with `tokens`, `relation`, and the entities `h` and `t`.

    Entities are [name, id, [[positions], ...]]. Only positions are read; of several mentions the
    closest pair is used. Blank tokens are skipped.

    >>> head, tail = ["ann", "Q1", [[0]]], ["ben", "Q2", [[3]]]
    >>> row = {"tokens": ["Ann", " ", "taught", "Ben"], "h": head, "t": tail, "relation": "P1"}
    >>> words, relations = fewrel(row)
    >>> words, relations.triples[0].head, relations.triples[0].tail
    (('Ann', 'taught', 'Ben'), (0, 3), (11, 14))
    """
    words, spans = solid_tokens(items_of(row.get("tokens"), "tokens"), "tokens")
    pair = closest(_mentions(row, "h", spans), _mentions(row, "t", spans))
    relation = name_of(row, "relation")
    return words, relations_of([Triple(*pair, relation) if pair else OVERLAP])


FEWREL = Layout(RELATIONS, "tokens", has("h", "t"), fewrel)


def _mentions(row: Fields, field: str, spans: Sequence[Span | None]) -> list[Span]:
    """The mentions in `h` or `t`."""
    entity = items_of(row.get(field), field)
    mentions = items_of(entity[2], field) if len(entity) == 3 else []
    if not mentions:
        raise CorpusError(
            f"its {field!r} is {short(entity)}; it must be [name, id, [[token positions], ...]]"
        )
    with inside(f"its {field!r}"):
        return [
            characters_of(spans, *_run(items_of(positions, field), len(spans)))
            for positions in mentions
        ]


def _run(positions: list[Any], size: int) -> Span:
    """Consecutive positions as a span [start, stop) of tokens."""
    if not positions or not all(map(is_whole, positions)):
        raise CorpusError(f"it has {short(positions)} instead of token positions")
    start, stop = int(positions[0]), int(positions[-1]) + 1
    if not 0 <= start < stop <= size:
        raise CorpusError(
            f"it has the positions {short(positions)}, but the text has {size} tokens"
        )
    if [int(position) for position in positions] != list(range(start, stop)):
        raise CorpusError(f"it has the positions {short(positions)}, which are not consecutive")
    return start, stop
