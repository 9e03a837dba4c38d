"""In which texts does a head do most, and least, of what it does?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape, check_bytes
from attlas.core.states import Sample, State
from attlas.measures.surface import COLUMNS, surface
from attlas.support.arrays import Array, Floats
from attlas.support.options import option

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
SCORES = ("entropy", "self", "previous", "next", "first", "cls", "sep", "punctuation")
BEGIN = 200  # characters of a text
PLACES = 4  # by which scores are ordered, so that their order does not hang on the last bit


def example_scores(layer: Attention, score: str) -> tuple[Tensor, Tensor]:
    """A score of each text, and that of uniform attention: [text, head] both.

    `entropy` is how far the mean entropy of rows is below uniform, in nats: that of uniform
    attention is 0. The others are mean shares of a row, as in `surface`.
    """
    if score == "entropy":
        largest = layer.n_visible_keys.float().log()
        below = (largest - layer.row_entropy()).mean(-1)
        return below, torch.zeros_like(below)
    column = COLUMNS.index(score)
    values = surface(layer)[..., column]
    return values, surface(layer.uniform)[..., column].expand_as(values)


@dataclass
class ExamplesState(State):
    """A sample of texts, and those of the current batch that would be in it."""

    sample: Sample
    shape: tuple[int, int] = field(metadata={"parameter": True})
    current: dict[int, list[dict[str, Array]]] | None = field(
        default=None, metadata={"parameter": True}
    )


@dataclass(frozen=True, kw_only=True)
class Examples(Measure[ExamplesState]):
    """Texts at five quantiles of a score of each head, with the largest weights of every row.

    The texts are a sample of `size`: those whose id and text have the smallest hash, so that it
    does not depend on shards or workers. `examples` has, for each head, the texts at quantiles 0,
    0.25, 0.5, 0.75 and 1 of `score` within the sample (with few texts, one text at several) and the
    score of uniform attention; `examples_keys` the `keys` largest weights of each of their rows;
    `examples_tokens` their tokens. Of texts with more than `tokens` tokens no weights are kept
    (`has_keys`).
    """

    name: ClassVar[str] = "examples"
    clause: ClassVar[str] = (
        "for each head, example texts at five quantiles of how far its entropy is below that of "
        "uniform attention, or of its attention to a target, from a random sample of the corpus"
    )
    score: str = option("entropy", "Score by which texts are ordered.", choices=SCORES)
    size: int = option(40, "Number of texts in the sample.", at_least=1, at_most=10_000)
    keys: int = option(8, "Number of weights of each row.", at_least=1, at_most=64)
    tokens: int = option(
        64, "Most tokens of a text whose weights are kept.", at_least=0, at_most=4_096
    )

    def start(self, model: Shape) -> ExamplesState:
        heads = self.size * model.n_layers * model.n_heads
        check_bytes(self.name, heads * (6 * self.tokens * self.keys + 8), "lower size or tokens")
        return ExamplesState(Sample(self.size), (model.n_layers, model.n_heads))

    def update(self, state: ExamplesState, layer: Attention) -> None:
        batch = layer.batch
        if state.current is None:
            entering = state.sample.entering([text.key for text in batch.texts], batch.indices)
            state.current = {number: [] for number in entering}
        for number, layers in state.current.items():
            layers.append(self._of_text(layer.of_text(number)))

    def _of_text(self, layer: Attention) -> dict[str, Array]:
        """What is kept of one layer of one text."""
        score, control = (one[0].float().cpu().numpy() for one in example_scores(layer, self.score))
        shape = (layer.n_heads, 0, self.keys)
        keys, weights = np.zeros(shape, dtype=np.int16), np.zeros(shape, dtype=np.float32)
        if layer.n_tokens <= self.tokens:
            top, where = layer.top_keys(self.keys)
            weights, keys = top[0].float().cpu().numpy(), where[0].cpu().numpy().astype(np.int16)
        return {"score": score, "control": control, "keys": keys, "weights": weights}

    def finish_batch(self, state: ExamplesState, batch: Batch, outputs: Outputs) -> None:
        current, state.current = state.current or {}, None
        for number, layers in current.items():
            arrays = {name: np.stack([one[name] for one in layers]) for name in layers[0]}
            arrays |= _about(batch.of_text(number), self.tokens)
            state.sample.add(batch.texts[number].key, batch.indices[number], arrays)

    def result(self, state: ExamplesState) -> dict[str, pd.DataFrame]:
        places = [place for _, place, _ in state.sample.entries]
        entries = [arrays for _, _, arrays in state.sample.entries]
        about = [_json(arrays["about"]) for arrays in entries]
        scores = np.array([one["score"] for one in entries], dtype=np.float64)
        scores = scores.reshape(len(entries), *state.shape)
        chosen = [
            (layer, head, quantile, entry)
            for layer in range(state.shape[0])
            for head in range(state.shape[1])
            for quantile, entry in at_quantiles(scores[:, layer, head])
        ]
        rows = [
            {
                "layer": layer,
                "head": head,
                "quantile": quantile,
                "place": places[entry],
                "text": about[entry]["text"],
                "begins": about[entry]["begins"],
                "tokens": int(entries[entry]["n_tokens"][0]),
                "has_keys": entries[entry]["keys"].shape[2] > 0,
                "score_of": self.score,
                "score": scores[entry, layer, head],
                "control": float(entries[entry]["control"][layer, head]),
            }
            for layer, head, quantile, entry in chosen
        ]
        heads = list(dict.fromkeys((layer, head, entry) for layer, head, _, entry in chosen))
        keys = [
            _key_columns(layer, head, places[entry], entries[entry]) for layer, head, entry in heads
        ]
        used = sorted({entry for _, _, entry in heads}, key=lambda entry: places[entry])
        tokens = [_token_columns(places[entry], entries[entry]) for entry in used]
        return {
            "examples": pd.DataFrame(rows, columns=list(EXAMPLE_TYPES)).astype(EXAMPLE_TYPES),
            "examples_keys": _joined(keys, KEY_TYPES),
            "examples_tokens": _joined(tokens, TOKEN_TYPES),
        }


EXAMPLE_TYPES = {
    "layer": "int64",
    "head": "int64",
    "quantile": "float64",
    "place": "int64",
    "text": "object",
    "begins": "object",
    "tokens": "int64",
    "has_keys": "bool",
    "score_of": "object",
    "score": "float64",
    "control": "float64",
}
KEY_TYPES = {
    "layer": "int32",
    "head": "int32",
    "place": "int64",
    "query": "int32",
    "key": "int32",
    "weight": "float32",
}
TOKEN_TYPES = {
    "place": "int64",
    "token": "int32",
    "start": "int32",
    "stop": "int32",
    "string": "object",
}


def at_quantiles(scores: Floats) -> list[tuple[float, int]]:
    """Which of some scores is at each of QUANTILES; NaN is none, the first of equals comes first.

    >>> at_quantiles(np.array([0.5, np.nan, 0.1, 0.3]))
    [(0.0, 2), (0.25, 3), (0.5, 3), (0.75, 0), (1.0, 0)]
    """
    known = np.flatnonzero(np.isfinite(scores))
    order = known[np.argsort(scores[known].round(PLACES), kind="stable")]
    if not len(order):
        return []
    return [(one, int(order[int(one * (len(order) - 1) + 0.5)])) for one in QUANTILES]


def _about(batch: Batch, most: int) -> dict[str, Array]:
    """The id of a text, how it begins, how many tokens it has and, if kept, what they are."""
    kept = batch.n_tokens <= most
    text, strings = batch.texts[0], batch.surfaces[0] if kept else ()
    about = {"text": text.id, "begins": text.text[:BEGIN], "strings": strings}
    spans = np.where(batch.special[0][:, None], -1, batch.offsets[0])
    return {
        "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        "spans": spans[: batch.n_tokens * kept].astype(np.int32),
        "n_tokens": np.array([batch.n_tokens]),
    }


def _json(content: Array) -> dict[str, Any]:
    out: dict[str, Any] = json.loads(content.tobytes())
    return out


def _key_columns(
    layer: int, head: int, place: int, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """The largest weights of the rows of one head in one text."""
    keys, weights = arrays["keys"][layer, head], arrays["weights"][layer, head]
    query, rank = np.nonzero(keys >= 0)
    size = len(query)
    return {
        "layer": np.full(size, layer),
        "head": np.full(size, head),
        "place": np.full(size, place),
        "query": query,
        "key": keys[query, rank],
        "weight": weights[query, rank],
    }


def _token_columns(place: int, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The tokens of one text."""
    strings, spans = _json(arrays["about"])["strings"], arrays["spans"]
    return {
        "place": np.full(len(strings), place),
        "token": np.arange(len(strings)),
        "start": spans[:, 0],
        "stop": spans[:, 1],
        "string": np.array(strings, dtype=object),
    }


def _joined(parts: list[dict[str, Array]], types: Mapping[str, str]) -> pd.DataFrame:
    """The columns of all parts one after the other."""
    columns = {
        name: np.concatenate([np.zeros(0, dtype=kind), *(part[name] for part in parts)])
        for name, kind in types.items()
    }
    return pd.DataFrame(columns).astype(dict(types))
