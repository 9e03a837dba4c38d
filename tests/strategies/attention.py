"""Hypothesis strategies for texts, batches and layers of attention; sizes are drawn, cells come
from a drawn seed, so that examples are cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from attlas.core.attention import DenseAttention
from attlas.core.banded import BandedAttention
from attlas.core.batch import Batch
from attlas.core.text import Text

generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


class Layer(NamedTuple):
    """A layer and what it was made of: weights [text, head, query, key] and visible [text, query,
    key] as arrays.
    """

    layer: Any
    weights: np.ndarray
    visible: np.ndarray


class Graphs(NamedTuple):
    """Weights [..., n, n] and thresholds for them, in any order."""

    weights: np.ndarray
    thresholds: tuple[float, ...]


def make_batch(rng: np.random.Generator, n_texts: int, n: int, marks: bool = True) -> Batch:
    """Texts of n tokens: words, further pieces of words, lone blanks, "." and "," and (with
    `marks`) [CLS] and [SEP] anywhere; some with given words.
    """
    kinds = ["word", "piece", "blank", ".", ",", *(["[CLS]", "[SEP]"] if marks else [])]
    made = [
        _text_of(str(number), rng.choice(kinds, n).tolist(), bool(rng.integers(2)))
        for number in range(n_texts)
    ]
    tokens = tuple(tuple(tokens) for _, tokens, _ in made)
    strings = np.array(tokens, dtype=object).reshape(n_texts, n)
    return Batch(
        texts=tuple(text for text, _, _ in made),
        indices=tuple(rng.permutation(n_texts).tolist()),
        ids=torch.from_numpy(rng.integers(0, 99, (n_texts, n))),
        tokens=tokens,
        offsets=np.array([offsets for _, _, offsets in made], dtype=np.int64).reshape(
            n_texts, n, 2
        ),
        special=(strings == "[CLS]") | (strings == "[SEP]"),
        cls=torch.from_numpy(strings == "[CLS]"),
        sep=torch.from_numpy(strings == "[SEP]"),
        truncated_by=(0,) * n_texts,
    )


def _text_of(
    id: str, kinds: list[str], given: bool
) -> tuple[Text, list[str], list[tuple[int, int]]]:
    text, tokens, offsets = "", [], []
    for kind in kinds:
        if kind.startswith("["):
            tokens.append(kind)
            offsets.append((0, 0))
            continue
        if kind == "word" and text and not text.endswith(" "):
            text += " "
        piece = {"word": "ab", "piece": "cd", "blank": " "}.get(kind, kind)
        tokens.append(piece)
        offsets.append((len(text), len(text) + len(piece)))
        text += piece
    words = tuple(text.split())
    return (
        Text(id, text, words=words if given and " ".join(words) == text else None),
        tokens,
        offsets,
    )


def stochastic(rng: np.random.Generator, n_heads: int, visible: np.ndarray) -> np.ndarray:
    """Rows that sum to one over the visible keys, with zeros and ties: [text, query, key] -> [text,
    head, query, key], float32.
    """
    shape = (len(visible), n_heads, *visible.shape[1:])
    cells = (
        rng.integers(0, 4, shape)
        if rng.integers(2)
        else rng.random(shape) ** 6 * (rng.random(shape) < 0.8)
    )
    cells = cells * visible[:, None]
    empty = cells.sum(-1, keepdims=True) == 0
    cells = np.where(empty, visible[:, None], cells)
    return (cells / cells.sum(-1, keepdims=True)).astype(np.float32)


@st.composite
def matrices(draw: st.DrawFn, causal: bool = False, max_tokens: int = 9) -> np.ndarray:
    """Row-stochastic [text, head, n, n] with zeros and ties, causal if asked."""
    n_texts, n_heads, n, rng = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, max_tokens)),
        draw(generators),
    )
    visible = np.ones((n_texts, n, n), dtype=bool)
    return stochastic(rng, n_heads, np.tril(visible) if causal else visible)


@st.composite
def dense_layers(draw: st.DrawFn, max_tokens: int = 9) -> Layer:
    """Dense layers in which all is visible, or what is before, or any keys (at least the query
    itself) for all texts or for each.
    """
    n_texts, n_heads, n, rng = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, max_tokens)),
        draw(generators),
    )
    pattern = draw(st.sampled_from(["all", "causal", "one", "each"]))
    full = np.ones((n_texts if pattern == "each" else 1, n, n), dtype=bool)
    visible = {"all": full, "causal": np.tril(full)}.get(
        pattern, (rng.random(full.shape) < 0.5) | np.eye(n, dtype=bool)
    )
    everywhere = np.broadcast_to(visible, (n_texts, n, n))
    weights = stochastic(rng, n_heads, everywhere)
    layer = DenseAttention(
        torch.from_numpy(weights),
        make_batch(rng, n_texts, n),
        0,
        None if pattern == "all" else torch.from_numpy(visible),
    )
    return Layer(layer, weights, everywhere)


@st.composite
def banded_layers(draw: st.DrawFn, max_tokens: int = 9) -> Layer:
    """Bands of any reach, also past the text's ends, with none to three global tokens anywhere;
    kept apart cell by cell from a square matrix.
    """
    n_texts, n_heads, n, reach, rng = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, max_tokens)),
        draw(st.integers(0, 5)),
        draw(generators),
    )
    n_global = draw(st.integers(0, min(3, n)))
    indices = np.array(
        [rng.permutation(n)[:n_global] for _ in range(n_texts)], dtype=np.int64
    ).reshape(n_texts, n_global)
    visible = np.array(
        [
            [
                [abs(key - query) <= reach or query in own or key in own for key in range(n)]
                for query in range(n)
            ]
            for own in indices
        ]
    )
    weights = stochastic(rng, n_heads, visible)
    band, columns = (
        np.zeros((n_texts, n_heads, n, 2 * reach + 1), np.float32),
        np.zeros((n_texts, n_heads, n, n_global), np.float32),
    )
    rows = np.zeros((n_texts, n_heads, n_global, n), np.float32)
    for text, own in enumerate(indices.tolist()):
        for query in range(n):
            for key in range(n):
                if query in own:
                    rows[text, :, own.index(query), key] = weights[text, :, query, key]
                elif key in own:
                    columns[text, :, query, own.index(key)] = weights[text, :, query, key]
                elif abs(key - query) <= reach:
                    band[text, :, query, key - query + reach] = weights[text, :, query, key]
    parts = [torch.from_numpy(part) for part in (band, columns, rows, indices)]
    return Layer(BandedAttention(*parts, make_batch(rng, n_texts, n)), weights, visible)


@st.composite
def graphs(draw: st.DrawFn, min_tokens: int = 0, max_tokens: int = 8) -> Graphs:
    """Attention of one head, of heads or of layers and heads, in single or double precision.

    Spread, on a grid of fortieths (where the usual thresholds lie) or mostly zero; some thresholds
    are exactly one of the weights, others the usual ones or anything.
    """
    n, lead, rng = (
        draw(st.integers(min_tokens, max_tokens)),
        draw(st.sampled_from([(), (1,), (3,), (2, 2)])),
        draw(generators),
    )
    kind, shape = draw(st.sampled_from(["spread", "grid", "sparse"])), (*lead, n, n)
    if kind == "spread":
        cells = rng.random(shape) ** 4
        cells = cells / np.maximum(cells.sum(-1, keepdims=True), 1e-9)
    else:
        cells = (
            rng.integers(0, 41, shape)
            / 40
            * (rng.random(shape) < (0.25 if kind == "sparse" else 1))
        )
    weights = cells.astype(draw(st.sampled_from([np.float32, np.float64])))
    ties = [float(weight) for weight in rng.permutation(weights[weights > 0])[:2]]
    usual = [0.025, 0.05, 0.1, 0.25, 0.5, 0.75]
    thresholds = list(
        dict.fromkeys([*ties, *rng.permutation(usual)[:2].tolist(), float(rng.uniform(0.001, 1.1))])
    )
    return Graphs(weights, tuple(float(threshold) for threshold in rng.permutation(thresholds)))
