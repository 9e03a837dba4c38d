"""Sentences as the tree probe takes them: the words a model saw, their heads, batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.annotations import ROOT, dependencies_of
from attlas.core.text import Text
from attlas.models.encode import groups
from attlas.models.vectors import Vectors
from attlas.tree.scorers import NOTHING, Given
from attlas.tree.word_attention import WordAttention

Array = npt.NDArray[Any]
IGNORED = -100  # the head of a word that is neither learned nor scored
BATCH_TEXTS, BATCH_PAIRS = 16, 2**14  # at most this many sentences, or pairs of words


@dataclass(frozen=True)
class Sentence:
    """One text: the words the model saw, and their gold heads among ROOT (0) and those words.

    A word whose head the model did not see, and every word of a text without a tree, has the head
    IGNORED; `scored` are words with a head that are not punctuation.
    """

    index: int
    text: str
    words: tuple[str, ...]
    source: Array  # word: its index among all words of the text
    heads: Array  # word
    scored: Array  # word
    punctuation: int
    unseen: int
    headless: int  # words seen whose head was not

    def __len__(self) -> int:
        return len(self.words)


def sentence_of(text: Text, index: int, missing: Sequence[int] = ()) -> Sentence:
    """A text with its words and its tree, without the words that the model did not see."""
    words, tree = text.words or (), dependencies_of(text.annotations)
    source = np.setdiff1d(np.arange(len(words)), missing)
    marks = np.array(
        [tree is not None and is_punctuation(tree.relations[word]) for word in source], dtype=bool
    )
    at = np.full(len(words) + 1, IGNORED)  # word -> candidate; the last is ROOT's -1
    at[source], at[ROOT] = np.arange(1, len(source) + 1), 0
    heads = np.full(len(source), IGNORED) if tree is None else at[np.array(tree.heads)[source]]
    known = heads != IGNORED
    return Sentence(
        index=index,
        text=text.text,
        words=tuple(words[word] for word in source),
        source=source,
        heads=heads,
        scored=known & ~marks,
        punctuation=int((known & marks).sum()),
        unseen=len(words) - len(source),
        headless=0 if tree is None else int((~known).sum()),
    )


def is_punctuation(relation: str) -> bool:
    """Whether a relation is that of punctuation, which scores exclude.

    >>> is_punctuation("punct"), is_punctuation("nsubj:pass")
    (True, False)
    """
    return relation.partition(":")[0] == "punct"


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences in batches of one word count; what a scorer needs is read batch by batch."""

    all: Sequence[Sentence]
    attention: WordAttention | None = None  # for scorers of attention
    vectors: Vectors | None = None  # for scorers of words

    def __len__(self) -> int:
        return len(self.all)

    @property
    def heads_of_attention(self) -> int:
        """How many attention heads all layers have."""
        return 0 if self.attention is None else self.attention.n_heads

    @property
    def size(self) -> int:
        """How many dimensions a word's vector has."""
        return 0 if self.vectors is None else self.vectors.size

    def batches(self, order: Iterable[int]) -> list[list[int]]:
        """Sentences of one length together, in the given order, without those of no words."""
        known = (number for number in order if len(self.all[number]))
        return list(
            groups(
                known,
                lambda number: (len(self.all[number]),),
                lambda length: min(BATCH_TEXTS, BATCH_PAIRS // length**2),
            )
        )

    def given(self, batch: Sequence[int]) -> Given:
        """What a scorer takes of a batch."""
        sentences = [self.all[number] for number in batch]
        n = len(sentences[0])
        vectors = NOTHING
        if self.vectors is not None:
            flat = self.vectors.of([word for sentence in sentences for word in sentence.words])
            vectors = torch.from_numpy(flat).view(len(batch), n, -1)
        if self.attention is None:
            return Given(NOTHING, NOTHING, vectors)
        block = self.attention.read([sentence.index for sentence in sentences])
        between = block[:, :, :n]
        pairs = torch.empty(len(batch), n, n, 2 * block.shape[-1])
        pairs[..., : block.shape[-1]] = between
        pairs[..., block.shape[-1] :] = between.transpose(1, 2)
        return Given(pairs, block[:, :, n:].float(), vectors)

    def gold(self, batch: Sequence[int]) -> Tensor:
        """Heads to learn, without those of punctuation: [text, word]."""
        heads = np.stack([self.all[number].heads for number in batch])
        scored = np.stack([self.all[number].scored for number in batch])
        return torch.from_numpy(np.where(scored, heads, IGNORED))
