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
    missing,
    span_of,
)
from attlas.language.words import Span
from attlas.support.errors import CorpusError


def eraser(row: Fields) -> tuple[tuple[str, ...], Spans]:
    """Words and rationale of a row of ERASER (DeYoung et al. 2020): `text`, and `evidences` that are groups of token spans.

    Tokens are the text split at white space; a span is [start, end) or, as released, a mapping with `start_token` and `end_token`. All
    groups are joined, and evidences that touch are one span.

    >>> eraser({"text": "A fine\\nfilm .", "evidences": [[[1, 2]], [{"start_token": 2, "end_token": 3}]]})
    (('A', 'fine', 'film', '.'), ((2, 11),))
    """
    if not isinstance(row.get("text"), str):
        raise CorpusError(missing(row, "text", "string"))
    words = tuple(row["text"].split())
    marked = [False] * len(words)
    for start, stop in _evidences(row, words):
        marked[start:stop] = [True] * (stop - start)
    return words, marked_spans(words, marked)


ERASER = Layout(RATIONALE, "text", has("evidences"), eraser, ids=("id", "annotation_id"))


def _evidences(row: Fields, words: tuple[str, ...]) -> Iterator[Span]:
    """The token spans of all groups; where an evidence brings its own text or document, they must be this row's."""
    documents = set()
    for group in items_of(row.get("evidences"), "evidences"):
        for evidence in items_of(group, "evidences"):
            as_released = isinstance(evidence, Mapping)
            pair = (
                [evidence.get("start_token"), evidence.get("end_token")]
                if as_released
                else evidence
            )
            start, stop = span_of(pair, "evidences", len(words), "tokens")
            if as_released:
                _same_text(evidence.get("text"), words, start, stop)
                documents.update([str(evidence["docid"])] if "docid" in evidence else [])
            yield start, stop
    if len(documents) > 1:
        raise CorpusError(
            f"its 'evidences' are of {len(documents)} documents; give each document a row of its own"
        )


def _same_text(text: Any, words: tuple[str, ...], start: int, stop: int) -> None:
    if isinstance(text, str) and tuple(text.split()) != words[start:stop]:
        raise CorpusError(
            f"its 'evidences' say {short(text)} at tokens [{start}, {stop}), but there stands {short(' '.join(words[start:stop]))}; "
            "count tokens as text.split() does"
        )
