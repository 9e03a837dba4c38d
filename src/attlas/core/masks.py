"""Which tokens take part: all, ordinary ones, those of words, or content words."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import torch

from attlas.core.alignment import Words
from attlas.core.batch import Batch
from attlas.language.lists import fold, stopwords
from attlas.support.arrays import Bools, Ints
from attlas.support.errors import MeasureError

KINDS = ("all", "ordinary", "words", "keywords")
_JOINED = frozenset(("Mn", "Mc", "Me", "Cf"))  # marks and invisible characters: part of their word


@dataclass(frozen=True)
class TokenMask:
    """Which tokens take part; a token that does not is dropped, never counted as zero.

    `all` are all tokens, `ordinary` all but special ones, `words` those with a letter or digit,
    `keywords` those of letters only whose word is neither a stop word of the `languages` nor one of
    `words`. Only a token's characters in the text matter.

    >>> from attlas.testing import stream, tiny
    >>> batch = stream(tiny("bert"), ["The dog didn't bark: a cat sat!"])[0][0].batch
    >>> mask = TokenMask(words=("bark",)).mask(batch)[0]
    >>> [token for token, kept in zip(batch.tokens[0], mask) if kept]
    ['dog', 'cat', 'sat']
    """

    kind: str = "keywords"
    languages: tuple[str, ...] = ("en",)
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise MeasureError(
                f"there is no kind of tokens {self.kind!r}; the kinds are {', '.join(KINDS)}"
            )
        for name in ("languages", "words"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        for language in self.languages:
            stopwords(language)

    @classmethod
    def of(cls, mask: str | TokenMask) -> TokenMask:
        """Parse a kind, with languages after a colon if they are not English.

        >>> TokenMask.of("words").kind, TokenMask.of("keywords:de+fr").languages
        ('words', ('de', 'fr'))
        """
        if isinstance(mask, TokenMask):
            return mask
        kind, _, chosen = str(mask).partition(":")
        return cls(kind, tuple(chosen.split("+"))) if chosen else cls(kind)

    @property
    def stopwords(self) -> frozenset[str]:
        """The stop words of all its languages and its own, as they are compared."""
        return frozenset().union(*map(stopwords, self.languages), map(fold, self.words))

    def mask(self, batch: Batch) -> torch.Tensor:
        """Which tokens take part: text token, bool, on the ids' device."""
        return batch.once(
            ("mask", self), lambda: torch.from_numpy(self._mask(batch)).to(batch.ids.device)
        )

    def _mask(self, batch: Batch) -> Bools:
        kept = np.ones_like(batch.special) if self.kind == "all" else ~batch.special
        if self.kind in ("words", "keywords"):
            stops = self.stopwords if self.kind == "keywords" else None
            each = zip(batch.texts, batch.offsets, batch.words, kept, strict=True)
            for text, offsets, words, row in each:
                if stops is None:
                    row &= _of_words(text.text, offsets, words)
                else:
                    row &= _of_content(text.text, offsets, words, stops)
        return kept


def _of_words(text: str, offsets: Ints, words: Words) -> Bools:
    """Which tokens hold a letter or digit, or a mark of a word that does."""
    return np.array(
        [
            any(map(str.isalnum, piece := text[start:stop]))
            or (any(map(_is_joined, piece)) and any(map(str.isalnum, words.strings[word])))
            for (start, stop), word in zip(offsets.tolist(), words.of.tolist(), strict=True)
        ],
        dtype=bool,
    )


def _of_content(text: str, offsets: Ints, words: Words, stops: frozenset[str]) -> Bools:
    """Which tokens are letters only and not (part of) a stop word.

    "c'est" is a stop word because c' and est are; of "l'homme" only l is dropped.
    """
    folded = [fold(word) for word in words.strings]
    stopped = [word in stops or _alone(word, stops) in stops for word in folded]
    kept = np.zeros(len(words.of), dtype=bool)
    tokens = zip(offsets.tolist(), words.of.tolist(), strict=True)
    for token, ((start, stop), word) in enumerate(tokens):
        if not stopped[word]:
            kept[token] = _is_letters(text[start:stop].strip(), words.strings[word]) and not (
                "'" in folded[word] and _is_joined_word(text, start, stop, stops)
            )
    return kept


def _alone(word: str, stops: frozenset[str]) -> str:
    """A word without stop words joined by an apostrophe: l'homme -> homme, film's -> film."""
    before, _, rest = word.partition("'")
    word = rest if rest and f"{before}'" in stops else word
    rest, _, after = word.rpartition("'")
    return rest if rest and f"'{after}" in stops else word


def _is_joined_word(text: str, start: int, stop: int, stops: frozenset[str]) -> bool:
    """Whether a token with its apostrophe is a stop word: the l of l'homme, the s of film's."""
    to_next, to_last = fold(text[start : stop + 1].lstrip()), fold(text[max(start - 1, 0) : stop])
    return (to_next.endswith("'") and to_next in stops) or (
        to_last.startswith("'") and to_last in stops
    )


def _is_letters(piece: str, word: str) -> bool:
    """Whether a token is letters only; combining marks count if the word has a letter."""
    return piece.isalpha() or (
        all(character.isalpha() or _is_joined(character) for character in piece)
        and piece != ""
        and any(map(str.isalpha, word))
    )


def _is_joined(character: str) -> bool:
    return unicodedata.category(character) in _JOINED
