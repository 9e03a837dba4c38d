"""Longformer's attention in blocks: faster than transformers, with less memory, without padding.

transformers splits keys into overlapping chunks, computes twice the cells of the window, copies
them to diagonals, and pads every text to a multiple of the window. Here a block of queries is
multiplied only with the keys it can see; its weights go to the band and are dropped. Without
gradients the projections of global tokens are folded: scores are (q W) x instead of q (W x), which
is cheap for few global tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attlas.core.attention import Attention
from attlas.core.banded import BandedAttention
from attlas.core.batch import Batch
from attlas.models.gradients import gradient_of, keep_gradient, wide
from attlas.models.install import Undo, replace_method
from attlas.models.norms import unknown
from attlas.support.errors import CaptureError

if TYPE_CHECKING:
    from attlas.models.capture import Observer

BLOCK = 128  # queries in one product
CELLS = 2**22  # cells computed at a time, over heads and texts


def install(scope: nn.Module, observers_of: Callable[[nn.Module], list[Observer]]) -> Undo:
    """Compute every Longformer attention of a network in blocks; return how to undo it."""
    undo: Undo = []
    for module in scope.modules():
        if type(module).__name__ == "LongformerSelfAttention":
            undo.append(replace_method(module, "forward", _Forward(module, observers_of)))
        elif hasattr(module, "_pad_to_window_size"):
            undo.append(replace_method(module, "_pad_to_window_size", _without_padding))
    return undo


def _without_padding(
    input_ids: Any,
    attention_mask: Any,
    token_type_ids: Any,
    position_ids: Any,
    inputs_embeds: Any,
    pad_token_id: int,
) -> tuple[Any, ...]:
    """Replaces padding to a multiple of the window: blocks take any length."""
    return 0, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds


@dataclass
class BandWeights:
    """One layer's weights as computed: blocks of rows, and the full rows of global tokens.

    A block [text, head, block, query, global + key] has the weights on global tokens, then on keys
    from `reach` before its first query.
    """

    reach: int
    n: int
    positions: Tensor  # text global: of the global tokens
    keep: bool = False  # the blocks, for their gradients
    band: Tensor | None = None
    columns: Tensor | None = None
    rows: Tensor | None = None  # text head global key
    blocks: list[Tensor] = field(default_factory=list)

    def take(self, start: int, block: Tensor) -> None:
        """Take the weights of the queries from `start` on."""
        if self.keep:
            self.blocks.append(block)
        if self.band is None or self.columns is None:
            self.band, self.columns = self._empty(block)
        _unskew(block.detach(), self.band, self.columns, start, self.reach)

    def _empty(self, block: Tensor) -> tuple[Tensor, Tensor]:
        """An empty band, and empty columns of global tokens."""
        rows = (*block.shape[:2], self.n)
        band = block.new_empty(*rows, 2 * self.reach + 1, dtype=wide(block))
        return band, band.new_empty(*rows, self.positions.shape[1])

    def attention(self, batch: Batch, index: int) -> Attention:
        if self.band is None or self.columns is None:
            raise CaptureError("Longformer yielded no weights")
        rows = None if self.rows is None else self.rows.detach()
        layer = self._banded(batch, index, self.band, self.columns, rows)
        layer.gradient_source = lambda: self._gradient(batch, index)
        return layer

    def _banded(
        self, batch: Batch, index: int, band: Tensor, columns: Tensor, rows: Tensor | None
    ) -> BandedAttention:
        down = self.positions[:, None, :].expand(-1, band.shape[1], -1)
        for part in (band, columns):  # rows of global queries are in `rows`
            part.scatter_(2, down[..., None].expand(-1, -1, -1, part.shape[-1]), 0.0)
        rows = band.new_zeros(*band.shape[:2], 0, self.n) if rows is None else rows.to(band.dtype)
        return BandedAttention(band, columns, rows.contiguous(), self.positions, batch, index)

    def keep_gradient(self) -> None:
        for weights in (*self.blocks, *([] if self.rows is None else [self.rows])):
            keep_gradient(weights)

    def _gradient(self, batch: Batch, index: int) -> BandedAttention:
        band, columns = self._empty(self.blocks[0])
        start = 0
        for block in self.blocks:
            _unskew(gradient_of(block), band, columns, start, self.reach)
            start += block.shape[2] * block.shape[3]
        _clear_hidden(band, self.positions, self.n)
        rows = None if self.rows is None else self.rows.grad
        return self._banded(batch, index, band, columns, rows)


def _unskew(block: Tensor, band: Tensor, columns: Tensor, start: int, reach: int) -> None:
    """Copy a block's weights to the band: the window of its query i is keys i to i + 2 reach."""
    texts, heads, count, size, width = block.shape
    globals_, window = columns.shape[-1], 2 * reach + 1
    stop = min(start + count * size, band.shape[2])
    block = block.contiguous()
    diagonal = block.as_strided(
        (texts, heads, count, size, window),
        (heads * count * size * width, count * size * width, size * width, width + 1, 1),
        block.storage_offset() + globals_,
    )
    full = (stop - start) // size  # blocks that are entirely in the text; the last may not be
    middle = start + full * size
    target = band[:, :, start:middle].view(texts, heads, full, size, window)
    target.copy_(diagonal[:, :, :full])
    if full < count:
        band[:, :, middle:stop] = diagonal[:, :, full, : stop - middle]
    to_global = block[..., :globals_].reshape(texts, heads, count * size, globals_)
    columns[:, :, start:stop] = to_global[:, :, : stop - start]


def _clear_hidden(band: Tensor, positions: Tensor, n: int) -> None:
    """Put 0 where the band has no weight: outside the text and at global keys."""
    reach = band.shape[-1] // 2
    offsets = torch.arange(-reach, reach + 1, device=band.device)
    key = torch.arange(n, device=band.device)[:, None] + offsets
    hidden = (key < 0) | (key >= n)
    is_global = torch.zeros(len(positions), n, dtype=torch.bool, device=band.device)
    is_global.scatter_(1, positions, True)
    band.masked_fill_((hidden | is_global[:, key.clamp(0, n - 1)])[:, None], 0.0)


@dataclass(frozen=True)
class _Globals:
    """The global tokens of each text; texts may have different numbers."""

    positions: Tensor  # text global
    real: Tensor  # text global: False for entries of texts with fewer

    @classmethod
    def of(cls, is_global: Tensor) -> _Globals:
        """From which tokens [text, token] are global."""
        counts = is_global.sum(1)
        most = int(counts.max()) if len(counts) else 0
        positions = is_global.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        return cls(positions, torch.arange(most, device=is_global.device) < counts[:, None])

    @property
    def count(self) -> int:
        return int(self.positions.shape[1])


@dataclass(frozen=True)
class _Blocks:
    """The geometry of the blocks of a text of `n` tokens."""

    n: int
    reach: int

    @property
    def size(self) -> int:
        return min(BLOCK, self.n)

    @property
    def count(self) -> int:
        return -(-self.n // self.size)

    @property
    def missing(self) -> int:
        """Tokens that the last block is short of."""
        return self.count * self.size - self.n

    def queries(self, heads: Tensor) -> Tensor:
        """[text, head, token, dimension] -> [text, head, block, query, dimension]."""
        padded = nn.functional.pad(heads, (0, 0, 0, self.missing))
        return padded.view(*heads.shape[:2], self.count, self.size, heads.shape[-1])

    def keys(self, heads: Tensor) -> Tensor:
        """[text, head, token, dimension] -> [text, head, block, dimension, key]."""
        padded = nn.functional.pad(heads, (0, 0, self.reach, self.missing + self.reach))
        return padded.unfold(2, self.size + 2 * self.reach, self.size)

    def hidden(self, hidden: Tensor) -> Tensor:
        """Which keys [text, token] are hidden, or outside the text: [text, block, key]."""
        padded = nn.functional.pad(hidden, (self.reach, self.missing + self.reach), value=True)
        return padded.unfold(1, self.size + 2 * self.reach, self.size)

    def outside(self, device: torch.device) -> Tensor:
        """Which keys of a block are outside a query's window: [query, key]."""
        keys = torch.arange(self.size + 2 * self.reach, device=device)
        offset = keys - torch.arange(self.size, device=device)[:, None]
        return (offset < 0) | (offset > 2 * self.reach)


class _Forward:
    """The forward of one LongformerSelfAttention, with the same arguments and results."""

    def __init__(
        self, module: nn.Module, observers_of: Callable[[nn.Module], list[Observer]]
    ) -> None:
        self.module, self.observers_of = module, observers_of

    def __call__(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        is_index_masked: Tensor | None = None,
        is_index_global_attn: Tensor | None = None,
        is_global_attn: bool | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        module: Any = self.module
        observers = self.observers_of(module)
        texts, n, width = hidden_states.shape
        none = torch.zeros(texts, n, dtype=torch.bool, device=hidden_states.device)
        masked = none if is_index_masked is None else is_index_masked
        hidden = none if attention_mask is None else attention_mask != 0
        globals_ = _Globals.of(none if is_index_global_attn is None else is_index_global_attn)
        keep = any(observer.gradients for observer in observers)
        band = BandWeights(module.one_sided_attn_window_size, n, globals_.positions, keep)
        wanted = output_attentions or any(observer.sink is not None for observer in observers)
        take = band.take if wanted else None
        heads = self._local(hidden_states, hidden, masked, globals_, take)
        if globals_.count:
            heads, band.rows = self._global_rows(hidden_states, heads, masked, globals_)
        for observer in observers:
            heads = observer.gated(heads)
        out: tuple[Tensor, ...] = (heads.reshape(texts, n, width),)
        if output_attentions and band.band is not None and band.columns is not None:
            cells = torch.cat([band.columns, band.band], -1)
            if is_index_global_attn is not None:
                cells = cells.masked_fill(is_index_global_attn[:, None, :, None], 0.0)
            out += (cells.transpose(1, 2), *([] if band.rows is None else [band.rows]))
        for observer in observers:
            if observer.lens is not None and observer.sink is not None:
                raise unknown(self.module)
            observer.on_layer(band, module)
        return out

    def _heads(self, states: Tensor) -> Tensor:
        """[text, token, width] -> [text, head, token, dimension]."""
        module: Any = self.module
        return states.view(*states.shape[:2], module.num_heads, module.head_dim).transpose(1, 2)

    def _local(
        self,
        states: Tensor,
        hidden: Tensor,
        masked: Tensor,
        globals_: _Globals,
        take: Callable[[int, Tensor], None] | None,
    ) -> Tensor:
        """The output from windows and global tokens: [text, token, head, dimension].

        `hidden` keys are not in any window; the rows of `masked` queries are 0.
        """
        module: Any = self.module
        texts, n, _ = states.shape
        blocks = _Blocks(n, module.one_sided_attn_window_size)
        query = self._heads(module.query(states) / math.sqrt(module.head_dim))
        key, value = self._heads(module.key(states)), self._heads(module.value(states))
        positions = globals_.positions[:, None, :, None].expand(*key.shape[:2], -1, key.shape[-1])
        key_global, value_global = (part.gather(2, positions) for part in (key, value))
        query, keys = blocks.queries(query), blocks.keys(key)
        values = blocks.keys(value).transpose(-1, -2)
        hidden_keys, outside = blocks.hidden(hidden), blocks.outside(states.device)
        masked_queries = None
        if bool(masked.any()):
            padded = nn.functional.pad(masked, (0, blocks.missing))
            masked_queries = padded.view(texts, 1, blocks.count, blocks.size, 1)
        cells = math.prod(query.shape[:2]) * blocks.size * (keys.shape[-1] + globals_.count)
        step = max(1, CELLS // cells)
        parts = []
        for first in range(0, blocks.count, step):
            some = slice(first, first + step)
            scores = torch.matmul(query[:, :, some], keys[:, :, some])  # text head block query key
            scores = _fill_lowest(scores, outside | hidden_keys[:, None, some, None])
            if globals_.count:
                to_global = torch.matmul(query[:, :, some], key_global[:, :, None].mT)
                lowest = torch.finfo(scores.dtype).min
                to_global = to_global.masked_fill(~globals_.real[:, None, None, None], lowest)
                scores = torch.cat([to_global, scores], -1)
            weights = torch.softmax(scores, -1, dtype=torch.float32).type_as(scores)
            del scores
            if masked_queries is not None:
                weights = weights.masked_fill(masked_queries[:, :, some], 0.0)
            if take is not None:
                take(first * blocks.size, weights)
            used = nn.functional.dropout(weights, module.dropout, module.training)
            output = torch.matmul(used[..., globals_.count :], values[:, :, some])
            if globals_.count:
                from_global = used[..., : globals_.count]
                output = output + torch.matmul(from_global, value_global[:, :, None])
            parts.append(output.flatten(2, 3))
        return torch.cat(parts, 2)[:, :, :n].transpose(1, 2)

    def _global_rows(
        self, states: Tensor, heads: Tensor, masked: Tensor, globals_: _Globals
    ) -> tuple[Tensor, Tensor]:
        """The heads' output with that of global tokens; their rows [text, head, global, key]."""
        module: Any = self.module
        count, size = module.num_heads, module.head_dim
        positions = globals_.positions
        some = states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
        query = (module.query_global(some) / math.sqrt(size)).unflatten(-1, (count, size))
        scores = self._global_scores(states, query)
        scores = scores.masked_fill(masked[:, None, None], torch.finfo(scores.dtype).min)
        rows = torch.softmax(scores, -1, dtype=torch.float32).type_as(scores)
        used = nn.functional.dropout(rows, module.dropout, module.training)
        value = self._global_values(states, used).to(heads.dtype)  # text global head dimension
        if bool(globals_.real.all()):
            index = positions[..., None, None].expand(-1, -1, count, size)
            return heads.scatter(1, index, value), rows
        text, number = globals_.real.nonzero(as_tuple=True)  # in a padded batch
        return heads.index_put((text, positions[text, number]), value[text, number]), rows

    def _global_scores(self, states: Tensor, query: Tensor) -> Tensor:
        """The scores [text, head, global, key] of queries [text, global, head, dimension]."""
        module: Any = self.module
        by_head = (module.num_heads, module.head_dim)
        if torch.is_grad_enabled():  # so that the projection itself can be differentiated
            key = module.key_global(states).unflatten(-1, by_head)
            return torch.einsum("tghd,tnhd->thgn", query, key)
        weight = module.key_global.weight.unflatten(0, by_head)  # head dimension width
        folded = torch.einsum("tghd,hdw->thgw", query, weight)
        shift = torch.einsum("tghd,hd->thg", query, module.key_global.bias.unflatten(0, by_head))
        scores = torch.matmul(folded.flatten(1, 2), states.transpose(1, 2))
        return scores.view(len(states), by_head[0], -1, states.shape[1]) + shift[..., None]

    def _global_values(self, states: Tensor, rows: Tensor) -> Tensor:
        """The output of global rows [text, head, global, key]: [text, global, head, dimension]."""
        module: Any = self.module
        by_head = (module.num_heads, module.head_dim)
        if torch.is_grad_enabled():
            every = module.value_global(states).unflatten(-1, by_head)
            return torch.einsum("thgn,tnhd->tghd", rows, every)
        mixed = torch.matmul(rows.flatten(1, 2), states).view(*rows.shape[:3], states.shape[-1])
        weight = module.value_global.weight.unflatten(0, by_head)
        bias = module.value_global.bias.unflatten(0, by_head)
        value = torch.einsum("thgw,hdw->tghd", mixed, weight)
        return value + bias * rows.sum(-1).transpose(1, 2)[..., None]


def _fill_lowest(scores: Tensor, hidden: Tensor) -> Tensor:
    """Scores with the smallest number where hidden, in place unless a gradient is needed."""
    lowest = torch.finfo(scores.dtype).min
    if torch.is_grad_enabled():
        return scores.masked_fill(hidden, lowest)
    return scores.masked_fill_(hidden, lowest)
