"""ERASER: texts with the spans that annotators marked as evidence (DeYoung et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from reprlib import repr as short
from typing import Any

from attlas.core.annotations import RATIONALE
from attlas.corpora.layouts.base import (
    Fields,
    Layout,
    Spans,
    has,
    items_of,
    marked_spans,
    span_of,
    string_of,
)
from attlas.language.words import Span
from attlas.support.errors import CorpusError


def eraser(row: Fields) -> tuple[tuple[str, ...], Spans]:
    """Words and rationale of a row with `text` and `evidences`, which are groups of token spans.

    Tokens are the text split at white space; a span is [start, end) or, as released, a mapping with
    `start_token` and `end_token`. All groups are joined, and adjacent evidences are one span.

    >>> released = {"start_token": 2, "end_token": 3}
    >>> eraser({"text": "A fine\\nfilm .", "evidences": [[[1, 2]], [released]]})
    (('A', 'fine', 'film', '.'), ((2, 11),))
    """
    words = tuple(string_of(row, "text").split())
    marked = [False] * len(words)
    for start, stop in _evidences(row, words):
        marked[start:stop] = [True] * (stop - start)
    return words, marked_spans(words, marked)


ERASER = Layout(RATIONALE, "text", has("evidences"), eraser, ids=("id", "annotation_id"))


def _evidences(row: Fields, words: tuple[str, ...]) -> Iterator[Span]:
    """The token spans of all groups; the text of a released evidence must be that of the row."""
    documents = set()
    for group in items_of(row.get("evidences"), "evidences"):
        for evidence in items_of(group, "evidences"):
            released: Fields = evidence if isinstance(evidence, Mapping) else {}
            pair = (
                [released.get("start_token"), released.get("end_token")] if released else evidence
            )
            start, stop = span_of(pair, "evidences", len(words), "tokens")
            _check_text(released.get("text"), words, start, stop)
            documents.update([str(released["docid"])] if "docid" in released else [])
            yield start, stop
    if len(documents) > 1:
        raise CorpusError(
            f"its 'evidences' are of {len(documents)} documents; give each document its own row"
        )


def _check_text(text: Any, words: tuple[str, ...], start: int, stop: int) -> None:
    if isinstance(text, str) and tuple(text.split()) != words[start:stop]:
        raise CorpusError(
            f"its 'evidences' have {short(text)} at tokens [{start}, {stop}), but the text has "
            f"{short(' '.join(words[start:stop]))}; count tokens as text.split() does"
        )
