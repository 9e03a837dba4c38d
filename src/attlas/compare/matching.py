"""Which head of B attends as a head of A does, wherever it is? By the divergence of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment

from attlas.core import kernels
from attlas.core.alignment import Words
from attlas.core.attention import Attention
from attlas.core.text import Text
from attlas.models import Model
from attlas.stats.student import student_quantile
from attlas.stats.verdicts import Comparison, corrected
from attlas.support.arrays import Floats, Floats32, Ints
from attlas.support.errors import StudyError

FEWEST = 4  # texts: two to choose pairs on, two to score them on


def text_divergences(one: Model, other: Model, texts: Sequence[Text]) -> dict[str, Floats]:
    """Jensen-Shannon divergence in nats between heads, text by text: means over rows.

    `between` is [text, head of one, head of other], `within` [text, head of one, head of one];
    heads of all layers. Models with one vocabulary are compared by token, others by word.
    """
    by_token = one.tokenizer.get_vocab() == other.tokenizer.get_vocab()
    between, within = [], []
    for text in texts:
        rows = shared_rows(weights_of(one, text), weights_of(other, text), by_token)
        if rows is not None:
            between.append(divergences(*rows))
            within.append(divergences(rows[0], rows[0]))
    if len(between) < FEWEST:
        raise StudyError(
            f"{one.name} and {other.name} have words in common in {len(between)} of the shared "
            f"texts; heads can be matched over at least {FEWEST}"
        )
    return {"between": np.array(between), "within": np.array(within)}


def weights_of(model: Model, text: Text) -> list[Attention]:
    """The attention of one text, layer by layer."""
    layers: list[Attention] = []
    batch = next(iter(model.batches(model.encode([(0, text)]))))
    model.forward(batch, layers.append)
    return layers


def shared_rows(
    one: Sequence[Attention], other: Sequence[Attention], by_token: bool
) -> tuple[Floats32, Floats32] | None:
    """The rows that two models have in common: [head, row, cell] of each; None if there are none.

    By token these are all rows. By word they are those of the text's own words that both models
    see; what lies on special tokens is one cell, what lies on other words another.
    """
    if by_token and one[0].n_tokens == other[0].n_tokens:
        left, right = (
            as_array(torch.cat([layer.dense().weights[0] for layer in both]))
            for both in (one, other)
        )
        return left, right
    words = [layers[0].batch.words[0] for layers in (one, other)]
    shared = sorted({*words[0].source} & {*words[1].source} - {-1})
    if not shared:
        return None
    first, second = (
        np.concatenate([word_rows(layer, own, shared) for layer in layers])
        for layers, own in zip((one, other), words, strict=True)
    )
    return first, second


def word_rows(layer: Attention, words: Words, shared: Sequence[int]) -> Floats32:
    """What shared words attend to: [head, word, shared words, special tokens, other words]."""
    weights = as_array(layer.to_words()[0].dense().weights[0])
    source = np.array(words.source)
    places = np.array([int(np.flatnonzero(source == one)[0]) for one in shared])
    others = np.setdiff1d(np.flatnonzero(source >= 0), places)
    rows = weights[:, places]
    cells = rows[:, :, places]
    special, rest = (rows[:, :, some].sum(-1, keepdims=True) for some in (source < 0, others))
    return np.concatenate([cells, special, rest], axis=-1)


def divergences(left: Floats32, right: Floats32) -> Floats:
    """Jensen-Shannon divergence of every pair of heads, mean over rows: [head, head]."""
    total = np.zeros((len(left), len(right)))
    scale = np.float32(0), np.float32(0)
    kernels.add_divergences(
        total, np.ascontiguousarray(left), np.ascontiguousarray(right), False, *scale
    )
    return np.maximum(total / left.shape[1], 0.0)


def as_array(weights: Any) -> Floats32:
    """A tensor as the kernels take it."""
    out: Floats32 = np.ascontiguousarray(weights.detach().float().cpu().numpy())
    return out


def match_heads(between: Floats, within: Floats, heads: tuple[int, int]) -> pd.DataFrame:
    """Each head of A with the head of B that it is matched to, one to one; a row per pair.

    Pairs are chosen on the first half of the texts, so that the sum of divergences is smallest, and
    scored on the second: `divergence`, next to `nearest_other`, that of the other head of A which
    is nearest in the first half. A head has a counterpart if its match is nearer than that one,
    corrected for all pairs (`significant`).
    `stable` says whether the second half alone would have chosen the same pair. `heads` are the
    numbers of heads in a layer of A and of B.

    >>> same = np.array([[0.1, 0.5], [0.4, 0.2]])
    >>> pairs = match_heads(np.array([same] * 4), np.array([1 - np.eye(2)] * 4), (1, 1))
    >>> pairs[["layer", "other_layer", "divergence", "nearest_other"]].values.tolist()
    [[0.0, 0.0, 0.1, 1.0], [1.0, 1.0, 0.2, 1.0]]
    """
    middle = len(between) // 2
    chosen, scored = between[:middle].mean(0), between[middle:]
    rows, columns = linear_sum_assignment(chosen)
    again = dict(zip(*linear_sum_assignment(scored.mean(0)), strict=True))
    own = within[:middle].mean(0) + np.diag(np.full(within.shape[1], np.inf))
    nearest = own.argmin(1)
    pairs, others = scored[:, rows, columns], within[middle:, rows, nearest[rows]]
    apart = pairs - others
    low, high = mean_interval(apart)
    comparisons = [
        Comparison(float(mean), 0.0, float(first), float(last), len(scored), "below")
        for mean, first, last in zip(apart.mean(0), low, high, strict=True)
    ]
    is_alike = between.shape[1:] == within.shape[1:]
    place = scored.mean(0).diagonal()[rows] if is_alike else np.full(len(rows), np.nan)
    return pd.DataFrame(
        {
            **named(rows, heads[0]),
            **{f"other_{name}": one for name, one in named(columns, heads[1]).items()},
            "divergence": pairs.mean(0),
            "same_place": place,
            "nearest_other": others.mean(0),
            **{f"nearest_{name}": one for name, one in named(nearest[rows], heads[0]).items()},
            "difference": apart.mean(0),
            "difference_low": low,
            "difference_high": high,
            **corrected(comparisons),
            "texts": len(scored),
            "stable": [again.get(row) == column for row, column in zip(rows, columns, strict=True)],
        }
    )


def mean_interval(values: Floats) -> tuple[Floats, Floats]:
    """The 95% interval of means over texts: [text, ...]."""
    count = np.array(len(values))
    half = student_quantile(0.975, count) * values.std(0, ddof=1) / np.sqrt(count)
    mean = values.mean(0)
    return mean - half, mean + half


def named(numbers: npt.NDArray[Any], heads: int) -> dict[str, Ints]:
    """Layer and head of heads that are counted through all layers."""
    layer, head = np.divmod(np.asarray(numbers, dtype=np.int64), heads)
    return {"layer": layer, "head": head}
