"""Where do the words of a text begin and end?"""

from __future__ import annotations

from collections.abc import Sequence

import regex

# a CJK or kana character by itself; other letters, marks, joiners and digits together, with inner
# apostrophes; anything else that a reader sees as one
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰﾞﾟ"
_LETTERS = rf"[[\p{{L}}\p{{M}}\p{{Join_Control}}]--[{_CJK}]]"
# a flag is two regional indicators with their marks, as \X has it; over a run of them \X itself
# takes quadratic time, because it counts those before each
_FLAG = r"\p{GCB=RI}{1,2}[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}]*+"
_WORD = regex.compile(
    rf"(?V1)[{_CJK}]\p{{M}}*|(?:{_LETTERS}|[[\p{{N}}_]--[{_CJK}]])+(?:['’]{_LETTERS}+)*"
    rf"|{_FLAG}|(?!\s)\X"
)
Span = tuple[int, int]


def word_spans(text: str) -> list[Span]:
    """Character spans of the words of a text: runs of letters and digits, other visible characters.

    >>> text = "It's 3 o'clock, 世界!"
    >>> [text[start:stop] for start, stop in word_spans(text)]
    ["It's", '3', "o'clock", ',', '世', '界', '!']
    """
    return [match.span() for match in _WORD.finditer(text)]


def given_spans(words: Sequence[str]) -> list[Span]:
    """Character spans of given words joined by single blanks."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans
