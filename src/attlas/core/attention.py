"""Attention of one layer over one batch, dense or banded, behind the same methods.

Axes are `text head query key` (a row is a query and sums to one). A query *sees* a key if the model
lets it attend there; causal models, sliding windows and global tokens all say so through `visible`,
`n_visible_keys` and `n_visible_queries`. `uniform` is the control of every measure: each row spread
evenly over the keys it sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from attlas.core import kernels
from attlas.core.alignment import Words
from attlas.core.batch import Batch
from attlas.support.arrays import Array, Bools, Floats, Ints
from attlas.support.errors import CaptureError
from attlas.support.memo import Memo

if TYPE_CHECKING:
    from attlas.core.banded import BandedAttention

T = TypeVar("T")
Top: TypeAlias = tuple[Tensor, Tensor]
REACH = 8  # of `by_offset`, by default


class VisibleRanges(NamedTuple):
    """What the tokens of a text see: `first` to `stop` and all of `always`, except `hidden`."""

    first: Ints  # text token
    stop: Ints  # text token
    always: Bools  # text token: seen by all
    hidden: Bools | None = None  # text token token; None where a token sees all of its range

    def of(self, text: int) -> VisibleRanges:
        """The same of one text, without the axis of texts."""
        hidden = None if self.hidden is None else self.hidden[text]
        return VisibleRanges(self.first[text], self.stop[text], self.always[text], hidden)


def row_entropy(weights: Tensor) -> Tensor:
    """Entropy of each row in nats: [..., key] -> [...].

    >>> row_entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor([0.6931, 0.0000])
    """
    if kernels_serve(weights):
        rows = weights.reshape(-1, weights.shape[-1]).contiguous()
        return torch.from_numpy(kernels.row_entropy(rows.numpy())).reshape(weights.shape[:-1])
    return torch.special.entr(weights).sum(-1)


def kernels_serve(weights: Tensor) -> bool:
    """Whether the compiled loops can take these weights."""
    return (
        weights.device.type == "cpu"
        and weights.dtype == torch.float32
        and not weights.requires_grad
        and weights.numel() > 0
    )


class Attention(Memo, ABC):
    """One layer of one batch: all that a measure asks, whatever the form of the weights."""

    index: int  # the layer
    batch: Batch
    gradient_source: Callable[[], Attention] | None = None

    def gradient(self) -> Attention:
        """The gradient of a loss by each weight, in the same form, after a backward pass."""
        if self.gradient_source is None:
            raise CaptureError(
                "this attention was captured without gradients; observe with gradients=True"
            )
        return self.gradient_source()

    @abstractmethod
    def by_form(
        self, *, dense: Callable[[DenseAttention], T], banded: Callable[[BandedAttention], T]
    ) -> T:
        """Call the algorithm for the form in which the weights are kept."""

    @property
    @abstractmethod
    def n_heads(self) -> int: ...

    @property
    def n_tokens(self) -> int:
        return self.batch.n_tokens

    @property
    def n_texts(self) -> int:
        return self.batch.n_texts

    @property
    @abstractmethod
    def n_visible_keys(self) -> Tensor:
        """How many keys each query can attend to: [text or 1, head or 1, query]."""

    @property
    @abstractmethod
    def n_visible_queries(self) -> Tensor:
        """How many queries can attend to each key: [text or 1, head or 1, key]."""

    @abstractmethod
    def visible_ranges(self, of_keys: bool = False) -> tuple[VisibleRanges, ...]:
        """Which keys each query sees (`of_keys`: queries see each key), of all heads or each."""

    @property
    @abstractmethod
    def uniform(self) -> Attention:
        """The same layer with every row spread evenly over the keys it sees.

        It has one head, or as many as see different keys: [text or 1, head or 1, ...].
        """

    @property
    @abstractmethod
    def received(self) -> Tensor:
        """Attention received: column sums, [text, head, key]."""

    @abstractmethod
    def propagate(self, amounts: Tensor) -> Tensor:
        """What keys receive if query q passes on amounts[q]: [text, query] -> [text, head, key].

        Amounts of one give `received`.
        """

    @abstractmethod
    def row_entropy(self) -> Tensor:
        """Entropy of each row in nats, [text, head, query]."""

    @abstractmethod
    def mass_to(self, keys: Tensor) -> Tensor:
        """How much of each row goes to the marked keys ([text, key], bool): [text, head, query]."""

    @property
    def sink(self) -> Tensor:
        """How much of each row goes to no token, where softmax has a learned sink.

        It is 1 minus the sum of the row, [text, head, query]: 0 without a sink. `uniform` has no
        sink, so that its rows sum to one.
        """
        every = torch.ones(
            self.n_texts, self.n_tokens, dtype=torch.bool, device=self.batch.ids.device
        )
        return 1 - self.mass_to(every)

    def between(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Sum from marked queries to marked keys (both [text, token], bool): [text, head]."""
        return (self.mass_to(keys) * queries[:, None]).sum(-1)

    @abstractmethod
    def between_units(self, members: Tensor, mean: bool = True) -> Tensor:
        """Attention between words or phrases: [text, unit, token] -> [text, head, unit, unit].

        `members` marks each unit's tokens; units may overlap. Attention *to* a unit is the sum over
        its tokens, *from* a unit the mean (without `mean`, the sum); an empty unit has 0.
        """

    def between_words(self, text: int, words: Sequence[int] | Array) -> Tensor:
        """Attention between some distinct words of one text: [head, word, word].

        *To* a word is the sum over its tokens, *from* a word the mean.
        """
        of = torch.from_numpy(self.batch.words[text].of)
        slot = torch.full((len(self.batch.words[text]),), -1)
        slot[torch.as_tensor(words, dtype=torch.long)] = torch.arange(len(words))
        tokens = torch.nonzero(slot[of] >= 0)[:, 0]
        cells = self._between_tokens(text, tokens)
        mine = slot[of[tokens]].to(cells.device)
        pieces = torch.bincount(mine, minlength=len(words)).to(cells.dtype)
        heads, count = cells.shape[:2]
        rows = cells.new_zeros(heads, len(words), count)
        rows.index_add_(1, mine, cells / pieces[mine][:, None])
        return cells.new_zeros(heads, len(words), len(words)).index_add_(2, mine, rows)

    @abstractmethod
    def _between_tokens(self, text: int, tokens: Tensor) -> Tensor:
        """Attention between some tokens of one text: [head, token, token]."""

    def by_offset(self, reach: int = REACH) -> Tensor:
        """Mean mass of a row at each offset (key - query) up to `reach`: [text, head, 2 reach + 3].

        The first entry is all mass further left, the last all further right; they sum to one.
        """
        return self.once(("by_offset", reach), lambda: self._by_offset(reach))

    @abstractmethod
    def _by_offset(self, reach: int) -> Tensor: ...

    @abstractmethod
    def top_keys(self, k: int, mask: Tensor | None = None) -> Top:
        """The k keys each query attends to most: weights and positions, [text, head, query, k].

        Only keys that the query sees and, if given, that are in `mask` ([text, key], bool); lowest
        position first among equals; where there are fewer than k, weight 0 at position -1.
        """

    @abstractmethod
    def top_queries(self, k: int, mask: Tensor | None = None) -> Top:
        """The k queries that attend most to each key (`mask` of queries): [text, head, key, k]."""

    def grid(self, size: int, span: int | None = None, text: int | None = None) -> Tensor:
        """Attention between `size` bins of tokens, of one text or summed: [head, size, size].

        The bins divide the text evenly, or positions 0 to `span`; a token on an edge is shared.
        *To* a bin is the sum over its tokens, *from* a bin the mean, so a text's rows sum to one;
        where a text has no token, 0.
        """
        edges = bin_edges(self.n_tokens, size, span)
        total = self._between_bins(edges, text)
        # how much of the text each bin has
        held = np.clip(np.minimum(edges[1:], self.n_tokens) - edges[:-1], 0, None)
        share = np.divide(1.0, held, out=np.zeros_like(held), where=held > 0)
        return total * torch.from_numpy(share).to(total)[:, None]

    @abstractmethod
    def _between_bins(self, edges: Floats, text: int | None) -> Tensor:
        """The mass between bins, summed over their queries and over the texts: [head, bin, bin]."""

    @abstractmethod
    def of_text(self, text: int) -> Attention:
        """The same layer of one of the texts."""

    @abstractmethod
    def of_heads(self, heads: slice | list[int]) -> Attention:
        """The same layer with some of its heads; those of a list are copied."""

    @abstractmethod
    def row(self, query: int) -> Tensor:
        """What a query of the first text attends to, in every head: [head, key]."""

    @abstractmethod
    def column(self, key: int) -> Tensor:
        """What attends to a key of the first text, in every head: [head, query]."""

    @abstractmethod
    def over_heads(self) -> Attention:
        """The same layer with one head, the mean of all."""

    @abstractmethod
    def plus(self, other: Attention) -> Attention:
        """This layer's weights and another's added up, where each sees what either sees."""

    @abstractmethod
    def times(self, other: Attention, positive: bool = False) -> Attention:
        """The product with another layer's weights (or gradients), cell by cell.

        With `positive`, negative products become 0.
        """

    @abstractmethod
    def absolute(self) -> Attention:
        """The absolute values of the weights (or gradients)."""

    @abstractmethod
    def blocks(self, reach: int = 0) -> list[Tensor]:
        """The weights as blocks [text, head, row, cell]; a cell is the same key in all heads.

        Each row of the attention is a row of one block; cells without a key are 0. With one `reach`
        for all layers of a batch, at least the largest of theirs, cells agree between layers.
        """

    @property
    def reach(self) -> int:
        """How far a window goes; 0 if there is none."""
        return 0

    @abstractmethod
    def to_words(self) -> Sequence[Attention]:
        """Attention between words of each text: *to* a word the sum, *from* a word the mean."""

    @abstractmethod
    def dense(self) -> DenseAttention:
        """The square form; costs text x head x query x key."""


class DenseAttention(Attention):
    """Attention kept as the square matrix: `weights` [text, head, query, key].

    `visible` [text or 1, head or 1, query, key] marks the keys a query sees; None means all.
    Without the axis of heads, all heads see the same.
    """

    def __init__(
        self, weights: Tensor, batch: Batch, index: int = 0, visible: Tensor | None = None
    ) -> None:
        self.weights, self.batch, self.index = weights, batch, index
        self.visible = (
            visible.unsqueeze(1) if visible is not None and visible.dim() == 3 else visible
        )

    def by_form(
        self, *, dense: Callable[[DenseAttention], T], banded: Callable[[BandedAttention], T]
    ) -> T:
        return dense(self)

    @property
    def n_heads(self) -> int:
        return int(self.weights.shape[1])

    @property
    def n_tokens(self) -> int:
        return int(self.weights.shape[-1])

    @cached_property
    def n_visible_keys(self) -> Tensor:
        return self._all_see() if self.visible is None else self.visible.sum(-1)

    @cached_property
    def n_visible_queries(self) -> Tensor:
        return self._all_see() if self.visible is None else self.visible.sum(-2)

    def _all_see(self) -> Tensor:
        return torch.full((1, 1, self.n_tokens), self.n_tokens, device=self.weights.device)

    def visible_ranges(self, of_keys: bool = False) -> tuple[VisibleRanges, ...]:
        shape = (self.n_texts, self.n_tokens)
        if self.visible is None:
            first, stop = np.zeros(shape, dtype=np.int64), np.full(shape, self.n_tokens)
            return (VisibleRanges(first, stop, np.zeros(shape, dtype=bool)),)
        seen = self.visible.transpose(-1, -2) if of_keys else self.visible
        by_head = seen.cpu().numpy().swapaxes(0, 1)  # head text row token
        return self.uniform.once(
            ("visible_ranges", of_keys),
            lambda: tuple(_visible_ranges(head, self.n_texts) for head in by_head),
        )

    @property
    def uniform(self) -> DenseAttention:
        # layers that see the same share it; `visible` is kept so that its id is not reused
        key = ("uniform", None if self.visible is None else id(self.visible), self.n_tokens)
        return self.batch.once(key, lambda: (self._uniform(), self.visible))[0]

    def _uniform(self) -> DenseAttention:
        n = self.n_tokens
        if self.visible is None:
            visible = torch.ones(1, 1, n, n, device=self.weights.device)
        else:
            visible = self.visible.float()
        return self._like(visible / visible.sum(-1, keepdim=True).clamp_min(1))

    @cached_property
    def received(self) -> Tensor:
        return self.weights.sum(-2)

    def propagate(self, amounts: Tensor) -> Tensor:
        return torch.matmul(amounts.to(self.weights)[:, None, None], self.weights).squeeze(-2)

    def row_entropy(self) -> Tensor:
        return row_entropy(self.weights)

    def mass_to(self, keys: Tensor) -> Tensor:
        return torch.matmul(self.weights, keys.to(self.weights.dtype)[:, None, :, None]).squeeze(-1)

    def between(self, queries: Tensor, keys: Tensor) -> Tensor:
        text, query = queries.nonzero(as_tuple=True)  # only those rows are read
        own = text.clamp(max=len(self.weights) - 1)  # uniform keeps one for all texts
        rows = self.weights[own, :, query]  # row head key
        given = torch.matmul(rows, keys[text].to(rows.dtype)[..., None])[..., 0]
        return given.new_zeros(len(queries), self.n_heads).index_add_(0, text, given)

    def between_units(self, members: Tensor, mean: bool = True) -> Tensor:
        to = members.to(self.weights)
        return (giver_shares(to, mean)[:, None] @ self.weights) @ to.transpose(-1, -2)[:, None]

    def _between_tokens(self, text: int, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self.weights.device)
        return self.weights[text][:, tokens[:, None], tokens]

    def _by_offset(self, reach: int) -> Tensor:
        n = self.n_tokens
        if kernels_serve(self.weights):
            flat = kernels.by_offset(self.weights.flatten(0, 1).contiguous().numpy(), reach)
            return torch.from_numpy(flat).reshape(*self.weights.shape[:2], -1)
        out = self.weights.new_zeros(*self.weights.shape[:2], 2 * reach + 3)
        for offset in range(max(-reach, 1 - n), min(reach, n - 1) + 1):
            out[..., offset + reach + 1] = self.weights.diagonal(offset, -2, -1).sum(-1)
        out[..., 0] = self.weights.tril(-reach - 1).sum((-1, -2))
        out[..., -1] = self.weights.triu(reach + 1).sum((-1, -2))
        return out / n

    def top_keys(self, k: int, mask: Tensor | None = None) -> Top:
        return _top(self.weights, self._positions(self.visible, mask), k)

    def top_queries(self, k: int, mask: Tensor | None = None) -> Top:
        seeing = None if self.visible is None else self.visible.transpose(-1, -2)
        return _top(self.weights.transpose(-1, -2), self._positions(seeing, mask), k)

    def _positions(self, visible: Tensor | None, mask: Tensor | None) -> Tensor:
        positions = torch.arange(self.n_tokens, device=self.weights.device).expand(1, 1, 1, -1)
        if visible is not None:
            positions = torch.where(visible, positions, -1)
        return positions if mask is None else torch.where(mask[:, None, None], positions, -1)

    def _between_bins(self, edges: Floats, text: int | None) -> Tensor:
        weights = (
            self.weights.sum(0, dtype=torch.float64)
            if text is None
            else self.weights[text].double()
        )
        share = torch.from_numpy(overlaps(self.n_tokens, edges)).to(weights)  # token bin
        return torch.matmul(share.T, torch.matmul(weights, share))

    def _like(self, weights: Tensor) -> DenseAttention:
        """Other weights of the same layer, which see the same."""
        return DenseAttention(weights, self.batch, self.index, self.visible)

    def of_text(self, text: int) -> DenseAttention:
        visible = self.visible
        if visible is not None and len(visible) > 1:
            visible = visible[text : text + 1]
        weights = self.weights[text : text + 1]
        return DenseAttention(weights, self.batch.of_text(text), self.index, visible)

    def of_heads(self, heads: slice | list[int]) -> DenseAttention:
        seen = self.visible
        if seen is not None and seen.shape[1] > 1:
            seen = seen[:, heads]
        return DenseAttention(self.weights[:, heads], self.batch, self.index, seen)

    def row(self, query: int) -> Tensor:
        return self.weights[0, :, query]

    def column(self, key: int) -> Tensor:
        return self.weights[0, :, :, key]

    def over_heads(self) -> DenseAttention:
        seen = None if self.visible is None else self.visible.any(1, keepdim=True)
        return DenseAttention(self.weights.mean(1, keepdim=True), self.batch, self.index, seen)

    def plus(self, other: Attention) -> DenseAttention:
        theirs, seen = other.dense(), self.visible
        if seen is not None:
            seen = None if theirs.visible is None else seen | theirs.visible
        return DenseAttention(self.weights + theirs.weights, self.batch, self.index, seen)

    def times(self, other: Attention, positive: bool = False) -> DenseAttention:
        product = self.weights * other.dense().weights
        return self._like(product.relu() if positive else product)

    def absolute(self) -> DenseAttention:
        return self._like(self.weights.abs())

    def blocks(self, reach: int = 0) -> list[Tensor]:
        return [self.weights]

    def to_words(self) -> list[DenseAttention]:
        weights = self.weights.expand(self.n_texts, -1, -1, -1)  # uniform keeps one for all texts
        return [
            DenseAttention(
                words_from_tokens(weights[text], words)[None],
                self.batch.by_word(text),
                self.index,
                self._visible_words(text, words),
            )
            for text, words in enumerate(self.batch.words)
        ]

    def _visible_words(self, text: int, words: Words) -> Tensor | None:
        if self.visible is None:
            return None
        visible = self.visible[text if len(self.visible) > 1 else 0].float()
        return words_from_tokens(visible, words)[None] > 0

    def dense(self) -> DenseAttention:
        return self


def _visible_ranges(visible: Bools, n_texts: int) -> VisibleRanges:
    """What the rows of [text or 1, row, token] see."""
    n = visible.shape[-1]
    always: Bools = np.all(visible, axis=1)
    rest = visible & ~always[:, None]
    first = rest.argmax(-1)
    stop = np.where(rest.any(-1), n - rest[..., ::-1].argmax(-1), first)
    hidden = (np.arange(n) >= first[..., None]) & (np.arange(n) < stop[..., None]) & ~visible
    shape, holes = (n_texts, n), None
    if hidden.any():
        holes = np.broadcast_to(hidden, (n_texts, n, n))
    first, stop, always = (np.broadcast_to(one, shape).copy() for one in (first, stop, always))
    return VisibleRanges(first, stop, always, holes)


def bin_edges(n: int, size: int, span: int | None = None) -> Floats:
    """The edges of `size` equal bins over a text of n tokens, or over `span` positions.

    >>> bin_edges(6, 3), bin_edges(6, 2, 8)
    (array([0., 2., 4., 6.]), array([0., 4., 8.]))
    """
    return np.linspace(0.0, n if span is None else span, size + 1)


def overlaps(n: int, edges: Floats) -> Floats:
    """How much of each token lies in each bin: [token, bin].

    >>> overlaps(3, bin_edges(3, 2))
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    """
    token = np.arange(n)[:, None]
    return np.clip(np.minimum(token + 1, edges[1:]) - np.maximum(token, edges[:-1]), 0, None)


def giver_shares(members: Tensor, mean: bool) -> Tensor:
    """The share of each token in what its unit gives: [..., unit, token]."""
    return members / members.sum(-1, keepdim=True).clamp(min=1) if mean else members


def words_from_tokens(weights: Tensor, words: Words) -> Tensor:
    """From tokens to words: [head, query, key] -> [head, word, word]; rows still sum to one.

    *To* a word is the sum over its tokens, *from* a word the mean (Clark et al. 2019, section 4.1).
    """
    of = torch.from_numpy(words.of).to(weights.device)
    pieces = torch.bincount(of, minlength=len(words)).to(weights.dtype)
    heads, n = weights.shape[0], weights.shape[-1]
    rows = weights.new_zeros(heads, len(words), n).index_add_(1, of, weights / pieces[of][:, None])
    columns = weights.new_zeros(heads, len(words), len(words))
    return columns.index_add_(1, of, rows.transpose(1, 2)).transpose(1, 2)


def _top(values: Tensor, positions: Tensor, k: int) -> Top:
    """The k largest cells of each row of values [text, head, row, cell].

    `positions` is [text or 1, head or 1, row or 1, cell].
    """
    texts, heads = values.shape[:2]
    flat = values.detach().float().reshape(texts * heads, *values.shape[2:]).cpu().numpy()
    if len(positions) > texts:  # uniform keeps one for all texts
        return _top(values.expand(len(positions), -1, -1, -1), positions, k)
    if positions.shape[:2] != (1, 1):
        positions = positions.expand(texts, heads, -1, -1)
    keys = positions.flatten(0, 1).cpu().numpy()
    best, where = kernels.top_cells(np.ascontiguousarray(flat), np.ascontiguousarray(keys), k)
    return on_device((best, where), (texts, heads, -1, k), values.device)


def on_device(top: tuple[Array, Array], shape: Sequence[int], device: torch.device) -> Top:
    """What a compiled loop found, as tensors of this shape."""
    best, where = (torch.from_numpy(part).reshape(tuple(shape)).to(device) for part in top)
    return best, where


def same_visible(left: Tensor | None, right: Tensor | None) -> bool:
    """Whether two layers let the same keys be seen."""
    return left is right or (
        left is not None
        and right is not None
        and left.shape == right.shape
        and bool(torch.equal(left, right))
    )
