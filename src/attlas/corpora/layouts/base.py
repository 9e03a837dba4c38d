"""Row layouts of annotated datasets, and checks of their fields.

An annotation that does not fit its text is an error of its row; it is never moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np

from attlas.core.annotations import RATIONALE
from attlas.language.words import Span, given_spans
from attlas.support.errors import CorpusError

Fields = Mapping[str, Any]
Spans = tuple[Span, ...]


@dataclass(frozen=True)
class Layout:
    """The layout of a dataset's rows.

    `matches` tests whether a row with the field `text` has this layout. `read` returns a row's text
    (or words) and annotation, `label` its label or None; both raise a CorpusError if the row is
    broken. A row need not have `derived_fields`: they are computed from others.
    """

    annotation: str
    text: str
    matches: Callable[[Fields], bool]
    read: Callable[[Fields], tuple[str | tuple[str, ...], Any]]
    label: Callable[[Fields], Any] = lambda row: row.get("label")
    ids: tuple[str, ...] = ("id",)
    derived_fields: tuple[str, ...] = ()


def detect_layout(row: Fields, layouts: Iterable[Layout], text: str | None = None) -> Layout | None:
    """The first layout that a row matches, unless the `text` column is not the layout's; or None.

    >>> from attlas.corpora.layouts.eraser import ERASER
    >>> row = {"text": "A fine film", "evidences": [[[1, 2]]], "title": "Film"}
    >>> detect_layout(row, [ERASER]) is ERASER, detect_layout(row, [ERASER], text="title")
    (True, None)
    """
    for layout in layouts:
        if layout.text in row and text in (None, layout.text) and layout.matches(row):
            return layout
    return None


def has(*fields: str) -> Callable[[Fields], bool]:
    """A test whether a row has all these fields, and none of them as a string."""
    return lambda row: not any(isinstance(row.get(field, ""), str) for field in fields)


def marked_spans(words: Sequence[str], marked: Sequence[bool]) -> Spans:
    """Character spans of the runs of marked words, in the words joined by single blanks.

    >>> marked_spans(("a", "fine", "film", "indeed"), (False, True, True, False))
    ((2, 11),)
    """
    spans: list[Span] = []
    for index, (start, stop) in enumerate(given_spans(words)):
        if marked[index] and index and marked[index - 1]:
            spans[-1] = (spans[-1][0], stop)
        elif marked[index]:
            spans.append((start, stop))
    return tuple(spans)


def character_spans(row: Fields, text: str) -> Spans | None:
    """The character spans in a row's field `rationale`; None if it has no list there.

    >>> character_spans({"rationale": [[2, 6]]}, "A fine film")
    ((2, 6),)
    """
    if not isinstance(row.get(RATIONALE), list | tuple | np.ndarray):
        return None
    return tuple(
        span_of(pair, RATIONALE, len(text), "characters")
        for pair in items_of(row[RATIONALE], RATIONALE)
    )


def span_of(pair: Any, field: str, size: int, unit: str, whole: str = "text") -> Span:
    """A pair of numbers as a span within `size` characters or tokens of the whole."""
    span = pair_of(pair)
    if span is None:
        raise CorpusError(f"its {field!r} has {short(pair)} instead of a [start, stop] of {unit}")
    start, stop = span
    if not 0 <= start < stop <= size:
        raise CorpusError(
            f"its {field!r} has the span [{start}, {stop}), but the {whole} has {size} {unit}; "
            f"a span must be 0 <= start < stop <= {size}"
        )
    return start, stop


def pair_of(value: Any) -> Span | None:
    """A list, tuple or array of two whole numbers as a pair; None for anything else."""
    ends = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(map(is_whole, ends)):
        return None
    return int(ends[0]), int(ends[1])


def is_whole(number: Any) -> bool:
    """Whether a value is an integer, and not True or False."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def items_of(value: Any, field: str) -> list[Any]:
    """The items of a field that must be a list."""
    if isinstance(value, np.ndarray):
        return list(value)
    if not isinstance(value, list | tuple):
        raise CorpusError(missing({field: value}, field, "list"))
    return list(value)


def mapping_of(item: Any) -> Fields:
    """An item that must be a mapping."""
    if not isinstance(item, Mapping):
        raise CorpusError(f"it is a {type(item).__name__}, not a mapping")
    return item


def missing(row: Fields, field: str, kind: str) -> str:
    """The reason why a field that should be of some kind is refused."""
    if row.get(field) is None:
        return f"it has no {field!r}"
    return f"its {field!r} is a {type(row[field]).__name__}, not a {kind}"


def index_of(fields: Fields, field: str, size: int, unit: str) -> int:
    """A field that must be the number of a sentence or entity."""
    value: Any = fields.get(field)
    if not is_whole(value) or not 0 <= value < size:
        raise CorpusError(
            f"its {field!r} is {short(value)}, but there are {size} {unit}, numbered from 0"
        )
    return int(value)


def string_of(fields: Fields, field: str) -> str:
    """A field that must be a string."""
    value = fields.get(field)
    if not isinstance(value, str):
        raise CorpusError(missing(fields, field, "string"))
    return value


def name_of(fields: Fields, field: str) -> str:
    """A field that must be a non-empty string of valid Unicode."""
    value = string_of(fields, field)
    if not value.strip():
        raise CorpusError(f"its {field!r} is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(f"its {field!r} is not valid UTF-8; convert the file to UTF-8") from error
    return value


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Prefix errors with where they occurred."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"{where}: {error}") from error
