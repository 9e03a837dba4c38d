"""Which words are in what a notebook stores, also where they are packed."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress


def readable(stored: str) -> str:
    """What is stored, with what is packed in it."""
    out = [stored]
    for packed in re.findall(r"[A-Za-z0-9+/]{24,}={0,2}", stored):
        content = base64.b64decode(packed[: len(packed) // 4 * 4])
        with suppress(zlib.error):
            content = zlib.decompress(content)
        out.append(content.decode("utf-8", "ignore"))
    return " ".join(out)


def words_in(stored: str, words: Iterable[str]) -> set[str]:
    """Those of the words that are stored."""
    content = readable(stored)
    return {word for word in words if word in content}
