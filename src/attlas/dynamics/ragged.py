"""Ragged texts: the token numbers of all texts in one array, without padding."""

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
class RaggedTexts:
    """Texts in one array: text t has the tokens `ids[starts[t]:starts[t + 1]]`.

    Numbers are indices into `words`; unknown tokens have the number `len(words)`.
    """

    ids: Numbers  # token
    starts: Numbers  # text + 1
    words: tuple[str, ...]
    states: npt.NDArray[np.float32] | None = None  # token dimension: of a frozen model

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)

    @property
    def text_of(self) -> Numbers:
        """The text of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def positions(self, texts: Numbers) -> Numbers:
        """The indices of the tokens of some texts, text after text."""
        lengths = self.lengths[texts]
        first = np.repeat(
            self.starts[texts] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths
        )
        return first + np.arange(int(lengths.sum()))

    def take(self, texts: Numbers) -> RaggedTexts:
        """Some of the texts, in the order given."""
        positions = self.positions(texts)
        states = None if self.states is None else self.states[positions]
        return RaggedTexts(self.ids[positions], starts_of(self.lengths[texts]), self.words, states)

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
    """Split at blanks and lower-case: for texts that are already tokenised.

    >>> blanks_of("It is n't bad .")
    ['it', 'is', "n't", 'bad', '.']
    """
    return text.lower().split()


TOKENIZERS: Mapping[str, Tokenizer] = {"words": words_of, "blanks": blanks_of}


def tokens_of(texts: Iterable[Any], tokenize: Tokenizer) -> list[list[str]]:
    """The tokens of each text: a string, a Text, or a list of tokens, which stays as it is."""
    if isinstance(texts, str | Text):
        raise CorpusError("expected a list of texts, got one text; put it in a list")
    out = []
    for number, one in enumerate(texts):
        if isinstance(one, Text) and one.words is not None:
            tokens = [word.lower() for word in one.words]
        elif isinstance(one, Text | str):
            tokens = list(tokenize(one if isinstance(one, str) else one.text))
        elif isinstance(one, Sequence | np.ndarray) and all(
            isinstance(token, str) for token in one
        ):
            tokens = [str(token) for token in one]
        else:
            raise CorpusError(
                f"text {number} is a {type(one).__name__}; give strings, Texts or lists of tokens"
            )
        if not tokens:
            name = f"text {one.id!r}" if isinstance(one, Text) else f"text {number}"
            raise CorpusError(f"{name} has no tokens; remove empty texts")
        out.append(tokens)
    if not out:
        raise CorpusError("there are no texts")
    return out


def vocabulary_of(tokens: Iterable[Sequence[str]], least: int = 1) -> tuple[str, ...]:
    """All tokens that occur at least `least` times, the most frequent first."""
    counts = Counter(token for text in tokens for token in text)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(token for token, count in ranked if count >= least)


def to_ragged(tokens: Sequence[Sequence[str]], words: Sequence[str]) -> RaggedTexts:
    """Number the tokens of texts by their index in `words`; unknown tokens are `len(words)`."""
    number = {word: index for index, word in enumerate(words)}
    ids = np.fromiter(
        (number.get(token, len(words)) for text in tokens for token in text), dtype=np.int64
    )
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    return RaggedTexts(ids, starts_of(lengths), tuple(words))
