"""Batches of texts, and the layers of attention on them."""

from __future__ import annotations

from typing import Any

import attlas
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.models import Model


def layers_of(model: attlas.Model, batch: Batch, **options: Any) -> tuple[list[Attention], Any]:
    layers: list[Attention] = []
    return layers, model.forward(batch, layers.append, **options)


def batch_of(model: Model, *texts: Text | str) -> Batch:
    """The texts, which must have one length, as one batch."""
    encoded = model.encode(
        [
            (place, text if isinstance(text, Text) else Text(str(place), text))
            for place, text in enumerate(texts)
        ]
    )
    (batch,) = model.batches(encoded)
    return batch
