"""A text with its tokens tinted: the whole text as it was written, each token coloured by a number, for every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt
import pandas as pd

LEVELS = 10


@dataclass(frozen=True)
class Overlay:
    """One tinted text: `html` is the tokens; `views` are what the digits of each token's `data-t` stand for."""

    html: str
    views: tuple[str, ...]


def levels(values: npt.NDArray[np.float64], special: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Tints 0 to 9, from 0 to the largest value of a token that is not special: [view, token]; special tokens may exceed it.

    Special tokens take most of the attention in many heads; scaled by them every word would look pale.
    """
    ordinary = values[:, ~special]
    top = ordinary.max(axis=1, keepdims=True) if ordinary.shape[1] else np.ones((len(values), 1))
    return np.clip(np.floor(values / np.where(top > 0, top, 1) * (LEVELS - 1) + 0.5), 0, LEVELS - 1).astype(np.int64)


def tinted(content: str, tokens: pd.DataFrame, views: Sequence[str] = ("all",)) -> Overlay:
    """The text of a `totals` table's rows: each token with its tint in every view and its numbers on hover."""
    special = (tokens["start"] < 0).to_numpy()
    tints = levels(tokens[list(views)].to_numpy(dtype=np.float64).T, special)
    parts: list[str] = []
    cursor = 0
    for number, (start, stop, string, received, uniform) in enumerate(
        zip(tokens["start"], tokens["stop"], tokens["string"], tokens["all"], tokens["uniform"], strict=True)
    ):
        hover = f"{string}: receives {received:.2f} over all layers, uniform {uniform:.2f}"
        if start < 0:
            parts.append(_token(string, tints[:, number], hover, "mark"))
            continue
        start, stop = max(int(start), cursor), int(stop)
        if stop <= start and stop <= cursor:  # a further piece of a character that is written already
            continue
        parts.append(escape(content[cursor:start]))
        parts.append(_token(content[start:stop], tints[:, number], hover))
        cursor = stop
    rest = content[cursor:]
    parts.append(
        f'<span class="cut" title="not read by the model">{escape(rest)}</span>' if rest.strip() else escape(rest)
    )
    return Overlay("".join(parts), tuple(views))


def _token(string: str, tints: npt.NDArray[np.int64], hover: str, kind: str = "") -> str:
    digits = "".join(map(str, tints))
    return f'<span class="t t{tints[0]} {kind}" data-t="{digits}" title="{escape(hover, quote=True)}">{escape(string)}</span>'
