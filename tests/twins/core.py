"""Slow twins of masks."""

from __future__ import annotations

import unicodedata

from attlas.core.batch import Batch


def of_content_slowly(batch: Batch, stops: frozenset[str]) -> list[bool]:
    """Of one text without apostrophes: letters only, of a word with a letter that is no stop
    word."""
    out = []
    for token, (start, stop) in enumerate(batch.offsets[0].tolist()):
        word = batch.words[0].strings[batch.words[0].of[token]]
        piece = batch.texts[0].text[start:stop].strip()
        letters = [
            unicodedata.category(character)[0] in "LM" or unicodedata.category(character) == "Cf"
            for character in piece
        ]
        has_letter = any(unicodedata.category(character)[0] == "L" for character in piece + word)
        composed = unicodedata.normalize("NFC", word.casefold())
        out.append(
            not batch.special[0, token]
            and bool(letters)
            and all(letters)
            and has_letter
            and composed not in stops
        )
    return out
