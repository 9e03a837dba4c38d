"""Longformer's attention in blocks: what transformers computes, several times faster, in a fraction of the memory, and without padding.

transformers cuts keys in overlapping chunks, works out twice the cells of the window, copies them to diagonals, and pads every text to a
multiple of the window. Here a block of queries meets just the keys it can see; its weights go to the band and are forgotten. The
projections of global tokens are folded where nothing is learned: scores are (q W) x instead of q (W x), which costs nothing for few global tokens.
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
from attlas.support.errors import CaptureError

if TYPE_CHECKING:
    from attlas.models.capture import Observer

BLOCK = 128  # queries that meet their keys in one product
CELLS = 2**22  # cells worked out at a time, over heads and texts


def fit(scope: nn.Module, observers_of: Callable[[nn.Module], list[Observer]]) -> Undo:
    """Let every Longformer attention of a network work in blocks; how to undo it."""
    undo: Undo = []
    for module in scope.modules():
        if type(module).__name__ == "LongformerSelfAttention":
            undo.append(replace_method(module, "forward", _Forward(module, observers_of)))
        elif hasattr(module, "_pad_to_window_size"):
            undo.append(replace_method(module, "_pad_to_window_size", _as_it_is))
    return undo


def _as_it_is(
    input_ids: Any,
    attention_mask: Any,
    token_type_ids: Any,
    position_ids: Any,
    inputs_embeds: Any,
    pad_token_id: int,
) -> tuple[Any, ...]:
    """In the place of padding to a multiple of the window: blocks take any length."""
    return 0, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds


@dataclass
class BandSeen:
    """One layer's weights as they were computed: blocks of rows, and the whole rows of the global tokens [text, head, global, key].

    A block [text, head, block, query, global + key] holds the weights on the global tokens and then on the keys from `reach` before its first query on.
    """

    reach: int
    n: int
    places: Tensor  # text global
    keep: bool = False  # the blocks, for their gradients
    band: Tensor | None = None
    columns: Tensor | None = None
    rows: Tensor | None = None
    blocks: list[Tensor] = field(default_factory=list)

    def take(self, start: int, block: Tensor) -> None:
        """Take the weights of the queries from `start` on."""
        if self.keep:
            self.blocks.append(block)
        if self.band is None or self.columns is None:
            texts, heads, count = *block.shape[:2], self.places.shape[1]
            self.band = torch.empty(
                texts, heads, self.n, 2 * self.reach + 1, dtype=wide(block), device=block.device
            )
            self.columns = torch.empty(
                texts, heads, self.n, count, dtype=wide(block), device=block.device
            )
        _unskew(block.detach(), self.band, self.columns, start, self.reach)

    def attention(self, batch: Batch, index: int) -> Attention:
        if self.band is None or self.columns is None:
            raise CaptureError("Longformer showed no weights")
        rows = (
            self.band.new_zeros(*self.band.shape[:2], 0, self.n)
            if self.rows is None
            else self.rows.detach().to(self.band.dtype)
        )
        layer = self._made(batch, index, self.band, self.columns, rows)
        layer.gradient_source = lambda: self._gradient(batch, index)
        return layer

    def _made(
        self, batch: Batch, index: int, band: Tensor, columns: Tensor, rows: Tensor
    ) -> BandedAttention:
        down = self.places[:, None, :].expand(-1, band.shape[1], -1)
        for part in (band, columns):  # rows of global queries stand in `rows`
            part.scatter_(2, down[..., None].expand(-1, -1, -1, part.shape[-1]), 0.0)
        return BandedAttention(band, columns, rows.contiguous(), self.places, batch, index)

    def keep_gradient(self) -> None:
        for weights in (*self.blocks, *([] if self.rows is None else [self.rows])):
            keep_gradient(weights)

    def _gradient(self, batch: Batch, index: int) -> BandedAttention:
        band = self.blocks[0].new_empty(
            *self.blocks[0].shape[:2], self.n, 2 * self.reach + 1, dtype=wide(self.blocks[0])
        )
        columns = band.new_empty(*band.shape[:3], self.places.shape[1])
        start = 0
        for block in self.blocks:
            _unskew(gradient_of(block), band, columns, start, self.reach)
            start += block.shape[2] * block.shape[3]
        _clear_unseen(band, self.places, self.n)
        rows = band.new_zeros(*band.shape[:2], 0, self.n)
        if self.rows is not None and self.rows.grad is not None:
            rows = self.rows.grad.to(band.dtype)
        return self._made(batch, index, band, columns, rows)


def _unskew(block: Tensor, band: Tensor, columns: Tensor, start: int, reach: int) -> None:
    """Copy a block's weights to their rows of the band: query i of a block has its window at the keys i to i + 2 reach."""
    texts, heads, count, size, width = block.shape
    globals_, window, stop = (
        columns.shape[-1],
        2 * reach + 1,
        min(start + count * size, band.shape[2]),
    )
    block = block.contiguous()
    diagonal = block.as_strided(
        (texts, heads, count, size, window),
        (heads * count * size * width, count * size * width, size * width, width + 1, 1),
        block.storage_offset() + globals_,
    )
    whole = (stop - start) // size  # blocks that lie in the text altogether; the last may not
    band[:, :, start : start + whole * size].view(texts, heads, whole, size, window).copy_(
        diagonal[:, :, :whole]
    )
    if whole < count:
        band[:, :, start + whole * size : stop] = diagonal[
            :, :, whole, : stop - start - whole * size
        ]
    columns[:, :, start:stop] = block[..., :globals_].reshape(texts, heads, count * size, globals_)[
        :, :, : stop - start
    ]


def _clear_unseen(band: Tensor, places: Tensor, n: int) -> None:
    """Put 0 where the band has no weight: outside the text and at global keys."""
    reach = band.shape[-1] // 2
    key = torch.arange(n, device=band.device)[:, None] + torch.arange(
        -reach, reach + 1, device=band.device
    )
    hidden = (key < 0) | (key >= n)
    is_global = torch.zeros(len(places), n, dtype=torch.bool, device=band.device).scatter_(
        1, places, True
    )
    band.masked_fill_((hidden | is_global[:, key.clamp(0, n - 1)])[:, None], 0.0)


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
        nothing = torch.zeros(texts, n, dtype=torch.bool, device=hidden_states.device)
        masked = nothing if is_index_masked is None else is_index_masked
        places, real = _places(nothing if is_index_global_attn is None else is_index_global_attn)
        wanted = output_attentions or any(observer.sink is not None for observer in observers)
        seen = BandSeen(
            module.one_sided_attn_window_size,
            n,
            places,
            any(observer.gradients for observer in observers),
        )
        heads = self._local(
            hidden_states,
            nothing if attention_mask is None else attention_mask != 0,
            masked,
            places,
            real,
            seen,
            wanted,
        )
        if places.shape[1]:
            heads, seen.rows = self._whole_rows(hidden_states, heads, masked, places, real)
        for observer in observers:
            heads = observer.gated(heads)
        out: tuple[Tensor, ...] = (heads.reshape(texts, n, width),)
        if output_attentions and seen.band is not None and seen.columns is not None:
            cells = torch.cat([seen.columns, seen.band], -1)
            if is_index_global_attn is not None:
                cells = cells.masked_fill(is_index_global_attn[:, None, :, None], 0.0)
            out += (cells.transpose(1, 2), *([] if seen.rows is None else [seen.rows]))
        for observer in observers:
            observer.see(seen, module)
        return out

    def _local(
        self,
        states: Tensor,
        hidden: Tensor,
        masked: Tensor,
        places: Tensor,
        real: Tensor,
        seen: BandSeen,
        wanted: bool,
    ) -> Tensor:
        """What each token gathers from its window and the global tokens: [text, token, head, dimension]. `hidden` keys are out of the window."""
        module: Any = self.module
        texts, n, _ = states.shape
        count, size, reach = module.num_heads, module.head_dim, seen.reach
        query = (module.query(states) / math.sqrt(size)).view(texts, n, count, size).transpose(1, 2)
        key = (
            module.key(states).view(texts, n, count, size).transpose(1, 2)
        )  # text head token dimension
        value = module.value(states).view(texts, n, count, size).transpose(1, 2)
        few = places[:, None, :, None].expand(-1, count, -1, size)
        key_global, value_global = key.gather(2, few), value.gather(2, few)
        block = min(BLOCK, n)
        number = -(-n // block)
        after = number * block - n + reach
        key, value = (nn.functional.pad(part, (0, 0, reach, after)) for part in (key, value))
        query = nn.functional.pad(query, (0, 0, 0, number * block - n)).view(
            texts, count, number, block, size
        )
        out_of_sight = nn.functional.pad(hidden, (reach, after), value=True).unfold(
            1, block + 2 * reach, block
        )
        keys = key.unfold(2, block + 2 * reach, block)  # text head block dimension key
        values = value.unfold(2, block + 2 * reach, block).transpose(-1, -2)
        lowest = torch.finfo(query.dtype).min
        offset = (
            torch.arange(block + 2 * reach, device=states.device)
            - torch.arange(block, device=states.device)[:, None]
        )
        outside = (offset < 0) | (offset > 2 * reach)
        parts = []
        padded = bool(masked.any())
        step = max(1, CELLS // (texts * count * block * (block + 2 * reach + places.shape[1])))
        for first in range(0, number, step):
            some = slice(first, first + step)
            scores = torch.matmul(query[:, :, some], keys[:, :, some])  # text head block query key
            away = outside | out_of_sight[:, None, some, None]
            scores = (
                scores.masked_fill(away, lowest)
                if torch.is_grad_enabled()
                else scores.masked_fill_(away, lowest)
            )
            if places.shape[1]:
                to_global = torch.matmul(
                    query[:, :, some], key_global[:, :, None].transpose(-1, -2)
                )
                scores = torch.cat(
                    [to_global.masked_fill(~real[:, None, None, None], lowest), scores], -1
                )
            weights = torch.softmax(scores, -1, dtype=torch.float32).type_as(scores)
            del scores
            if padded:
                rows = nn.functional.pad(masked, (0, number * block - n)).view(
                    texts, number, block
                )[:, some]
                weights = weights.masked_fill(rows[:, None, :, :, None], 0.0)
            if wanted:
                seen.take(first * block, weights)
            used = nn.functional.dropout(weights, module.dropout, module.training)
            gathered = torch.matmul(used[..., places.shape[1] :], values[:, :, some])
            if places.shape[1]:
                gathered = gathered + torch.matmul(
                    used[..., : places.shape[1]], value_global[:, :, None]
                )
            parts.append(gathered.flatten(2, 3))
        return torch.cat(parts, 2)[:, :, :n].transpose(1, 2)

    def _whole_rows(
        self, states: Tensor, heads: Tensor, masked: Tensor, places: Tensor, real: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The rows of the global tokens, [text, head, global, key], and the heads' output with theirs put in."""
        module: Any = self.module
        width, count, size = states.shape[-1], module.num_heads, module.head_dim
        few = states.gather(1, places[..., None].expand(-1, -1, width))  # text global width
        query = (module.query_global(few) / math.sqrt(size)).unflatten(
            -1, (count, size)
        )  # text global head dimension
        unfolded = torch.is_grad_enabled()  # so that the projections themselves can be looked at
        if unfolded:
            key = module.key_global(states).view(*states.shape[:2], count, size)
            scores = torch.einsum("tghd,tnhd->thgn", query, key)
        else:
            by_head = module.key_global.weight.unflatten(0, (count, size))  # head dimension width
            folded = torch.einsum("tghd,hdw->thgw", query, by_head)
            shift = torch.einsum(
                "tghd,hd->thg", query, module.key_global.bias.unflatten(0, (count, size))
            )
            scores = torch.matmul(folded.flatten(1, 2), states.transpose(1, 2))
            scores = scores.view(len(states), count, -1, states.shape[1]) + shift[..., None]
        scores = scores.masked_fill(masked[:, None, None], torch.finfo(scores.dtype).min)
        rows = torch.softmax(scores, -1, dtype=torch.float32).type_as(
            scores
        )  # text head global key
        used = nn.functional.dropout(rows, module.dropout, module.training)
        if unfolded:
            every = module.value_global(states).view(*states.shape[:2], count, size)
            value = torch.einsum("thgn,tnhd->tghd", used, every)
        else:
            mixed = torch.matmul(used.flatten(1, 2), states).view(len(states), count, -1, width)
            value = torch.einsum(
                "thgw,hdw->tghd", mixed, module.value_global.weight.unflatten(0, (count, size))
            )
            bias = module.value_global.bias.unflatten(0, (count, size))
            value = value + bias * used.sum(-1).transpose(1, 2)[..., None]
        value = value.to(heads.dtype)
        if bool(real.all()):
            return heads.scatter(
                1, places[..., None, None].expand(-1, -1, count, size), value
            ), rows
        text, number = real.nonzero(as_tuple=True)  # texts of a padded batch may have fewer
        return heads.index_put((text, places[text, number]), value[text, number]), rows


def _places(is_global: Tensor) -> tuple[Tensor, Tensor]:
    """Where the global tokens of each text stand, and which entries are one (texts may have different numbers): [text, global] each."""
    counts = is_global.sum(1)
    most = int(counts.max()) if len(counts) else 0
    places = is_global.int().argsort(dim=1, descending=True, stable=True)[:, :most]
    return places, torch.arange(most, device=is_global.device) < counts[:, None]
