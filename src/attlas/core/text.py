"""Text: the unit of a corpus."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attlas.core.annotations import WHERE
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import FingerprintError, Put, feed, random_bytes

_NO_ANNOTATIONS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Text:
    """One text of a corpus: an id, its text (or its words), perhaps a label and annotations.

    With `words`, the text is the words joined by single blanks and the words are kept as given.

    >>> Text("a", words=("The", "cat", "sat"), label="cats").text
    'The cat sat'
    """

    id: str
    text: str = ""
    label: str | None = None
    words: tuple[str, ...] | None = None
    annotations: Mapping[str, Any] = field(default_factory=lambda: _NO_ANNOTATIONS, compare=False)

    def __post_init__(self) -> None:
        if self.words is not None:
            words = tuple(self.words)
            joined = " ".join(words)
            if self.text and self.text != joined:
                raise CorpusError(
                    f"text {self.id!r} has a text that differs from its words joined by blanks; "
                    "give one of them"
                )
            object.__setattr__(self, "words", words)
            object.__setattr__(self, "text", joined)

    @property
    def number(self) -> int:
        """A number made from the text alone: a seed that does not depend on other texts."""
        return zlib.crc32(self.text.encode("utf-8", "replace"))

    @property
    def key(self) -> int:
        """A number below 2**63 made from id and text, to choose texts by, whatever their order."""
        return int.from_bytes(random_bytes((self.id, self.text), 8), "big") >> 1

    def problem(self) -> str | None:
        """Why this text cannot be analysed, or None if it can."""
        if not self.text.strip():
            return "the text is empty"
        if "\0" in self.text:
            return "the text has a NUL byte; remove it"
        for name, part in (
            ("the text", self.text),
            ("its id", self.id),
            ("its label", self.label or ""),
        ):
            if not _is_unicode(part):
                return f"{name} is not valid UTF-8; convert the file to UTF-8"
        if self.words is not None and any(not word.strip() for word in self.words):
            return "one of its words is empty"
        return None


@feed.register
def _(text: Text, put: Put) -> None:
    """Every field, and every annotation under its name, but where it was read."""
    feed(("text", text.id, text.text, text.label, text.words), put)
    for name in sorted(text.annotations):
        if name != WHERE:
            try:
                feed(("annotation", name, text.annotations[name]), put)
            except FingerprintError as error:
                raise FingerprintError(
                    f"annotation {name!r} of text {text.id!r}: {error}"
                ) from error


def _is_unicode(string: str) -> bool:
    """Whether a string has no lone surrogates, which stand for bytes that were no UTF-8."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return False
    return True
