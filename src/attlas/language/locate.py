"""Where in a text are the phrases of a triple?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import regex

from attlas.language.words import Span

# why a triple is excluded
ABSENT, EMPTY, OVERLAP, REPEATED = "not in the text", "empty", "overlap", "repeated"
Part = str | Span  # a phrase that occurs in the text, or its characters
SHORT = 64  # characters of a phrase that is searched for anew after each occurrence
_LETTER = regex.compile(r"[\p{L}\p{M}\p{N}_]")


def located(
    text: str, head: Part, tail: Part, words: Part | None = None
) -> tuple[Span, Span, Span | None] | str:
    """The characters of a triple's phrases in its text, or why it is excluded.

    An occurrence inside a longer word counts only if there is no other. Of all ways to place the
    phrases side by side it is the one of the smallest extent, of several such the earliest.

    >>> located("Ann sat by Anna; Anna taught Ann.", "Anna", "Ann", "taught")
    ((17, 21), (29, 32), (22, 28))
    >>> located("Ann taught Anna.", "Ann", "Ben"), located("Ann taught Anna.", [0, 3], "Ann taught")
    ('not in the text', 'overlap')
    """
    every = []
    for part in (head, tail) if words is None else (head, tail, words):
        spans = _spans(text, part)
        if isinstance(spans, str):
            return spans
        every.append(spans)
    chosen = _tightest(every)
    if chosen is None:
        return OVERLAP
    return chosen[0], chosen[1], None if words is None else chosen[2]


def closest(
    heads: Iterable[Span], tails: Iterable[Span], sentences: Sequence[int] = (0,)
) -> tuple[Span, Span] | None:
    """The pair of mentions (head, tail) that lie closest without overlapping; None if all do.

    In one sentence if possible; of several the earliest. `sentences` are where sentences begin.

    >>> heads, tails = [(0, 3), (20, 23)], [(9, 12), (16, 19)]
    >>> closest(heads, tails), closest(heads, tails, (0, 14, 20))
    (((20, 23), (16, 19)), ((0, 3), (9, 12)))
    """

    def distance(pair: tuple[Span, Span]) -> tuple[bool, int, Span, tuple[Span, Span]]:
        left, right = sorted(pair)
        apart = bisect_right(sentences, left[0]) != bisect_right(sentences, right[0])
        return apart, right[0] - left[1], left, pair

    tails = list(tails)
    pairs = (
        (head, tail) for head in heads for tail in tails if head[1] <= tail[0] or tail[1] <= head[0]
    )
    return min(pairs, key=distance, default=None)


def _spans(text: str, part: Part) -> list[Span] | str:
    """Where a phrase occurs in a text, in order, or why it is excluded."""
    if isinstance(part, str):
        return (_occurrences(text, part) or ABSENT) if part.strip() else EMPTY
    start, stop = part
    if start >= stop:
        return EMPTY
    if start < 0 or stop > len(text):
        return ABSENT
    return [(start, stop)] if text[start:stop].strip() else EMPTY


def _occurrences(text: str, phrase: str) -> list[Span]:
    """Every occurrence of a phrase that is not inside a longer word, or else every one.

    >>> _occurrences("Ann sat by Anna", "Ann"), _occurrences("banana", "ana")
    ([(0, 3)], [(1, 4), (3, 6)])
    """
    spans = [(start, start + len(phrase)) for start in _starts(text, phrase)]
    return [span for span in spans if not any(_is_inside_word(text, end) for end in span)] or spans


def _starts(text: str, phrase: str) -> Iterator[int]:
    """Where a phrase begins in a text, also where occurrences overlap."""
    if len(phrase) > SHORT:
        yield from _long_starts(text, phrase)
        return
    start = text.find(phrase)
    while start >= 0:
        yield start
        start = text.find(phrase, start + 1)


def _long_starts(text: str, phrase: str) -> Iterator[int]:
    """The same in linear time (Knuth, Morris and Pratt 1977), for a phrase that repeats itself.

    >>> list(_long_starts("banana", "ana")), list(_long_starts("aaaa", "aa"))
    ([1, 3], [0, 1, 2])
    """
    borders, matched = [0], 0  # of each prefix: its longest proper prefix that is its suffix
    for letter in phrase[1:]:
        while matched and letter != phrase[matched]:
            matched = borders[matched - 1]
        matched += letter == phrase[matched]
        borders.append(matched)
    matched = 0
    for position, letter in enumerate(text):
        while matched and (matched == len(phrase) or letter != phrase[matched]):
            matched = borders[matched - 1]
        matched += letter == phrase[matched]
        if matched == len(phrase):
            yield position - matched + 1


def _is_inside_word(text: str, end: int) -> bool:
    """Whether there is a letter, digit or underscore on both sides of a phrase's end."""
    return 0 < end < len(text) and all(_LETTER.match(text[at]) for at in (end - 1, end))


def _tightest(every: Sequence[list[Span]]) -> tuple[Span, ...] | None:
    """One span of each list, without overlap and of the smallest extent; None if there are none.

    The spans of a list are in order and equally long.
    """

    def rank(spans: tuple[Span, ...]) -> tuple[int, int, tuple[Span, ...]]:
        start = min(start for start, _ in spans)
        return max(stop for _, stop in spans) - start, start, spans

    choices = (
        tuple(spans[order.index(part)] for part in range(len(every)))
        for order in permutations(range(len(every)))
        for spans in _side_by_side(*(every[part] for part in order))
    )
    return min(choices, key=rank, default=None)


def _side_by_side(
    first: list[Span], second: list[Span], third: list[Span] | None = None
) -> Iterator[tuple[Span, ...]]:
    """For each span of the second list the nearest of the first before and of the third after it.

    No others have the smallest extent.
    """
    stops = [stop for _, stop in first]
    starts = [start for start, _ in third or ()]
    for span in second:
        left, right = bisect_right(stops, span[0]) - 1, bisect_left(starts, span[1])
        if left >= 0 and third is None:
            yield first[left], span
        elif left >= 0 and third is not None and right < len(third):
            yield first[left], span, third[right]
