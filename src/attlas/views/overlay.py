"""A text with its words shaded: the whole text as it was written, each word by its number.

Numbers of tokens go along, packed; text.js joins them to words and draws the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.alignment import align, word_sums
from attlas.language.words import word_spans
from attlas.views.packing import packed, roots
from attlas.views.shades import excess

LEVELS = 10
FAINTEST = 2.0**-60  # of a ratio, so that it has a logarithm
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Overlay:
    """One shaded text: `data` is what text.js draws; `words` and `tints` make a picture.

    `says` is what the tints of the picture mean, where they are not attention received.
    """

    data: dict[str, Any]
    words: tuple[tuple[int, int], ...]  # characters from, to; -1 for a special token
    tints: npt.NDArray[np.int64]  # word; below 0 is against
    content: str
    signed: bool = False  # for and against, in two colours
    darkest: float = 0.0  # how many times its uniform attention the darkest word receives
    says: str = ""

    @property
    def html(self) -> str:
        """The text itself, until a script draws it."""
        return escape(self.content)

    @property
    def without_words(self) -> Overlay:
        """The same with a dot for every letter, for pictures that are kept without the text."""
        return replace(self, content=re.sub(r"\S", "·", self.content), data={})


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
    doublings = _doublings(values, uniform)
    return _scaled(doublings, _darkest(doublings, special))


def _doublings(values: Floats, uniform: Floats) -> Floats:
    """How many times each value doubles its uniform attention; 0 at or below it."""
    ratio = np.divide(values, uniform, out=np.ones(np.shape(values)), where=uniform > 0)
    return excess("above", np.log2(np.maximum(ratio, FAINTEST)), np.zeros(ratio.shape))


def _darkest(doublings: Floats, special: npt.NDArray[np.bool_]) -> Floats:
    return np.maximum(_largest(doublings, special), 1.0)


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


def overlay(
    content: str,
    tokens: pd.DataFrame,
    values: Floats,
    uniform: Floats,
    importance: Floats | None = None,
    of: npt.NDArray[np.int64] | None = None,
) -> Overlay:
    """The text of tokens shaded by values [layer, head, token], with what uniform attention gives.

    `tokens` has `start stop string`; start is below 0 for a special one. `uniform` is
    [layer, token], or [token] for all layers. One head for each layer means that heads were
    averaged. `importance` [layer, head] adds a view with heads weighted by it. `of` is the word of
    each token, if known.
    """
    words = _Words.of_tokens(content, tokens, of)
    layers, heads = values.shape[:2]
    uniform_tokens = np.broadcast_to(np.atleast_2d(uniform), (layers, values.shape[2]))
    uniform_words = words.summed(uniform_tokens.mean(0))[None]
    received = words.summed(values.mean((0, 1)))[None]
    doublings = _doublings(received, uniform_words)
    data: dict[str, Any] = {
        **_text_data(content, tokens, words),
        "shape": [layers, heads],
        "averaged": heads == 1 and layers > 1,
        "received": roots(values.reshape(layers * heads, -1)),
        **_uniform_data(uniform_tokens),
    }
    if importance is not None and np.nansum(importance) > 0:
        weights = np.nan_to_num(importance)
        data["importance"] = [
            round(float(value), 4) for value in (weights / weights.sum()).reshape(-1)
        ]
    tints = levels_above_uniform(received, uniform_words, words.special)[0]
    darkest = 2.0 ** float(_darkest(doublings, words.special)[0, 0])
    return Overlay(data, words.spans, tints, content, darkest=darkest)


def _uniform_data(uniform: Floats) -> dict[str, Any]:
    """Uniform attention [layer, token]: the rows that differ, and which is that of each layer."""
    rows, row_of_layer = np.unique(uniform, axis=0, return_inverse=True)
    return {"uniform": roots(rows), "uniform_of": row_of_layer.reshape(-1).tolist()}


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
    values = np.stack([scores[name] for name in names])  # method token
    first = words.summed(values[:1])
    tints = np.sign(first[0]).astype(np.int64) * levels(np.abs(first), words.special)[0]
    data: dict[str, Any] = {
        **_text_data(content, tokens, words),
        "methods": names,
        "signed": [signed[name] for name in names],
        "scores": packed(values, "f4"),
    }
    return Overlay(data, words.spans, tints, content, signed[names[0]])


def _text_data(content: str, tokens: pd.DataFrame, words: _Words) -> dict[str, Any]:
    """The text, its tokens and its words."""
    spans = tokens[["start", "stop"]].to_numpy()
    return {
        "id": str(tokens["text"].iloc[0]) if "text" in tokens and len(tokens) else "",
        "content": content,
        "of": packed(words.of, "i4"),
        "words": packed(np.array(words.spans).reshape(-1, 2), "i4"),
        "tokens": packed(np.where(spans < 0, -1, spans), "i4"),
        "special": {str(word): string for word, string in words.strings.items()},
    }


@dataclass(frozen=True)
class _Words:
    """The words of a text as they are shown: tokens, characters, and which are special."""

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
        special_words = np.zeros(count, dtype=bool)
        special_words[of[special]] = True
        begins = np.full(count, np.iinfo(np.int64).max)
        ends = np.full(count, -1)
        np.minimum.at(begins, of, np.where(special, -1, starts))
        np.maximum.at(ends, of, np.where(special, -1, stops))
        strings = {
            int(of[token]): str(tokens["string"].iloc[token]) for token in np.nonzero(special)[0]
        }
        return cls(
            of,
            count,
            special_words,
            tuple((int(start), int(stop)) for start, stop in zip(begins, ends, strict=True)),
            strings,
        )

    def summed(self, values: Floats) -> Floats:
        """Numbers of words, the sums of their tokens': [..., token] -> [..., word]."""
        tokens = np.moveaxis(values.astype(np.float64), -1, 0)
        return np.moveaxis(word_sums(tokens, self.of, self.count), 0, -1)


def word_of(content: str, tokens: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The word of each token, in reading order."""
    special = (tokens["start"] < 0).to_numpy()
    offsets = [
        (max(int(start), 0), max(int(stop), 0))
        for start, stop in zip(tokens["start"], tokens["stop"], strict=True)
    ]
    return align(content, word_spans(content), offsets, special.tolist(), list(tokens["string"])).of
