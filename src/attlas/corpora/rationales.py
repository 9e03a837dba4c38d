"""Human rationales: which words people marked as the reason for a text's label, read from the rows of data sets that hold them.

A text's rationale is its annotation `rationale`: (start, stop) character spans of `Text.text`, stop exclusive. () says that nothing was
marked; a text without the annotation was never asked about. What does not fit its text is an error of its row, never moved to fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np

from attlas.core.words import Span, given_spans
from attlas.support.errors import CorpusError

RATIONALE = "rationale"

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

    >>> recognised({"text": "A fine film", "evidences": [[[1, 2]]]}, LAYOUTS) is ERASER
    True
    >>> recognised({"text": "A fine film", "evidences": [[[1, 2]]], "title": "Film"}, LAYOUTS, text="title")
    """
    fits = (one for one in layouts if one.text in row and text in (None, one.text) and one.shows(row))
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
    return tuple(span_of(pair, RATIONALE, len(text), "characters") for pair in items_of(row[RATIONALE], RATIONALE))


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


def hatexplain(row: Fields) -> tuple[tuple[str, ...], Spans]:
    """Words and rationale of a post of HateXplain (Mathew et al. 2021): `post_tokens`, and in `rationales` a list of 0 and 1 for each annotator.

    A word is in the rationale if at least half of the annotators who gave one marked it: one of two, two of three. (The paper's own
    scores take words that anyone marked.) Posts that nobody explained, the normal ones, have the rationale ().

    >>> hatexplain({"post_tokens": ["you", "utter", "walnut"], "rationales": [[0, 1, 1], [0, 0, 1], [0, 0, 1]]})
    (('you', 'utter', 'walnut'), ((10, 16),))
    """
    words = tuple(items_of(row.get("post_tokens"), "post_tokens"))
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word.strip():
            raise CorpusError(f"item {number} of its 'post_tokens' is {short(word)}; each must be a word")
    votes = [items_of(votes, "rationales") for votes in items_of(row.get("rationales"), "rationales")]
    for number, marks in enumerate(votes):
        if len(marks) != len(words):
            raise CorpusError(
                f"item {number} of its 'rationales' has {len(marks)} marks, but the post has {len(words)} words; give one mark a word"
            )
        if not all(isinstance(mark, int | np.integer) and mark in (0, 1) for mark in marks):
            raise CorpusError(f"item {number} of its 'rationales' is {short(marks)}; each mark must be 0 or 1")
    half = [2 * sum(marks) >= len(votes) for marks in zip(*votes, strict=True)] if votes else [False] * len(words)
    return words, marked_spans(words, half)


def majority(row: Fields) -> Any:
    """The label of a post: its `label`, or the one that more than half of its `annotators` gave; None if it has neither.

    >>> majority({"annotators": [{"label": "kind"}, {"label": "rude"}, {"label": "kind"}]})
    'kind'
    """
    if row.get("label") is not None or row.get("annotators") is None:
        return row.get("label")
    annotators = items_of(row["annotators"], "annotators")
    if not all(isinstance(one, Mapping) and one.get("label") is not None for one in annotators):
        raise CorpusError("one of its 'annotators' has no 'label'; give each a label, or give the row one")
    votes = Counter(str(one["label"]) for one in annotators)
    label, count = votes.most_common(1)[0] if votes else (None, 0)
    if 2 * count <= len(annotators):
        said = ", ".join(sorted(votes)) or "none"
        raise CorpusError(f"no label has the majority of its annotators (they gave {said}); leave it out, or label it")
    return label


ERASER = Layout(RATIONALE, "text", has("evidences"), eraser, ids=("id", "annotation_id"))
HATEXPLAIN = Layout(
    RATIONALE, "post_tokens", has("rationales"), hatexplain, majority, ids=("post_id", "id"), made=("label",)
)
LAYOUTS = (ERASER, HATEXPLAIN)


def _evidences(row: Fields, words: tuple[str, ...]) -> Iterator[Span]:
    """The token spans of all groups; where an evidence brings its own text or document, they must be this row's."""
    documents = set()
    for group in items_of(row.get("evidences"), "evidences"):
        for evidence in items_of(group, "evidences"):
            as_released = isinstance(evidence, Mapping)
            pair = [evidence.get("start_token"), evidence.get("end_token")] if as_released else evidence
            start, stop = span_of(pair, "evidences", len(words), "tokens")
            if as_released:
                _same_text(evidence.get("text"), words, start, stop)
                documents.update([str(evidence["docid"])] if "docid" in evidence else [])
            yield start, stop
    if len(documents) > 1:
        raise CorpusError(f"its 'evidences' are of {len(documents)} documents; give each document a row of its own")


def _same_text(text: Any, words: tuple[str, ...], start: int, stop: int) -> None:
    if isinstance(text, str) and tuple(text.split()) != words[start:stop]:
        raise CorpusError(
            f"its 'evidences' say {short(text)} at tokens [{start}, {stop}), but there stands {short(' '.join(words[start:stop]))}; "
            "count tokens as text.split() does"
        )


def span_of(pair: Any, field: str, size: int, unit: str, whole: str = "text") -> Span:
    """A pair of numbers as a span that lies within `size` characters or tokens of the whole."""
    ends = pair.tolist() if isinstance(pair, np.ndarray) else pair
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(is_whole(end) for end in ends):
        raise CorpusError(f"its {field!r} hold {short(ends)} where a span [start, stop] of {unit} must stand")
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
