"""Texts as transformers reads them, next to the stream that measures read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from attlas.core.masks import TokenMask
from attlas.core.text import Text
from attlas.models import Model
from attlas.testing import fold, stream

TEXTS = (
    "a cat sat on a mat , the cat saw a dog",
    "the dog",
    "it was not very good . the film , a bad film with a cat and a good dog on the mat",
    "a the of",  # nothing to keep
    "dogged dog saw 12 films , a dog",
    "the mat",
)


HEADS = 4


class Seen(NamedTuple):
    """One text, plain: weights [layer][head][query][key], what is visible [layer][query][key],
    tokens, what is special, what is kept."""

    id: str
    weights: list[Any]
    visible: list[Any]
    tokens: list[str]
    special: list[bool]
    keep: list[bool]


def sees(model: Model, layer: int, n: int, places: Iterable[int] = (0,)) -> list[list[bool]]:
    """Which key each query of a layer sees, from what the architecture says."""
    if not model.banded:
        causal = model.network.config.model_type == "gpt2"
        return [[key <= query or not causal for key in range(n)] for query in range(n)]
    reach = model.network.config.attention_window[layer] // 2
    places = set(places)
    return [
        [abs(key - query) <= reach or bool({key, query} & places) for key in range(n)]
        for query in range(n)
    ]


def reference_texts(
    model: Model, batches: Sequence[Sequence[Any]], keep: str = "keywords"
) -> list[Seen]:
    out = []
    for layers in batches:
        batch = layers[0].batch
        for text in range(batch.n_texts):
            n = batch.n_tokens
            places = (
                [0]
                if "global_attention_mask" not in batch.inputs
                else (batch.inputs["global_attention_mask"][text].nonzero()[:, 0].tolist())
            )
            out.append(
                Seen(
                    batch.texts[text].id,
                    [layer.dense().weights[text].tolist() for layer in layers],
                    [sees(model, layer.index, n, places) for layer in layers],
                    list(batch.tokens[text]),
                    batch.special[text].tolist(),
                    TokenMask.of(keep).mask(batch)[text].tolist(),
                )
            )
    return out


def even(model: Model) -> Model:
    """The same model with attention that is even: every score is 0."""
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            if ".query" in name:
                parameter.zero_()
    return model


def result(measure: Any, model: Model, texts: Iterable[str | Text]) -> dict[str, pd.DataFrame]:
    return measure.result(fold(measure, stream(model, texts), model))


# topk


def type_string(token: str) -> str:
    return token.removeprefix("##")


def lists(text: Seen, layer: int, head: int, direction: str, k: int) -> list[list[int]]:
    """For each token the positions on its list in one head."""
    weights, visible, n = text.weights[layer][head], text.visible[layer], len(text.tokens)
    out = []
    for token in range(n):
        cells = [
            (weights[token][other], other)
            if direction == "attended"
            else (weights[other][token], other)
            for other in range(n)
            if text.keep[other]
            and (visible[token][other] if direction == "attended" else visible[other][token])
        ]
        out.append([other for _, other in sorted(cells, key=lambda cell: (-cell[0], cell[1]))[:k]])
    return out


def counts(
    text: Seen, direction: str, by: str, layers: Sequence[int], heads: Sequence[int], k: int
) -> Counter[Any]:
    """Algorithms 1 to 3: a token's lists over heads and layers are one set; a member counts once
    for each such set."""
    found: Counter[Any] = Counter()
    all_lists = [lists(text, layer, head, direction, k) for layer in layers for head in heads]
    for token in range(len(text.tokens)):
        positions = {position for some in all_lists for position in some[token]}
        found.update(
            {type_string(text.tokens[position]) for position in positions}
            if by == "type"
            else positions
        )
    return found


def topk_twin(
    text: Seen, k: int, shown: int, layers: Sequence[int], heads: Sequence[int]
) -> dict[Any, list[Any]]:
    """(direction, by, layers) -> its rows: (string, token, count)."""
    out: dict[Any, list[Any]] = {}
    first = {
        type_string(token): place
        for place, token in reversed(list(enumerate(text.tokens)))
        if text.keep[place]
    }
    for direction in ("attended", "attending"):
        for by in ("type", "position"):
            for name, chosen in [("all", layers), *((f"L{layer}", [layer]) for layer in layers)]:
                found = counts(text, direction, by, chosen, heads, k)
                order = sorted(
                    found, key=lambda one: (-found[one], first[one] if by == "type" else one)
                )[:shown]
                out[direction, by, name] = [
                    (one, -1, found[one])
                    if by == "type"
                    else (type_string(text.tokens[one]), one, found[one])
                    for one in order
                ]
    return out


# heatmap


def grid_twin(head: np.ndarray, size: int, span: int | None = None) -> np.ndarray:
    """Every token cut in `size` slices, so that bins hold whole slices; a mean over a bin's
    queries, a sum over its keys; NaN where no token is."""
    n = len(head)
    held = n if span is None else span  # slices in a bin
    fine = np.repeat(np.repeat(head, size, 0), size, 1) / size
    out = np.full((size, size), np.nan)
    for row in range(size):
        for column in range(size):
            cells = fine[row * held : (row + 1) * held, column * held : (column + 1) * held]
            if cells.size:
                out[row, column] = cells.sum(1).mean()
    return out


def cells_of(table: pd.DataFrame, size: int) -> np.ndarray:
    return table[[f"c{number}" for number in range(size)]].to_numpy()
