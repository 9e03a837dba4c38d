"""Streams of attention that measures read, and the raw weights behind them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from attlas.catalogue import MEASURES
from attlas.testing import stream, tiny

TEXTS = (
    "a cat sat, on a mat.",
    "the dog",
    "it was not very good. the film, a bad film",
    "cat",
    "a cat [SEP] the dog.",
    "he saw it, it saw her and the mat",
    "the cat",
    "we!",
)


FAMILIES = ("bert", "gpt2", "gemma2", "longformer")


class Raw(NamedTuple):
    """One text as transformers gives it: weights [layer, head, query, key]; what each layer lets
    be seen [layer, query, key]; tokens."""

    weights: np.ndarray
    visible: np.ndarray
    tokens: list[str]


@cache
def seen(family):
    """A tiny model, its stream of attention over TEXTS, and the raw weights that transformers
    itself returns."""
    model = tiny(family)
    batches = stream(model, TEXTS)
    if family != "longformer":  # whose own output is a band
        model.network.set_attn_implementation("eager")
    raw = []
    for layers in batches:
        ids = layers[0].batch.ids
        with torch.no_grad():
            own = (
                [layer.dense().weights for layer in layers]
                if family == "longformer"
                else model.network(input_ids=ids, output_attentions=True).attentions
            )
        visible = np.array(
            [pattern(family, model.network.config, layer, ids.shape[1]) for layer in range(3)]
        )
        raw.append(
            Raw(
                torch.cat(list(own)).double().numpy(),
                visible,
                model.tokenizer.convert_ids_to_tokens(ids[0].tolist()),
            )
        )
    return model, batches, raw


READING = [name for name in MEASURES if not MEASURES[name].needs]


def make_measure(name):
    """The measure; one that runs the model many times does so no more than the contract needs."""
    light = {
        "methods": ("integrated_gradients", "attention_last"),
        "tolerance": 0.2,
        "permutations": 2,
    }
    return MEASURES[name](**light) if "network" in MEASURES[name].needs else MEASURES[name]()


def model_for(name, family):
    """A model that the measure can learn from or run, and its stream."""
    if name in READING:
        return seen(family)[:2]
    model = tiny(family, task="lm" if family == "gpt2" else "classify")
    if "network" in MEASURES[name].needs:
        model.network.double()  # ranks must not hang on the last bit of a gradient
    return model, stream(model, TEXTS)


@cache
def together(family):
    """The same stream with the texts of one length in one batch."""
    return in_batches(*seen(family)[:2])


def in_batches(model, batches):
    out = []
    for batch in model.batches(
        [
            model.encode([(place, layers[0].batch.texts[0])])[0]
            for place, layers in enumerate(batches)
        ]
    ):
        out.append([])
        model.forward(batch, out[-1].append)
    assert len(out) < len(batches)
    return out


def pattern(family, config, layer, n):
    """Which key each query sees, from what the architecture says."""
    query, key = np.indices((n, n))
    if family == "bert":
        return key < n
    if family == "longformer":
        return (abs(key - query) <= config.attention_window[layer] // 2) | (query == 0) | (key == 0)
    sliding = family == "gemma2" and config.layer_types[layer] == "sliding_attention"
    return (key <= query) & (query - key < (config.sliding_window if sliding else n))
