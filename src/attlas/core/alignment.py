"""Words from word pieces: which token belongs to which word, by character offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attlas.language.words import Span
from attlas.support.arrays import Array, Ints


@dataclass(frozen=True)
class Words:
    """The words of one encoded text; every special token is a word of its own.

    `of[token]` is the token's word. `source[word]` is its index in the text's own words, -1 for a
    special token. `missing` are the text's own words that no token covers (truncated, or made of
    characters that the tokenizer drops).
    """

    of: Ints  # token
    strings: tuple[str, ...]  # word
    source: tuple[int, ...]  # word
    missing: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.strings)


def align(
    text: str,
    spans: Sequence[Span],
    offsets: Sequence[Span],
    special: Sequence[bool],
    tokens: Sequence[str],
    given: bool = False,
) -> Words:
    """Give each token its word by characters.

    A token belongs to the word with its first visible character; a token without one (a lone blank
    marker) to the next word. Where one token covers several words they become one; `given` words
    are never joined: a word in which no token starts is `missing`.
    """
    owner = np.full(len(text) + 1, -1, dtype=np.int64)  # character -> span
    for index, (start, stop) in enumerate(spans):
        owner[start:stop] = index
    joined = np.arange(len(spans))
    first: list[int] = []
    for (start, stop), is_special in zip(offsets, special, strict=True):
        inside = [] if is_special else [int(index) for index in owner[start:stop] if index >= 0]
        first.append(inside[0] if inside else -1)
        if inside and not given:
            joined[inside[0] : inside[-1] + 1] = joined[inside[0]]
    for token in range(len(first) - 2, -1, -1):
        if first[token] < 0 and not special[token] and not special[token + 1]:
            first[token] = first[token + 1]
    for token in range(1, len(first)):
        if first[token] < 0 and not special[token] and not special[token - 1]:
            first[token] = first[token - 1]
    last = {int(group): index for index, group in enumerate(joined)}
    of = np.empty(len(first), dtype=np.int64)
    strings: list[str] = []
    source: list[int] = []
    word_of: dict[int, int] = {}  # group of spans: word
    for token, span in enumerate(first):
        group = int(joined[span]) if span >= 0 else -1
        if span < 0:
            of[token] = len(strings)
            strings.append(tokens[token])
            source.append(-1)
            continue
        if group not in word_of:
            word_of[group] = len(strings)
            strings.append(text[spans[group][0] : spans[last[group]][1]])
            source.append(group)
        of[token] = word_of[group]
    seen = {index for index in range(len(spans)) if int(joined[index]) in word_of}
    return Words(
        of,
        tuple(strings),
        tuple(source),
        tuple(index for index in range(len(spans)) if index not in seen),
    )


def word_sums(values: Array, word_of: Array, count: int) -> Array:
    """The sum over the tokens of each word: [token, ...] -> [word, ...].

    >>> word_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1]), 3)
    array([1., 6., 0.])
    """
    sums = np.zeros((count, *values.shape[1:]), dtype=values.dtype)
    np.add.at(sums, word_of, values)
    return sums


def word_means(values: Array, word_of: Array, count: int) -> Array:
    """The mean over each word's tokens, 0 without one: [token, ...] -> [word, ...].

    >>> word_means(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1]), 3)
    array([1., 3., 0.])
    """
    tokens = np.bincount(word_of, minlength=count).astype(values.dtype)
    divisors = np.maximum(tokens, 1).reshape(-1, *[1] * (values.ndim - 1))
    return word_sums(values, word_of, count) / divisors
