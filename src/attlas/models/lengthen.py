"""lengthen: a model for long texts from one for short texts (Beltagy, Peters and Cohan 2020)."""

from __future__ import annotations

from typing import Any

from attlas.models.lengthened import LENGTH, WINDOW, lengthened
from attlas.models.load import load
from attlas.models.model import Model


def lengthen(model: Any = None, length: int = LENGTH, window: int = WINDOW, skip: int = 0) -> Model:
    """A Longformer of `length` tokens from a BERT-like or RoBERTa-like model, without training.

    Every weight is kept. Position embeddings are repeated until there are `length`; the projections
    of global tokens start as copies of the local ones. A token sees `window` / 2 tokens on each
    side, and the first token. Up to `window` / 2 + 1 tokens nothing changes; beyond that the model
    sees less than before, and positions repeat: check the measure `position_bias`. `skip` excludes
    that many of the first positions from the repetition: with 1, no later token has the position of
    [CLS]. The `max_length` of the short model does not apply to the long one. Dropout of attention
    weights is switched off for later training, because it is expensive. `model` is anything
    `attlas.load` takes.
    """
    return lengthened(load(model, task="auto"), length, window, skip)
