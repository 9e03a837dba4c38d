"""Streams of attention of three architectures."""

from __future__ import annotations

from functools import cache

import pandas as pd

import attlas
from attlas.core.text import Text
from attlas.testing import fold, stream, tiny

TEXTS = (
    "a cat sat, on a mat.",
    "the dog",
    "it was not very good. the film, a bad film",
    "cat",
    "a cat [SEP] the dog.",
    "the cat",
    "we!",
)


@cache
def seen(family, global_tokens="first"):
    """A tiny model and its stream over TEXTS, each text alone."""
    model = attlas.load(
        tiny(family), global_tokens=global_tokens if family == "longformer" else None
    )
    return model, stream(model, TEXTS)


def joined(model, texts):
    """Texts of one length in one batch: all layers of each batch."""
    given = [
        text if isinstance(text, Text) else Text(str(place), text)
        for place, text in enumerate(texts)
    ]
    out = []
    for batch in model.batches(model.encode(list(enumerate(given)))):
        out.append([])
        model.forward(batch, out[-1].append)
    return out


def run(measure, batches, model):
    return measure.result(fold(measure, batches, model))


def tables(rows):
    """Surface and entropy of hand-made heads: next, previous, [CLS], [SEP], punctuation, and the
    share of the largest entropy."""
    names = ("next", "previous", "cls", "sep", "punctuation")
    surface = pd.DataFrame([dict(zip(names, row[:5], strict=True)) for row in rows])
    entropy = pd.DataFrame({"entropy": [4.0 * row[5] for row in rows], "entropy_uniform": 4.0})
    heads = {"layer": [0] * len(rows), "head": range(len(rows))}
    return surface.assign(**heads), entropy.assign(**heads)


# what a word attends to most
