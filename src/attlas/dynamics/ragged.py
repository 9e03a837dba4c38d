"""Texts as bags of token numbers: all tokens in one array, with where each text starts; no padding exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.language.words import word_spans
from attlas.support.errors import CorpusError

Numbers = npt.NDArray[np.int64]
Tokenizer = Callable[[str], Sequence[str]]


@dataclass(frozen=True, eq=False)
class Bags:
    """Texts in one array: text t has the tokens `ids[starts[t]:starts[t + 1]]`; `words` are all words known, and a token that is not is numbered behind the last."""

    ids: Numbers  # token
    starts: Numbers  # text + 1
    words: tuple[str, ...]
    states: npt.NDArray[np.float32] | None = (
        None  # token dimension: what a frozen model makes of each token in its text
    )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)

    @property
    def text_of(self) -> Numbers:
        """The text that each token is of."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def places(self, texts: Numbers) -> Numbers:
        """Where the tokens of some texts stand, text after text."""
        lengths = self.lengths[texts]
        first = np.repeat(
            self.starts[texts] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths
        )
        return first + np.arange(int(lengths.sum()))

    def take(self, texts: Numbers) -> Bags:
        """Some of the texts, in the order given."""
        places = self.places(texts)
        states = None if self.states is None else self.states[places]
        return Bags(self.ids[places], starts_of(self.lengths[texts]), self.words, states)

    def counts(self, codes: Numbers, classes: int) -> Numbers:
        """How often each known word occurs in the texts of each class: [word, class]."""
        known = self.ids < len(self.words)
        cells = self.ids[known] * classes + codes[self.text_of[known]]
        return np.bincount(cells, minlength=len(self.words) * classes).reshape(-1, classes)


def starts_of(lengths: Numbers) -> Numbers:
    """Where texts of these lengths start, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def words_of(text: str) -> list[str]:
    """The words of a text and every other visible character, lower-cased.

    >>> words_of("It isn't bad!")
    ['it', "isn't", 'bad', '!']
    """
    lower = text.lower()
    return [lower[start:stop] for start, stop in word_spans(lower)]


def blanks_of(text: str) -> list[str]:
    """What stands between blanks, lower-cased: for texts whose tokens are set apart already.

    >>> blanks_of("It is n't bad .")
    ['it', 'is', "n't", 'bad', '.']
    """
    return text.lower().split()


TOKENIZERS: Mapping[str, Tokenizer] = {"words": words_of, "blanks": blanks_of}


def tokens_of(texts: Iterable[Any], tokenize: Tokenizer) -> list[list[str]]:
    """The tokens of each text; a text is a string, a Text, or a list of tokens, which is taken as it is."""
    if isinstance(texts, str | Text):
        raise CorpusError("a list of texts is wanted; one text alone goes into a list, too")
    out = []
    for number, one in enumerate(texts):
        if isinstance(one, Text):
            found = (
                [word.lower() for word in one.words]
                if one.words is not None
                else list(tokenize(one.text))
            )
        elif isinstance(one, str):
            found = list(tokenize(one))
        elif isinstance(one, Sequence | np.ndarray) and all(
            isinstance(token, str) for token in one
        ):
            found = [str(token) for token in one]
        else:
            raise CorpusError(
                f"text {number} is a {type(one).__name__}; give strings, Texts or lists of tokens"
            )
        if not found:
            name = f"text {one.id!r}" if isinstance(one, Text) else f"text {number}"
            raise CorpusError(f"{name} has no tokens; leave out texts that are empty")
        out.append(found)
    if not out:
        raise CorpusError("there are no texts")
    return out


def vocabulary_of(tokens: Iterable[Sequence[str]], least: int = 1) -> tuple[str, ...]:
    """All tokens that occur at least so often, the most frequent first."""
    counts = Counter(token for text in tokens for token in text)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(token for token, count in ranked if count >= least)


def bagged(tokens: Sequence[Sequence[str]], words: Sequence[str]) -> Bags:
    """Tokens as numbers of known words; tokens that are not known are numbered behind the last."""
    number = {word: place for place, word in enumerate(words)}
    ids = np.fromiter(
        (number.get(token, len(words)) for text in tokens for token in text), dtype=np.int64
    )
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    return Bags(ids, starts_of(lengths), tuple(words))
