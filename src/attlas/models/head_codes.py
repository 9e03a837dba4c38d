"""The weights of one head of a layer as codes: a band is never expanded to a square of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from attlas.core.attention import Attention, DenseAttention
from attlas.core.banded import BandedAttention
from attlas.support.errors import AttlasError
from attlas.support.heads import parse_head
from attlas.views.matrices import MASKED, MOST_TOKENS, TOKENS, Codes, HeadCodes, weight_codes

ROWS = 256  # of a square that are encoded at once


def parse_matrices(given: str | Iterable[str], shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Heads such as "L2H8,L0H2", of a model with so many layers and heads, each once.

    >>> parse_matrices("L2H8,L0H2,L2H8", (6, 12))
    [(2, 8), (0, 2)]
    """
    names = given.split(",") if isinstance(given, str) else given
    heads = list(dict.fromkeys(parse_head(name) for name in names))
    for layer, head in heads:
        if layer >= shape[0] or head >= shape[1]:
            raise AttlasError(
                f"there is no L{layer}H{head}; the model has layers 0 to {shape[0] - 1} and heads "
                f"0 to {shape[1] - 1}"
            )
    return heads


def check_tokens(count: int) -> int:
    """The number of tokens of a matrix, if it can be drawn."""
    if not 1 <= count <= MOST_TOKENS:
        raise AttlasError(f"a matrix has 1 to {MOST_TOKENS:,} tokens, not {count:,}")
    return count


def head_codes(layer: Attention, head: int, most: int = TOKENS) -> HeadCodes:
    """One head of a layer of one text: the first `most` queries and keys."""
    seen = layer.n_visible_keys[0]
    of_head = seen[min(head, len(seen) - 1)][:most]
    codes = layer.by_form(
        dense=lambda one: _square_codes(one, head, most),
        banded=lambda one: _band_codes(one, head, most),
    )
    return HeadCodes(f"L{layer.index}H{head}", codes, of_head.cpu().numpy().astype(np.int64))


def _square_codes(layer: DenseAttention, head: int, most: int) -> Codes:
    weights = layer.weights[0, head, :most, :most]
    visible = layer.visible
    seen = None if visible is None else visible[0, min(head, visible.shape[1] - 1), :most, :most]
    out = np.empty(tuple(weights.shape), dtype=np.uint8)
    for row in range(0, len(out), ROWS):
        part = slice(row, row + ROWS)
        own = None if seen is None else seen[part].cpu().numpy()
        out[part] = weight_codes(weights[part].float().cpu().numpy(), own)
    return out


def _band_codes(layer: BandedAttention, head: int, most: int) -> Codes:
    """Row by row: the window, then the columns and the rows of global tokens."""
    n, reach = min(layer.n_tokens, most), layer.reach
    band = weight_codes(
        layer.band[0, head, :n].float().cpu().numpy(), layer.keys[0, :n].cpu().numpy() >= 0
    )
    out = np.full((n, n), MASKED, dtype=np.uint8)
    for query, cells in enumerate(band):
        first, stop = max(query - reach, 0), min(query + reach + 1, n)
        out[query, first:stop] = cells[first - query + reach : stop - query + reach]
    shown = [at for at in enumerate(layer.global_positions[0].tolist()) if at[1] < n]
    _add_globals(out, layer, head, shown)
    return out


def _add_globals(
    out: Codes, layer: BandedAttention, head: int, shown: Sequence[tuple[int, int]]
) -> None:
    """What queries give to global tokens, and the whole rows of these."""
    n = len(out)
    columns = weight_codes(layer.columns[0, head, :n].float().cpu().numpy())
    for number, position in shown:
        out[:, position] = columns[:, number]
    rows = weight_codes(layer.rows[0, head, :, :n].float().cpu().numpy())
    for number, position in shown:
        out[position] = rows[number]
