"""A text with its words shaded: the whole text as it was written, each word by its number.

Words are joined from their pieces. The numbers of all layers and heads go along packed, a letter
each, so that 4,096 tokens in 72 heads take some 250 kB; overlay.js reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.alignment import align, word_sums
from attlas.language.words import word_spans
from attlas.views.shades import excess

LEVELS = 10
FAINTEST = 2.0**-60  # of a ratio, so that it has a logarithm
CUT = 1_000  # characters shown of what was not read
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Overlay:
    """One shaded text: `html` is its words, `data` what overlay.js needs to tint them otherwise.

    `words` and `tints` make a picture.
    """

    html: str
    data: dict[str, Any]
    words: tuple[tuple[int, int], ...]  # characters from, to; -1 for a special token
    tints: npt.NDArray[np.int64]  # word, as `html` has them; below 0 is against
    content: str
    signed: bool = False  # for and against, in two colours
    darkest: float = 0.0  # how many times its uniform attention the darkest word receives


def levels(values: Floats, special: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Tints 0 to 9, from 0 to the largest value of a word that is not special: [view, word].

    Special tokens take most of the attention in many heads; scaled by them every word would look
    pale. So would a long text scaled by a single word: one word in a hundred may exceed the darkest
    tint, and so may special tokens.
    """
    return _scaled(values, _largest(values, special))


def levels_above_uniform(
    values: Floats, uniform: Floats, special: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Tints 0 to 9 by how many times a word receives what uniform attention would give this word.

    The scale is logarithmic. A word at or below its own uniform attention has no tint; the darkest
    is the largest ratio of a word that is not special, but at least 2, so that trifles stay pale.
    """
    sizes = _doublings(values, uniform)
    return _scaled(sizes, _darkest(sizes, special))


def _doublings(values: Floats, uniform: Floats) -> Floats:
    """How many times each value doubles its uniform attention; 0 at or below it."""
    ratio = np.divide(values, uniform, out=np.ones(np.shape(values)), where=uniform > 0)
    return excess("above", np.log2(np.maximum(ratio, FAINTEST)), np.zeros(ratio.shape))


def _darkest(sizes: Floats, special: npt.NDArray[np.bool_]) -> Floats:
    return np.maximum(_largest(sizes, special), 1.0)


def _largest(values: Floats, special: npt.NDArray[np.bool_]) -> Floats:
    """The largest value of a word that is not special, but for one word in a hundred."""
    ordinary = np.sort(values[:, ~special], axis=1)[:, ::-1]
    if not ordinary.shape[1]:
        return np.ones((len(values), 1))
    top: Floats = ordinary[:, ordinary.shape[1] // 100, None]
    return top


def _scaled(values: Floats, top: Floats) -> npt.NDArray[np.int64]:
    shares = values / np.where(top > 0, top, 1)
    return np.clip(np.floor(shares * (LEVELS - 1) + 0.5), 0, LEVELS - 1).astype(np.int64)


def pack(values: Floats) -> tuple[str, list[float]]:
    """Numbers of 0 and more, [row, column], as a letter each, and the largest of each row.

    A letter is the root of the share, in 63 steps.

    >>> pack(np.array([[0.0, 0.5, 2.0]]))
    ('Ag_', [2.0])
    """
    top = values.max(axis=1, initial=0.0)
    share = values / np.where(top > 0, top, 1)[:, None]
    codes = np.rint(np.sqrt(np.clip(share, 0, 1)) * 63).astype(np.int64)
    letters = np.frombuffer(LETTERS.encode(), dtype=np.uint8)
    return letters[codes].tobytes().decode(), [float(f"{value:.4g}") for value in top]


def overlay(
    content: str,
    tokens: pd.DataFrame,
    values: Floats,
    uniform: Floats,
    importance: Floats | None = None,
    tops: tuple[npt.NDArray[np.int64], Floats] | None = None,
    of: npt.NDArray[np.int64] | None = None,
) -> Overlay:
    """The text of tokens shaded by values [layer, head, token], with what uniform attention gives.

    `tokens` has `start stop string`; start is below 0 for a special one. `uniform` is
    [layer, token], or [token] for all layers. One head for each layer means that heads were
    averaged. `importance` [layer, head] adds a view with heads weighted by it. `tops` are, for
    attending and attended, the words [2, word, rank] and weights that go with each word, shown on
    a click. `of` is the word of each token, if known.
    """
    words = _Words.of_tokens(content, tokens, of)
    count, marks = words.count, words.special
    by_word = words.summed(values)  # layer head word
    even = words.summed(np.atleast_2d(uniform))
    received = by_word.mean((0, 1))[None]
    tints = levels_above_uniform(received, even.mean(0)[None], marks)[0]
    darkest = 2.0 ** float(_darkest(_doublings(received, even.mean(0)[None]), marks)[0, 0])
    packed, scales = pack(by_word.reshape(values.shape[0] * values.shape[1], count))
    packed_even, even_scales = pack(even)
    data: dict[str, Any] = {
        "shape": [*values.shape[:2], count],
        "values": packed,
        "scales": scales,
        "uniform": packed_even,
        "uniform_scales": even_scales,
        "special": np.nonzero(marks)[0].tolist(),
        "averaged": values.shape[1] == 1,
    }
    if importance is not None and np.nansum(importance) > 0:
        weights = np.nan_to_num(importance)
        data["importance"] = [
            round(float(value), 4) for value in (weights / weights.sum()).reshape(-1)
        ]
    if tops is not None:
        data["tops"] = _packed_tops(*tops)
    html = _words_html(content, words, _classes(tints, "t", "t"))
    return Overlay(html, data, words.spans, tints, content, darkest=darkest)


def score_overlay(
    content: str,
    tokens: pd.DataFrame,
    scores: Mapping[str, Floats],
    signed: Mapping[str, bool],
    of: npt.NDArray[np.int64] | None = None,
) -> Overlay:
    """The text of tokens shaded by the scores of methods, [token] each, the first one shown.

    For and against in two colours where a method is signed, attention in its own.
    """
    words = _Words.of_tokens(content, tokens, of)
    names = list(scores)
    by_word = words.summed(np.stack([scores[name] for name in names]))  # method word
    tints = np.sign(by_word[0]).astype(np.int64) * levels(np.abs(by_word[:1]), words.special)[0]
    packed, scales = pack(np.abs(by_word))
    data: dict[str, Any] = {
        "methods": names,
        "signed": [signed[name] for name in names],
        "shape": list(by_word.shape),
        "values": packed,
        "scales": scales,
        "against": ["".join("-" if value < 0 else "+" for value in row) for row in by_word],
        "special": np.nonzero(words.special)[0].tolist(),
    }
    kinds = ("p", "n") if signed[names[0]] else ("t", "t")
    return Overlay(
        _words_html(content, words, _classes(tints, *kinds)),
        data,
        words.spans,
        tints,
        content,
        signed[names[0]],
    )


@dataclass(frozen=True)
class _Words:
    """The words of a text as they are shown: their tokens, their places, which are special."""

    of: npt.NDArray[np.int64]  # token
    count: int
    special: npt.NDArray[np.bool_]  # word
    spans: tuple[tuple[int, int], ...]  # word: characters from, to; -1 for a special token
    strings: dict[int, str]  # of special tokens

    @classmethod
    def of_tokens(
        cls, content: str, tokens: pd.DataFrame, of: npt.NDArray[np.int64] | None
    ) -> _Words:
        starts, stops = tokens["start"].to_numpy(), tokens["stop"].to_numpy()
        special = starts < 0
        of = word_of(content, tokens) if of is None else of
        count = int(of.max(initial=-1)) + 1
        marks = np.zeros(count, dtype=bool)
        marks[of[special]] = True
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.full(count, -1)
        np.minimum.at(first, of, np.where(special, -1, starts))
        np.maximum.at(last, of, np.where(special, -1, stops))
        strings = {
            int(of[token]): str(tokens["string"].iloc[token]) for token in np.nonzero(special)[0]
        }
        return cls(
            of,
            count,
            marks,
            tuple((int(start), int(stop)) for start, stop in zip(first, last, strict=True)),
            strings,
        )

    def summed(self, values: Floats) -> Floats:
        """Numbers of words, the sums of their tokens': [..., token] -> [..., word]."""
        tokens = np.moveaxis(values.astype(np.float64), -1, 0)
        return np.moveaxis(word_sums(tokens, self.of, self.count), 0, -1)


def _classes(tints: npt.NDArray[np.int64], above: str, below: str) -> list[str]:
    """The class of each word: a letter for the colour, and how dark it is."""
    return [f"{above if tint >= 0 else below}{abs(tint)}" for tint in tints.tolist()]


def word_of(content: str, tokens: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The word of each token, in reading order."""
    special = (tokens["start"] < 0).to_numpy()
    offsets = [
        (max(int(start), 0), max(int(stop), 0))
        for start, stop in zip(tokens["start"], tokens["stop"], strict=True)
    ]
    return align(content, word_spans(content), offsets, special.tolist(), list(tokens["string"])).of


def _packed_tops(words: npt.NDArray[np.int64], weights: Floats) -> dict[str, Any]:
    """Words and weights [2, word, rank] as three letters and two; a missing one has weight 0."""
    scale = float(weights.max(initial=0.0)) or 1.0
    codes, shares = (
        words.reshape(-1),
        np.rint(np.sqrt(weights.reshape(-1) / scale) * 4095).astype(np.int64),
    )
    digits = np.stack([codes >> 12 & 63, codes >> 6 & 63, codes & 63, shares >> 6, shares & 63], -1)
    letters = np.frombuffer(LETTERS.encode(), dtype=np.uint8)
    return {
        "ranks": words.shape[-1],
        "scale": float(f"{scale:.4g}"),
        "cells": letters[digits].tobytes().decode(),
    }


def _words_html(content: str, words: _Words, classes: list[str]) -> str:
    parts: list[str] = []
    cursor = 0
    for word, (start, stop) in enumerate(words.spans):
        if word in words.strings:
            parts.append(f'<w class="{classes[word]} mark">{escape(words.strings[word])}</w>')
            continue
        start = max(start, cursor)
        parts.append(escape(content[cursor:start]))
        parts.append(f"<w class={classes[word]}>{escape(content[start : max(start, stop)])}</w>")
        cursor = max(cursor, stop)
    rest = content[cursor:]
    more = f" ... {len(rest) - CUT:,} more characters" if len(rest) > CUT else ""
    parts.append(
        f'<span class="cut" title="not read by the model">{escape(rest[:CUT])}</span>{more}'
        if rest.strip()
        else escape(rest)
    )
    return "".join(parts)
