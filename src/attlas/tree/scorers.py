"""The scorers of the tree probe: a score for every candidate head of every word.

From attention, from attention and words, or from distances and words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attlas.core.annotations import ROOT
from attlas.tree.word_attention import SPECIAL_COLUMNS

HIDDEN, DISTANCES = 256, 8
FASTER = 20  # times the rate, for single weights next to those of all dimensions of a vector
NOTHING = torch.empty(0)


@dataclass(frozen=True)
class Given:
    """A batch of sentences of one word count; what a scorer does not use may be empty."""

    pairs: Tensor  # text word word 2*head: at [i, j] what i gives to j, then what j gives to i
    ends: Tensor  # text word 4 head: see word_attention.SPECIAL_COLUMNS
    vectors: Tensor  # text word size


class Scorer(nn.Module):
    """Scores of heads from a batch: [text, candidate, word], candidate 0 is ROOT."""

    epochs: int  # what served best, as the rate
    rate: float
    faster: frozenset[str] = frozenset()  # parameters that learn FASTER times as fast

    def __init__(self, heads: int, size: int, published: bool) -> None:
        super().__init__()


class AttentionScorer(Scorer):
    """Weights for each head in both directions.

    ROOT, sound: weights of their own for what a word gives to and gets from [CLS] and [SEP], and a
    bias. Published: the same weights as for words, on what it gives and gets times two scalars, one
    for [CLS] and one for [SEP].
    """

    epochs, rate = 6, 0.05

    def __init__(self, heads: int, size: int, published: bool) -> None:
        super().__init__(heads, size, published)
        self.published = published
        self.weights = nn.Parameter(torch.zeros(2 * heads))  # w, u
        if published:
            self.scalars = nn.Parameter(torch.ones(2))
        else:
            self.root = nn.Parameter(torch.zeros(len(SPECIAL_COLUMNS) * heads))
            self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, given: Given) -> Tensor:
        """Scores of heads: [text, candidate, word]."""
        if self.published:
            root = torch.matmul(published_ends(given.ends, self.scalars), self.weights)
        else:
            root = torch.matmul(given.ends.flatten(2), self.root) + self.bias
        return with_root(root, torch.matmul(given.pairs, self.weights))


class AttentionWordsScorer(Scorer):
    """Weights for each head in both directions, linear in the vectors of candidate and word.

    w_k(i, j) = W_k [v_i; v_j] + b_k. Never built for pairs: the candidate's part and the word's
    part of the weights are each a product with the rows of `pairs`. Published: each candidate has
    the vector of its right neighbour (ROOT the first word's), and neither vector counts where the
    last word is the candidate.
    """

    epochs, rate = 10, 0.001
    faster = frozenset({"bias", "root_bias", "scalars"})

    def __init__(self, heads: int, size: int, published: bool) -> None:
        super().__init__(heads, size, published)
        self.published = published
        self.candidate = nn.Parameter(torch.zeros(size, 2 * heads))  # w, u
        self.word = nn.Parameter(torch.zeros(size, 2 * heads))
        self.bias = nn.Parameter(torch.zeros(2 * heads))
        if published:
            self.scalars = nn.Parameter(torch.ones(2))
        else:
            self.root = nn.Parameter(torch.zeros(size, len(SPECIAL_COLUMNS) * heads + 1))
            self.root_bias = nn.Parameter(torch.zeros(len(SPECIAL_COLUMNS) * heads + 1))

    def forward(self, given: Given) -> Tensor:
        """Scores of heads: [text, candidate, word]."""
        vectors = given.vectors
        ours = torch.matmul(vectors, self.word)  # text word 2*head
        shifted = neighbours(vectors) if self.published else vectors
        theirs = torch.matmul(shifted, self.candidate) + self.bias
        words = self._words(given.pairs, theirs, ours)
        if self.published:
            weights = ours + torch.matmul(vectors[:, :1], self.candidate) + self.bias
            root = (published_ends(given.ends, self.scalars) * weights).sum(-1)
        else:
            weights = torch.matmul(vectors, self.root) + self.root_bias
            root = (given.ends.flatten(2) * weights[..., :-1]).sum(-1) + weights[..., -1]
        return with_root(root, words)

    def _words(self, pairs: Tensor, theirs: Tensor, ours: Tensor) -> Tensor:
        """[text, candidate, word]: each row of `pairs` times both weights of its word.

        Those it has as the candidate, and those it has as the word whose head is predicted.
        """
        texts, n, _, maps = pairs.shape
        turned = ours.roll(maps // 2, -1)  # from the word's side, what it gives comes first
        both = torch.stack([theirs, turned], -1).view(texts * n, maps, 2)
        by = torch.bmm(pairs.view(texts * n, n, maps), both).view(texts, n, n, 2)
        of_word = by[..., 1].transpose(1, 2)
        if self.published:
            of_word = torch.cat([of_word[:, :-1], torch.zeros_like(of_word[:, -1:])], 1)
        return by[..., 0] + of_word


class DistanceWordsScorer(Scorer):
    """The paper's baseline without attention: one hidden layer on both vectors and the distance."""

    epochs, rate = 10, 0.001

    def __init__(self, heads: int, size: int, published: bool) -> None:
        super().__init__(heads, size, published)
        self.published = published
        self.candidate = nn.Linear(size, HIDDEN)
        self.word = nn.Linear(size, HIDDEN, bias=False)
        self.distance = nn.Linear(DISTANCES, HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, 1, bias=False)

    def forward(self, given: Given) -> Tensor:
        """Scores of heads: [text, candidate, word]."""
        vectors = given.vectors
        n = vectors.shape[1]
        nothing = torch.zeros_like(vectors[:, :1])
        ours = self.word(vectors)[:, None].expand(-1, n + 1, -1, -1)
        if self.published:
            ours = torch.cat([ours[:, :-1], torch.zeros_like(ours[:, -1:])], 1)
        order = [vectors, nothing] if self.published else [nothing, vectors]
        theirs = self.candidate(torch.cat(order, 1))[:, :, None]
        hidden = torch.tanh(theirs + ours + self.distance(distance_features(n).to(vectors)))
        return without_self(self.out(hidden)[..., 0])


SCORERS: dict[str, type[Scorer]] = {
    "attention": AttentionScorer,
    "attention_words": AttentionWordsScorer,
    "distance_words": DistanceWordsScorer,
}
FROM_ATTENTION = ("attention", "attention_words")
FROM_WORDS = ("attention_words", "distance_words")
BASELINES: dict[str, Callable[[int], list[int]]] = {
    "right_branching": lambda n: [*range(1, n), ROOT],
    "previous_word": lambda n: list(range(-1, n - 1)),
}


def with_root(root: Tensor, words: Tensor) -> Tensor:
    """Scores with ROOT as the first candidate; a word is never its own head.

    [text, word] and [text, word, word] -> [text, candidate, word].
    """
    return without_self(torch.cat([root[:, None], words], 1))


def without_self(scores: Tensor) -> Tensor:
    """Scores [text, candidate, word] with -inf where a word would be its own head."""
    n = scores.shape[-1]
    return scores.masked_fill(torch.eye(n + 1, n, dtype=torch.bool).roll(1, 0), -torch.inf)


def published_ends(ends: Tensor, scalars: Tensor) -> Tensor:
    """Attention between ROOT and each word as the released code has it.

    [text, word, 4, head] -> [text, word, 2*head], from ROOT, then to it.
    """
    given, received = ends[:, :, :2], ends[:, :, 2:]
    return torch.cat([torch.einsum("twmh,m->twh", part, scalars) for part in (received, given)], -1)


def neighbours(vectors: Tensor) -> Tensor:
    """Each word's right neighbour's vector, zeros for the last: [text, word, size]."""
    return torch.cat([vectors[:, 1:], torch.zeros_like(vectors[:, :1])], 1)


def distance_features(n: int) -> Tensor:
    """How far the candidate is: [candidate, word, 8].

    Ahead and behind as a share of the sentence, offsets 0, -1, 1, -2, 2, ROOT.
    """
    offset = torch.arange(n)[:, None] - torch.arange(n)  # candidate word: candidate minus word
    parts = [offset.clamp(min=0) / n, (-offset).clamp(min=0) / n]
    parts += [(offset == wanted).float() for wanted in (0, -1, 1, -2, 2)]
    out = torch.zeros(n + 1, n, DISTANCES)
    out[1:, :, :-1] = torch.stack(parts, -1)
    out[0, :, -1] = 1
    return out
