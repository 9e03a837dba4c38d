"""How a data set writes down texts with annotations, and checks of its fields.

What does not fit its text is an error of its row, never moved to fit.
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
    """How a data set writes down a text with an annotation: the fields that show it, and how a row is read.

    `shows` says whether a row that has the field `text` is of this layout. `read` gives the text (or its words) and the annotation of a row,
    `label` its label or None; both raise a CorpusError that says what is wrong with the row. `made` are fields that a row may lack because
    they are made from others.
    """

    annotation: str
    text: str
    shows: Callable[[Fields], bool]
    read: Callable[[Fields], tuple[str | tuple[str, ...], Any]]
    label: Callable[[Fields], Any] = lambda row: row.get("label")
    ids: tuple[str, ...] = ("id",)
    made: tuple[str, ...] = ()


def recognised(row: Fields, layouts: Iterable[Layout], text: str | None = None) -> Layout | None:
    """The layout that a row's fields show, or None; another `text` column than the layout's own makes it a row like any other.

    >>> from attlas.corpora.layouts.eraser import ERASER
    >>> recognised({"text": "A fine film", "evidences": [[[1, 2]]]}, [ERASER]) is ERASER
    True
    >>> recognised({"text": "A fine film", "evidences": [[[1, 2]]], "title": "Film"}, [ERASER], text="title")
    """
    fits = (
        one for one in layouts if one.text in row and text in (None, one.text) and one.shows(row)
    )
    return next(fits, None)


def has(*fields: str) -> Callable[[Fields], bool]:
    """Whether a row has some fields, and not as strings: a column of strings is something else."""
    return lambda row: not any(isinstance(row.get(field, ""), str) for field in fields)


def marked_spans(words: Sequence[str], marked: Sequence[bool]) -> Spans:
    """Character spans of the runs of marked words, in the words joined by single blanks: [word] -> [span].

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
    """The character spans in a row's own field `rationale`, checked against its text; None if it has no list there.

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
    """A pair of numbers as a span that lies within `size` characters or tokens of the whole."""
    ends = pair.tolist() if isinstance(pair, np.ndarray) else pair
    if (
        not isinstance(ends, list | tuple)
        or len(ends) != 2
        or not all(is_whole(end) for end in ends)
    ):
        raise CorpusError(
            f"its {field!r} hold {short(ends)} where a span [start, stop] of {unit} must stand"
        )
    start, stop = int(ends[0]), int(ends[1])
    if not 0 <= start < stop <= size:
        raise CorpusError(
            f"its {field!r} hold the span [{start}, {stop}), but the {whole} has {size} {unit}; a span must be 0 <= start < stop <= {size}"
        )
    return start, stop


def is_whole(number: Any) -> bool:
    """Whether a value is a whole number, and not True or False."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def items_of(value: Any, field: str) -> list[Any]:
    """The items of a field that must hold a list."""
    if isinstance(value, np.ndarray):
        return list(value)
    if not isinstance(value, list | tuple):
        raise CorpusError(missing({field: value}, field, "list"))
    return list(value)


def missing(row: Fields, field: str, kind: str) -> str:
    """What is wrong with a field that should be of some kind."""
    if row.get(field) is None:
        return f"it has no {field!r}"
    return f"its {field!r} is a {type(row[field]).__name__}, not a {kind}"


def index_of(fields: Fields, field: str, size: int, unit: str) -> int:
    """The number of one of the sentences or entities."""
    value = fields.get(field)
    if not is_whole(value) or not 0 <= value < size:  # type: ignore[operator]
        raise CorpusError(
            f"its {field!r} is {short(value)}, but there are {size} {unit}, numbered from 0"
        )
    return int(value)  # type: ignore[arg-type]


def string_of(fields: Fields, field: str) -> str:
    """A field that must hold a string."""
    value = fields.get(field)
    if not isinstance(value, str):
        raise CorpusError(missing(fields, field, "string"))
    return value


def name_of(fields: Fields, field: str) -> str:
    """A field that must hold a string that can be shown."""
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
    """Say of an error where it stands."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"{where}: {error}") from error
