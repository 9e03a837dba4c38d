"""Where do the sentences of a text begin and end?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attlas.language.lists import word_list
from attlas.language.words import Span, word_spans

LONGEST = 120  # words of a sentence; a longer one is split
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s|$)|[。！？]++[」』”’）]*+")
# a blank line, or a line that opens with a bullet
_PARAGRAPH = re.compile(r"\n[^\S\n]*(?:\n\s*|(?=(?:[-*•]|\d{1,3}[.)])\s))|[\f\u2029]\s*")
_BEFORE_STOP = re.compile(r"[^\s(\[\"“‘'’]*$")
NEVER_LAST = word_list("sentences", "never last")
MAY_BE_LAST = word_list("sentences", "may be last")
_BEFORE_NUMBERS = word_list("sentences", "before a number")
_FIRST = word_list("sentences", "first")


def sentence_spans(text: str) -> list[Span]:
    """The sentences of a plain text, in order.

    Every visible character lies in one; none is blank at an end or longer than `LONGEST` words.

    >>> text = "Dr. A. Smith paid 3.50 dollars. Who knew? Nobody did"
    >>> [text[start:stop] for start, stop in sentence_spans(text)]
    ['Dr. A. Smith paid 3.50 dollars.', 'Who knew?', 'Nobody did']
    """
    cased = any(map(str.isupper, text))
    spans: list[Span] = []
    breaks = [match.span() for match in _PARAGRAPH.finditer(text)]
    for start, stop in _between(text, 0, len(text), breaks):
        stops = _STOP.finditer(text, start, stop)
        ends = [(one.end(), one.end()) for one in stops if _ends(text, one, stop, cased)]
        for span in _between(text, start, stop, ends):
            spans += _shortened(text, *span)
    return spans


def _between(text: str, start: int, stop: int, cuts: Sequence[Span]) -> list[Span]:
    """The spans between cuts of a text, without blanks at their ends and without blank spans."""
    edges = [start, *(edge for cut in cuts for edge in cut), stop]
    spans = []
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        while left < right and text[left].isspace():
            left += 1
        while left < right and text[right - 1].isspace():
            right -= 1
        if left < right:
            spans.append((left, right))
    return spans


def _ends(text: str, match: re.Match[str], stop: int, cased: bool) -> bool:
    """Whether a stop ends its sentence.

    Not after a short form or an initial, and not before a small letter in a text with capitals.
    """
    after = match.end()
    while after < stop and text[after].isspace():
        after += 1
    if after >= stop or match[0][0] in "。！？":
        return True
    if cased and text[after].islower():
        return False
    if not match[0].startswith(".") or match[0].startswith(".."):
        return True
    word = _BEFORE_STOP.search(text, max(0, match.start() - 20), match.start())
    before = word[0] if word else ""
    if before in NEVER_LAST or (before in _BEFORE_NUMBERS and text[after].isdigit()):
        return False
    short = before in MAY_BE_LAST or "." in before[:-1] or (len(before) == 1 and before.isupper())
    return not short or text[after : after + 12].split(None, 1)[0].rstrip(",") in _FIRST


def _shortened(text: str, start: int, stop: int) -> list[Span]:
    """A sentence in parts of at most `LONGEST` words: up to a semicolon, a comma or any word."""
    words = [(start + left, start + right) for left, right in word_spans(text[start:stop])]
    cuts, first = [], 0
    while len(words) - first > LONGEST:
        window = [text[left:right] for left, right in words[first : first + LONGEST]]
        marks = (
            number
            for mark in (";", ",")
            for number in range(LONGEST - 1, LONGEST // 4, -1)
            if window[number] == mark
        )
        first += next(marks, LONGEST - 1) + 1
        cuts.append(words[first - 1][1])
    return _between(text, start, stop, [(cut, cut) for cut in cuts])
