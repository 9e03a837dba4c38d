"""BandedAttention: a sliding window and a few global tokens, never the square matrix.

Columns are rows of the transposed band, a view, so each question is answered once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from attlas.core import band_kernels
from attlas.core.alignment import Words
from attlas.core.attention import (
    Attention,
    DenseAttention,
    Top,
    VisibleRanges,
    giver_shares,
    kernels_serve,
    on_device,
    row_entropy,
)
from attlas.core.batch import Batch
from attlas.support.arrays import Floats, Floats32, Ints

T = TypeVar("T")


class BandedAttention(Attention):
    """Attention kept as a band and global rows and columns.

    A query sees the keys at most `reach` away and the global tokens; a global token sees all tokens
    and is seen by all. The band is 0 outside the text, for global keys and in rows of global
    queries; the columns are 0 in rows of global queries.
      band              [text, head, query, 2 reach + 1]   weight on key query + offset
      columns           [text, head, query, global]        weight on each global token
      rows              [text, head, global, key]          the whole rows of the global queries
      global_positions  [text, global]                     positions of the global tokens
    Words see less: `seen` [text, query, 2 reach + 1] marks the cells that count, None means all.
    """

    def __init__(
        self,
        band: Tensor,
        columns: Tensor,
        rows: Tensor,
        global_positions: Tensor,
        batch: Batch,
        index: int = 0,
        seen: Tensor | None = None,
    ) -> None:
        self.band, self.columns, self.rows = band, columns, rows
        self.global_positions, self.batch, self.index = global_positions, batch, index
        self.seen = seen

    def _like(self, band: Tensor, columns: Tensor, rows: Tensor) -> BandedAttention:
        """Other weights of the same layer, which see the same."""
        rest = (self.global_positions, self.batch, self.index, self.seen)
        return BandedAttention(band, columns, rows, *rest)

    def by_form(
        self, *, dense: Callable[[DenseAttention], T], banded: Callable[[BandedAttention], T]
    ) -> T:
        return banded(self)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.band, self.columns, self.rows

    @property
    def reach(self) -> int:
        return int(self.band.shape[-1] // 2)

    @property
    def n_heads(self) -> int:
        return int(self.band.shape[1])

    @property
    def n_tokens(self) -> int:
        return int(self.band.shape[2])

    @cached_property
    def is_global(self) -> Tensor:
        """Which tokens are global: [text, token]."""
        out = torch.zeros(
            self.global_positions.shape[0], self.n_tokens, dtype=torch.bool, device=self.band.device
        )
        return out.scatter_(1, self.global_positions, True)

    @cached_property
    def keys(self) -> Tensor:
        """The key of each cell: [text, query, cell]; -1 outside the text and for global keys."""
        n = self.n_tokens
        key = torch.arange(n, device=self.band.device)[:, None] + torch.arange(
            -self.reach, self.reach + 1, device=self.band.device
        )
        inside = (key >= 0) & (key < n)
        counts = inside & ~self.is_global[:, key.clamp(0, n - 1)]
        return torch.where(counts if self.seen is None else counts & self.seen, key, -1)

    @cached_property
    def n_visible_keys(self) -> Tensor:
        seen = (self.keys >= 0).sum(-1) + self.global_positions.shape[1]
        return torch.where(self.is_global, self.n_tokens, seen)[:, None]

    @property
    def n_visible_queries(self) -> Tensor:
        return self.n_visible_keys  # the pattern is symmetric

    def visible_ranges(self, of_keys: bool = False) -> tuple[VisibleRanges, ...]:
        token, always = np.arange(self.n_tokens), self.is_global.cpu().numpy()
        first = np.where(always, 0, np.maximum(token - self.reach, 0))
        stop = np.where(always, self.n_tokens, np.minimum(token + self.reach + 1, self.n_tokens))
        return (VisibleRanges(first, stop, always),)

    @property
    def uniform(self) -> BandedAttention:
        # layers that see the same share it
        key = (
            "uniform",
            self.reach,
            self.global_positions.cpu().numpy().tobytes(),
            None if self.seen is None else id(self.seen),
        )
        return self.batch.once(key, lambda: (self._uniform(), self.seen))[0]

    def _uniform(self) -> BandedAttention:
        share = torch.where(self.is_global, 0.0, 1.0 / self.n_visible_keys[:, 0])  # text query
        band = (self.keys >= 0) * share[..., None]
        columns = share[..., None].expand(-1, -1, self.global_positions.shape[1])
        rows = torch.full(
            (*self.global_positions.shape, self.n_tokens),
            1.0 / self.n_tokens,
            device=self.band.device,
        )
        return self._like(band[:, None], columns[:, None], rows[:, None])

    @cached_property
    def transposed(self) -> BandedAttention:
        """Keys as rows and queries as columns; its band is a view of this one."""
        texts, heads, n, width = self.band.shape
        padded = torch.nn.functional.pad(self.band, (0, 0, self.reach, self.reach))
        size, first = (n + 2 * self.reach) * width, self.reach * width + self.reach
        band = padded.as_strided(
            (texts, heads, n, width),
            (heads * size, size, width, width - 1),
            first - self.reach * (width - 1),
        )
        count = self.global_positions.shape[1]
        per_row = self.global_positions[:, None, None].expand(-1, heads, count, -1)
        columns = self.rows.transpose(-1, -2) * ~self.is_global[:, None, :, None]
        between = self.rows.gather(-1, per_row)  # text head global(query) global(key)
        rows = self.columns.transpose(-1, -2).clone()
        rows.scatter_(-1, per_row, between.transpose(-1, -2))
        return self._like(band, columns, rows)

    def _with_rows(self, local: Tensor, whole: Tensor) -> Tensor:
        """Values of local rows [text, head, query] and of global ones [text, head, global]."""
        positions = self.global_positions[:, None, :].expand(-1, local.shape[1], -1)
        return local.scatter(-1, positions, whole)

    @cached_property
    def received(self) -> Tensor:
        if kernels_serve(self.band):
            flat = band_kernels.received(*self._arrays, self._global_positions, self._of)
            return torch.from_numpy(flat).reshape(*self.band.shape[:2], -1)
        keys = self.transposed
        return keys._with_rows(keys.band.sum(-1) + keys.columns.sum(-1), keys.rows.sum(-1))

    @cached_property
    def _arrays(self) -> tuple[Floats32, ...]:
        """Band, columns and rows as arrays [head of a text, ...] for compiled loops."""
        parts = (part.detach().float().cpu().numpy() for part in self.parts)
        heads = (part.reshape(len(part) * self.n_heads, *part.shape[2:]) for part in parts)
        return tuple(map(np.ascontiguousarray, heads))

    @cached_property
    def _global_positions(self) -> Ints:
        return np.ascontiguousarray(self.global_positions.cpu().numpy())

    @cached_property
    def _of(self) -> Ints:
        """The text of each head of each text."""
        return np.arange(self.band.shape[0]).repeat(self.n_heads)

    def propagate(self, amounts: Tensor) -> Tensor:
        return self.transposed.mass_to(amounts)

    def row_entropy(self) -> Tensor:
        band, columns, rows = map(row_entropy, self.parts)
        return self._with_rows(band + columns, rows)

    def mass_to(self, keys: Tensor) -> Tensor:
        marked = keys.to(self.band.dtype)
        padded = torch.nn.functional.pad(marked, (self.reach, self.reach))
        window = padded.unfold(-1, self.band.shape[-1], 1)  # text query cell
        local = torch.einsum("thqc,tqc->thq", self.band, window.expand(self.band.shape[0], -1, -1))
        to_global = marked.gather(1, self.global_positions)
        local = local + torch.einsum("thqg,tg->thq", self.columns, to_global)
        return self._with_rows(local, torch.einsum("thgk,tk->thg", self.rows, marked))

    def between_units(self, members: Tensor, mean: bool = True) -> Tensor:
        units = []
        for text, mine in enumerate(members):
            tokens = torch.nonzero(mine.any(0))[:, 0]
            cells = self._between_tokens(text, tokens)
            to = mine[:, tokens].to(cells)
            units.append(giver_shares(to, mean) @ cells @ to.T)
        return torch.stack(units)

    def _between_tokens(self, text: int, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self.band.device)
        offset = tokens - tokens[:, None]
        near = offset.abs() <= self.reach
        cell = torch.where(near, offset + self.reach, 0)
        out = self.band[text][:, tokens[:, None], cell] * near
        for number, position in enumerate(self.global_positions[text]):
            here = tokens == position  # one of them, or none
            out[:, :, here] += self.columns[text][:, tokens, number, None]
            out[:, here] += self.rows[text][:, None, number, tokens]
        return out

    def _by_offset(self, reach: int) -> Tensor:
        n, half = self.n_tokens, self.reach
        out = self.band.new_zeros(*self.band.shape[:2], 2 * reach + 3)
        offsets = torch.arange(-half, half + 1, device=self.band.device)
        out.index_add_(-1, offsets.clamp(-reach - 1, reach + 1) + reach + 1, self.band.sum(-2))
        tokens = torch.arange(n, device=self.band.device)
        apart = self.global_positions[:, None, :] - tokens[:, None]  # text query global
        for offset, weights in ((apart, self.columns), (-apart.transpose(-1, -2), self.rows)):
            bins = offset.clamp(-reach - 1, reach + 1) + reach + 1
            flat = bins.flatten(1)[:, None].expand(-1, weights.shape[1], -1)
            out.scatter_add_(-1, flat, weights.flatten(2))
        return out / n

    def top_keys(self, k: int, mask: Tensor | None = None) -> Top:
        return self._top(band_kernels.top_keys, k, mask)

    def top_queries(self, k: int, mask: Tensor | None = None) -> Top:
        return self._top(band_kernels.top_queries, k, mask)

    def _top(self, kernel: Callable[..., Any], k: int, mask: Tensor | None) -> Top:
        shape = (self.band.shape[0], self.n_tokens)
        kept = np.ones(shape, bool) if mask is None else np.array(mask.cpu().expand(*shape).numpy())
        seen = np.ones((0, 0, 0), dtype=bool) if self.seen is None else self.seen.cpu().numpy()
        best, where = kernel(*self._arrays, self._global_positions, seen, kept, self._of, k)
        return on_device((best, where), (*self.band.shape[:3], k), self.band.device)

    def _between_bins(self, edges: Floats, text: int | None) -> Tensor:
        if edges[1] - edges[0] < 1:  # more bins than tokens
            return self.dense()._between_bins(edges, text)
        arrays, of = self._arrays, self._of
        if text is not None:
            some = slice(text * self.n_heads, (text + 1) * self.n_heads)
            arrays, of = tuple(part[some] for part in arrays), of[some]
        size, length = len(edges) - 1, edges[1] - edges[0]
        # bins after the last edge, which are dropped
        beyond = max(0, math.ceil((self.n_tokens - edges[-1]) / length))
        all_edges = np.append(edges, edges[-1] + length * np.arange(1, beyond + 1))
        sums = band_kernels.grid(*arrays, self._global_positions, of, all_edges, self.n_heads)
        return torch.from_numpy(sums[:, :size, :size]).to(self.band.device)

    def of_text(self, text: int) -> BandedAttention:
        one = slice(text, text + 1)
        seen = self.seen if self.seen is None or len(self.seen) == 1 else self.seen[one]
        band, columns, rows = (part[one] for part in self.parts)
        rest = (self.global_positions[one], self.batch.of_text(text), self.index, seen)
        return BandedAttention(band, columns, rows, *rest)

    def of_heads(self, heads: slice | list[int]) -> BandedAttention:
        return self._like(*(part[:, heads] for part in self.parts))

    def row(self, query: int) -> Tensor:
        positions = self.global_positions[0]
        if bool(self.is_global[0, query]):
            return self.rows[0, :, int((positions == query).nonzero()[0, 0])]
        first, stop = max(query - self.reach, 0), min(query + self.reach + 1, self.n_tokens)
        out = self.band.new_zeros(self.n_heads, self.n_tokens)
        shift = self.reach - query
        out[:, first:stop] = self.band[0, :, query, first + shift : stop + shift]
        out[:, positions] = self.columns[0, :, query]
        return out

    def column(self, key: int) -> Tensor:
        positions = self.global_positions[0]
        if bool(self.is_global[0, key]):
            out = self.columns[0, :, :, int((positions == key).nonzero()[0, 0])].clone()
        else:
            first, stop = max(key - self.reach, 0), min(key + self.reach + 1, self.n_tokens)
            queries = torch.arange(first, stop, device=self.band.device)
            out = self.band.new_zeros(self.n_heads, self.n_tokens)
            out[:, first:stop] = self.band[0, :, queries, key - queries + self.reach]
        out[:, positions] = self.rows[0, :, :, key]
        return out

    def over_heads(self) -> BandedAttention:
        return self._like(*(part.mean(1, keepdim=True) for part in self.parts))

    def plus(self, other: Attention) -> Attention:
        by_words = self.seen is not None or getattr(other, "seen", None) is not None
        if by_words or not isinstance(other, BandedAttention):
            return self.dense().plus(other)
        reach = max(self.reach, other.reach)
        mine, theirs = (
            torch.nn.functional.pad(one.band, (reach - one.reach, reach - one.reach))
            for one in (self, other)
        )
        return self._like(mine + theirs, self.columns + other.columns, self.rows + other.rows)

    def times(self, other: Attention, positive: bool = False) -> Attention:
        if not isinstance(other, BandedAttention) or other.reach != self.reach:
            return self.dense().times(other, positive)
        products = (mine * theirs for mine, theirs in zip(self.parts, other.parts, strict=True))
        return self._like(*(product.relu() if positive else product for product in products))

    def absolute(self) -> BandedAttention:
        return self._like(*(part.abs() for part in self.parts))

    def blocks(self, reach: int = 0) -> list[Tensor]:
        more = max(reach - self.reach, 0)
        return [
            torch.cat([torch.nn.functional.pad(self.band, (more, more)), self.columns], -1),
            self.rows,
        ]

    def to_words(self) -> list[BandedAttention]:
        return [self._to_words(text, words) for text, words in enumerate(self.batch.words)]

    def _to_words(self, text: int, words: Words) -> BandedAttention:
        """One text: a word sees what one of its tokens sees; with a global token it is global."""
        of = torch.from_numpy(words.of).to(self.band.device)
        keys = self.keys[text]
        query, cell = torch.nonzero(keys >= 0, as_tuple=True)
        key = keys[query, cell]
        # how far a token sees, in words
        half = int((of[key] - of[query]).abs().max()) if len(key) else 0
        count, heads, width = len(words), self.n_heads, 2 * half + 1
        share = 1.0 / torch.bincount(of, minlength=count).to(self.band.dtype)[of]  # token
        global_positions = torch.unique(of[self.global_positions[text]])
        order = torch.full((count,), -1, device=of.device).scatter_(
            0, global_positions, torch.arange(len(global_positions), device=of.device)
        )
        band = self.band.new_zeros(heads, count * width)
        columns = self.band.new_zeros(heads, count * len(global_positions))
        rows = self.band.new_zeros(heads, len(global_positions) * count)

        def add(query: Tensor, key: Tensor, weights: Tensor) -> None:
            """Add cells (query, key, [head, cell]) to the band, columns and rows of words."""
            source, target = of[query], of[key]
            value = weights * share[query]
            from_global, to_global = order[source] >= 0, order[target] >= 0
            for out, chosen, position in (
                (rows, from_global, order[source] * count + target),
                (columns, ~from_global & to_global, source * len(global_positions) + order[target]),
                (band, ~from_global & ~to_global, source * width + target - source + half),
            ):
                out.index_add_(1, position[chosen], value[:, chosen])

        add(query, key, self.band[text][:, query, cell])
        seen = torch.zeros(1, count, width, dtype=torch.bool, device=of.device)
        seen[0, of[query], of[key] - of[query] + half] = True
        tokens = torch.arange(self.n_tokens, device=of.device)
        for number, position in enumerate(self.global_positions[text]):
            add(tokens, position.expand(self.n_tokens), self.columns[text, :, :, number])
            add(position.expand(self.n_tokens), tokens, self.rows[text, :, number])
        shape = (1, heads, count)
        band, columns, rows = (
            band.reshape(*shape, width),
            columns.reshape(*shape, len(global_positions)),
            rows.reshape(1, heads, len(global_positions), count),
        )
        return BandedAttention(
            band, columns, rows, global_positions[None], self.batch.by_word(text), self.index, seen
        )

    def dense(self) -> DenseAttention:
        weights = _square(*self.parts, self.global_positions)
        texts, count = self.global_positions.shape
        band = (self.keys >= 0).to(self.band.dtype)[:, None]
        columns = self.columns.new_ones(texts, 1, self.n_tokens, count)
        rows = self.rows.new_ones(texts, 1, count, self.n_tokens)
        seen = _square(band, columns, rows, self.global_positions)
        return DenseAttention(weights, self.batch, self.index, seen[:, 0] > 0)


def _square(band: Tensor, columns: Tensor, rows: Tensor, global_positions: Tensor) -> Tensor:
    """The square form of a band with its global columns and rows: [text, head, query, key]."""
    texts, heads, n, width = band.shape
    reach = width // 2
    wide = band.new_zeros(texts, heads, n, n + 2 * reach)
    line = n + 2 * reach
    wide.as_strided((texts, heads, n, width), (heads * n * line, n * line, line + 1, 1)).copy_(band)
    out = wide[..., reach : reach + n].contiguous()
    across = global_positions[:, None, None, :].expand(texts, heads, n, -1)
    out.scatter_(-1, across, columns)
    down = global_positions[:, None, :, None].expand(texts, heads, -1, n)
    return out.scatter_(2, down, rows.expand(texts, heads, -1, -1))
