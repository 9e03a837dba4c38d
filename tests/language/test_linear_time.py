"""No rule takes more than linear time on hostile strings."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import regex
from hypothesis import given, strategies as st

from attlas.core.alignment import align
from attlas.corpora.layouts.mentions import capitalised, name_head, surface_head
from attlas.corpora.layouts.semeval import semeval
from attlas.language import words
from attlas.language.lists import fold
from attlas.language.locate import SHORT, _long_starts, _starts, located
from attlas.language.phrases import phrases
from attlas.language.sentences import sentence_spans
from attlas.language.tagging import tagged
from attlas.language.words import word_spans
from attlas.measures.parse import parse_names
from attlas.support.errors import AttlasError
from attlas.views.picture import _pieces

PIECES = {
    "brackets": "(",
    "pairs": "[]",
    "dots": ".",
    "stops": ". ",
    "closed": ".)",
    "abbreviations": "Dr. ",
    "states": "U.S. ",
    "initials": "A. ",
    "letter": "a",
    "letters": "a ",
    "digits": "1",
    "numbers": "1,",
    "apostrophes": "'",
    "elisions": "a'",
    "quotes": '"',
    "blanks": " ",
    "lines": "\n",
    "indented": "\n ",
    "bullets": "\n- ",
    "marks": "\u0301",
    "marked": "a\u0301",
    "flags": "\U0001f1e6",
    "joiners": "\u200d",
    "families": "\U0001f468\u200d",
    "jamo": "\u1100",
    "virama": "\u0915\u094d",
    "han": "世",
    "commas": "a, ",
    "dashes": "a-",
    "names": "Ann Smith ",
    "and": "Ann and ",
    "genitives": "Ann's ",
    "that": "that ",
    "dates": "May 1, 1990 ",
    "tags": "<e1>",
}


def _aligned(text: str) -> None:
    offsets = [(place, place + 1) for place in range(len(text))]
    align(text, word_spans(text), offsets, [False] * len(text), list(text))


READERS: dict[str, Callable[[str], Any]] = {
    "words": word_spans,
    "sentences": sentence_spans,
    "tags": tagged,
    "phrases": phrases,
    "fold": fold,
    "located": lambda text: located(text, text[:2], text[1:3]),
    "located, long": lambda text: located(text, text[: len(text) // 2], text[:2]),
    "aligned": _aligned,
    "semeval": lambda text: semeval(
        {"sentence": f"<e1>{text}</e1> <e2>{text}</e2>", "relation": "r"}
    ),
    "mentions": lambda text: (
        [rule(list(text)) for rule in (surface_head, name_head)] and capitalised(list(text), ())
    ),
    "measures": parse_names,
    "pictures": lambda text: _pieces(text, 112),
}


def seconds(read: Callable[[str], Any], text: str) -> float:
    """Processor time of reading a text."""
    began = time.process_time()
    with suppress(AttlasError):
        read(text)
    return time.process_time() - began


def growth(read: Callable[[str], Any], piece: str, small: int, most: float, floor: float) -> float:
    """How much longer ten times the text takes; tried again in case the machine was disturbed."""
    short, long = ((piece * size)[:size] for size in (small, 10 * small))
    found = most
    for _ in range(3):
        found = min(found, seconds(read, long) / max(seconds(read, short), floor))
        if found < most:
            break
    return found


@pytest.mark.parametrize("name", READERS)
def test_ten_times_the_text_takes_about_ten_times_as_long(name: str) -> None:
    for kind, piece in PIECES.items():
        assert growth(READERS[name], piece, 400, 20, floor=0.002) < 20, kind


@pytest.mark.attack
@pytest.mark.parametrize("name", READERS)
def test_a_hundred_thousand_characters(name: str) -> None:
    for kind, piece in PIECES.items():
        assert growth(READERS[name], piece, 10_000, 20, floor=0.01) < 20, kind


def test_flags_are_read_in_linear_time() -> None:
    """Over a run of regional indicators \\X takes quadratic time."""
    assert seconds(word_spans, "\U0001f1e6" * 40_000) < 1


def test_a_phrase_that_repeats_itself_is_found_in_linear_time() -> None:
    text = "a" * 100_000
    assert seconds(lambda text: list(_starts(text, text[:50_000])), text) < 1


GRAPHEMES = st.text(
    st.sampled_from(
        "\U0001f1e6\U0001f1ff\u200d\u0301\u0903\ufe0fa1 \u0600\U0001f468\U0001f3fd世'\r\n."
    )
)
PLAIN = regex.compile(words._WORD.pattern.replace(f"|{words._FLAG}", ""))


@given(GRAPHEMES)
def test_flags_are_what_they_were(text: str) -> None:
    assert word_spans(text) == [match.span() for match in PLAIN.finditer(text)]


@given(st.text("ab", max_size=40), st.text("ab", min_size=1, max_size=6))
def test_long_phrases_are_found_where_short_ones_are(text: str, phrase: str) -> None:
    assert len(phrase) <= SHORT
    assert list(_long_starts(text, phrase)) == list(_starts(text, phrase))
