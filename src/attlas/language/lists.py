"""Word lists: which words carry no content, and which English words are of which kind?"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attlas.support.errors import MeasureError

_APOSTROPHES = str.maketrans("’ʼ", "''")
_STOPWORDS = Path(__file__).parent / "stopwords"
_ENGLISH = Path(__file__).parent / "english"


@cache
def word_sections(name: str) -> Mapping[str, tuple[str, ...]]:
    """The words of each `[section]` of a file in `english/`, in order; "" if it has no sections.

    >>> word_sections("determiners")["articles"]
    ('a', 'an', 'the')
    """
    words: dict[str, list[str]] = {}
    section = ""
    for line in (_ENGLISH / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and not line.startswith("#"):
            words.setdefault(section, []).extend(line.split())
    return {section: tuple(listed) for section, listed in words.items()}


def word_list(name: str, *sections: str) -> frozenset[str]:
    """The words of some sections of a file in `english/`, by default of all.

    >>> sorted(word_list("determiners", "articles", "always before a noun"))
    ['a', 'an', 'every', 'no', 'the']
    """
    by_section = word_sections(name)
    return frozenset(word for section in sections or by_section for word in by_section[section])


def languages() -> tuple[str, ...]:
    """The languages that have a list of stop words.

    >>> languages()
    ('de', 'en', 'es', 'fr', 'it')
    """
    names = (entry.name for entry in _STOPWORDS.iterdir())
    return tuple(sorted(name.removesuffix(".txt") for name in names if name.endswith(".txt")))


@cache
def stopwords(language: str) -> frozenset[str]:
    """The function words of a language, case-folded; a joined word has its apostrophe.

    >>> sorted(stopwords("en") & {"the", "don't", "'s", "cat"})
    ["'s", "don't", 'the']
    """
    if language not in languages():
        raise MeasureError(
            f"there are no stop words for the language {language!r}; the languages are "
            f"{', '.join(languages())}, or leave it out and give words of your own"
        )
    lines = (_STOPWORDS / f"{language}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def fold(word: str) -> str:
    """A word as stop words are compared: case-folded, accents composed, apostrophes straight.

    >>> fold("DON’T")
    "don't"
    """
    return unicodedata.normalize("NFC", word.casefold()).translate(_APOSTROPHES)
