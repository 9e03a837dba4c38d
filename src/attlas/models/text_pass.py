"""What one pass keeps of a text: numbers of each head, the largest weights, matrices asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention, DenseAttention, VisibleRanges, words_from_tokens
from attlas.core.banded import BandedAttention
from attlas.models.head_codes import head_codes
from attlas.support.arrays import Floats, Ints
from attlas.views.matrices import HeadCodes
from attlas.views.text_rows import RANKS, Tops, Visible

MOST_EXACT = 8  # heads of a long text that are kept as they are
GRID = 64  # bins of the pictures of heads


class TextPass:
    """What is kept of each layer as it passes: all weights only if they are `small`."""

    def __init__(self, small: bool, asked: Sequence[tuple[int, int]], matrix_tokens: int) -> None:
        self.small, self.asked, self.matrix_tokens = small, asked, matrix_tokens
        self.matrices: dict[tuple[int, int], HeadCodes] = {}
        self.exact: dict[tuple[int, int], Attention] = {}  # of those heads, if not all are kept
        self.layers: list[Tensor] = []
        self.received: list[Tensor] = []
        self.uniform: list[Tensor] = []
        self.grids: list[Tensor] = []
        self.uniform_grids: list[Tensor] = []
        self.heads: list[pd.DataFrame] = []
        self.visible: list[tuple[tuple[VisibleRanges, ...], Ints]] = []
        self.tops = TopWords()
        self.total: Attention | None = None

    def add(self, layer: Attention) -> None:
        control = layer.uniform
        self.received.append(layer.received[0].cpu())
        self.uniform.append(control.received[0].mean(0).cpu())
        self.grids.append(layer.grid(GRID, None, 0).float().cpu())
        uniform_grid = control.once("look", lambda: control.grid(GRID).mean(0).float().cpu())
        self.uniform_grids.append(uniform_grid)
        self.heads.append(_head_numbers(layer))
        counts = layer.n_visible_keys[0].expand(layer.n_heads, -1).cpu().numpy()
        self.visible.append((layer.visible_ranges(), counts))
        for index, head in self.asked:
            if index == layer.index:
                self.matrices[index, head] = head_codes(layer, head, self.matrix_tokens)
                if not self.small and len(self.exact) < MOST_EXACT:
                    self.exact[index, head] = layer.of_heads([head])
        mean = layer.over_heads()
        self.total = mean if self.total is None else self.total.plus(mean)
        self.keep(layer)

    def keep(self, layer: Attention) -> None:
        """Keep the weights of a layer, or the largest of each word."""
        if self.small:
            self.layers.append(layer.dense().weights[0].cpu())
        else:
            self.tops.add(layer)

    def largest(self, mean: Tops) -> Tops | None:
        """The largest weights of all heads, if not all weights are kept."""
        return None if self.small else self.tops.result(mean)


class LayersPass(TextPass):
    """Keeps whole layers, as they are: what else is wanted of them is computed later."""

    def __init__(self, report: Callable[[int], None]) -> None:
        super().__init__(small=False, asked=(), matrix_tokens=1)
        self.passed: list[Attention] = []
        self.report = report  # called with each layer that has passed

    def keep(self, layer: Attention) -> None:
        self.passed.append(layer.of_heads(slice(None)))
        self.report(layer.index)

    def largest(self, mean: Tops) -> Tops | None:
        return None


class TopWords:
    """The largest weights between words, of every head and of the mean of each layer."""

    def __init__(self) -> None:
        self.heads: list[Tops] = []
        self.means: list[Tops] = []

    def add(self, layer: Attention) -> None:
        every, mean = layer.by_form(dense=_head_by_head, banded=_all_heads)
        self.heads += [_largest(words) for words in every]
        self.means.append(_largest(mean))

    def result(self, mean: Tops) -> Tops:
        """All of them, and those of the mean of all heads."""
        parts = [*self.heads, *self.means, mean]
        return Tops(
            np.concatenate([one.words for one in parts], 1),
            np.concatenate([one.weights for one in parts], 1),
            np.concatenate([one.rest for one in parts], 1),
        )


def _head_by_head(layer: DenseAttention) -> tuple[Iterator[Attention], Attention]:
    """Attention between words, and its mean over heads: one square at a time, as they are large."""
    words, batch = layer.batch.words[0], layer.batch.by_word(0)

    def between(weights: Tensor) -> Attention:
        return DenseAttention(words_from_tokens(weights, words)[None], batch, layer.index)

    heads = (between(layer.weights[0, head : head + 1]) for head in range(layer.n_heads))
    return heads, between(layer.weights[0].mean(0, keepdim=True))


def _all_heads(layer: BandedAttention) -> tuple[Iterator[Attention], Attention]:
    """The same of a band."""
    (words,) = layer.to_words()
    return iter([words]), words.over_heads()


def top_words(layer: Attention) -> Tops:
    """The largest weights between words in a layer of one text, with one head."""
    return _largest(layer.to_words()[0])


def _largest(words: Attention) -> Tops:
    """The largest weights of each word of one text, as query and as key."""
    sides = [words.top_keys(RANKS), words.top_queries(RANKS)]
    every = torch.ones(1, words.n_tokens, device=words.received.device)
    sums = [words.mass_to(every), words.received]  # of rows and columns
    rest = [
        (total - best.sum(-1)).clamp(min=0) for total, (best, _) in zip(sums, sides, strict=True)
    ]
    indices = np.stack([where[0].cpu().numpy() for _, where in sides]).astype(np.int32)
    weights = np.stack([best[0].float().cpu().numpy() for best, _ in sides])
    missing = (indices < 0) | (weights <= 0)
    return Tops(
        np.where(missing, -1, indices),
        np.where(missing, 0, weights),
        np.stack([one[0].float().cpu().numpy() for one in rest]),
    )


def _head_numbers(layer: Attention) -> pd.DataFrame:
    """What each head of a layer does in this text, with what uniform attention would do."""
    uniform = layer.uniform
    columns = {"layer": np.full(layer.n_heads, layer.index), "head": np.arange(layer.n_heads)}
    for end, one in (("", layer), ("_uniform", uniform)):
        values = one.once("look_numbers", partial(_numbers, one))
        columns |= {name + end: np.resize(row, layer.n_heads) for name, row in values.items()}
    return pd.DataFrame(columns)


def _numbers(layer: Attention) -> dict[str, Floats]:
    """Mean entropy of rows, share on the first token, mean distance from query to key: [head]."""
    n = layer.n_tokens
    offsets = torch.arange(-n, n + 1, dtype=torch.float64).abs()
    numbers = {
        "entropy": layer.row_entropy()[0].double().mean(-1),
        "first": layer.received[0, :, 0].double() / n,
        "distance": layer.by_offset(n - 1)[0].double().cpu() @ offsets,
    }
    return {name: values.cpu().numpy() for name, values in numbers.items()}


def visible_of(layers: list[tuple[tuple[VisibleRanges, ...], Ints]]) -> Visible:
    """What the tokens see in all layers: heads that see the same have one entry."""
    kinds: dict[bytes, int] = {}
    arrays: list[tuple[Any, ...]] = []
    of = np.zeros((len(layers), len(layers[0][1])), dtype=np.int64)
    for layer, (ranges, counts) in enumerate(layers):
        for head, count in enumerate(counts):
            own = ranges[head if len(ranges) > 1 else 0].of(0)
            parts = own.first, own.stop, own.always, count
            key = b"".join(np.ascontiguousarray(one).tobytes() for one in parts)
            of[layer, head] = kinds.setdefault(key, len(kinds))
            if of[layer, head] == len(arrays):
                arrays.append(parts)
    return Visible(of, *(np.stack(rows) for rows in zip(*arrays, strict=True)))


def mean_tops_of(total: Attention, layers: int) -> Tops:
    """The words that go with each word in the mean of all heads, from the sum over layers."""
    every = top_words(total)
    share = np.float32(layers)
    return Tops(every.words, every.weights / share, every.rest / share)
