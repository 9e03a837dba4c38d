"""Attention between parts of a text, whether words or phrases: only the cells between their tokens are read, so that a long text is never made a square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.banded import BandedAttention


def between_units(layer: Attention, members: Tensor, mean: bool = True) -> Tensor:
    """Attention between units of every text, each any tokens of it (they may overlap): [text, unit, token], true where a token is the unit's -> [text, head, unit, unit].

    *To* a unit is the sum over its tokens, *from* a unit the mean (or the sum too, without `mean`). A unit without tokens gives and gets 0.
    """
    if isinstance(layer, BandedAttention):
        return torch.stack(
            [_units_of_band(layer, text, mine, mean) for text, mine in enumerate(members)]
        )
    weights = layer.dense().weights
    to = members.to(weights)
    return (_givers(to, mean)[:, None] @ weights) @ to.transpose(-1, -2)[:, None]


def _units_of_band(layer: BandedAttention, text: int, members: Tensor, mean: bool) -> Tensor:
    tokens = torch.nonzero(members.any(0))[:, 0]
    cells = _between_tokens(layer, text, tokens)
    to = members[:, tokens].to(cells)
    return _givers(to, mean) @ cells @ to.T


def _givers(to: Tensor, mean: bool) -> Tensor:
    """The share of each token in what its unit gives."""
    return to / to.sum(-1, keepdim=True).clamp(min=1) if mean else to


def between_words(layer: Attention, text: int, words: Sequence[int] | npt.NDArray[Any]) -> Tensor:
    """Attention of one text between some of its words, all different: [head, word, word]. *To* a word is the sum over its tokens, *from* a word the mean."""
    of = torch.from_numpy(layer.batch.words[text].of)
    slot = torch.full((len(layer.batch.words[text]),), -1)
    slot[torch.as_tensor(words, dtype=torch.long)] = torch.arange(len(words))
    tokens = torch.nonzero(slot[of] >= 0)[:, 0]
    cells = _between_tokens(layer, text, tokens)
    mine = slot[of[tokens]].to(cells.device)
    pieces = torch.bincount(mine, minlength=len(words)).to(cells.dtype)
    heads, count = cells.shape[:2]
    rows = cells.new_zeros(heads, len(words), count).index_add_(
        1, mine, cells / pieces[mine][:, None]
    )
    return cells.new_zeros(heads, len(words), len(words)).index_add_(2, mine, rows)


def _between_tokens(layer: Attention, text: int, tokens: Tensor) -> Tensor:
    """Attention of one text between some of its tokens: [head, token, token]."""
    if isinstance(layer, BandedAttention):
        return _between_tokens_of_band(layer, text, tokens.to(layer.band.device))
    weights = layer.dense().weights[text]
    tokens = tokens.to(weights.device)
    return weights[:, tokens[:, None], tokens]


def _between_tokens_of_band(layer: BandedAttention, text: int, tokens: Tensor) -> Tensor:
    """The same from a band: its cells, and the columns and rows of those tokens that are global."""
    offset = tokens - tokens[:, None]
    near = offset.abs() <= layer.reach
    cell = torch.where(near, offset + layer.reach, 0)
    out = layer.band[text][:, tokens[:, None], cell] * near
    for number, place in enumerate(layer.places[text]):
        here = tokens == place  # one of them, or none
        out[:, :, here] += layer.columns[text][:, tokens, number, None]
        out[:, here] += layer.rows[text][:, None, number, tokens]
    return out
