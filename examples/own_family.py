"""A family of models of one's own: attention code that transformers' interface does not know.

Most models need no row: they use transformers' attention interface, or return weights when asked.
To switch heads off, Attlas must know the class that returns the weights and the linear layer that
the heads enter. In Attlas it would be one row of `FAMILIES` in `src/attlas/models/families.py`.
Run it: python examples/own_family.py
"""

from __future__ import annotations

import torch
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

import attlas
from attlas.core.text import Text
from attlas.models import Model, families
from attlas.models.families import Family
from attlas.testing import tiny


class OwnSelfAttention(MPNetSelfAttention):  # type: ignore[misc]
    """It returns (output, weights), as modules with attention code of their own do."""


OWN = Family(attention="OwnSelfAttention", projection="o")


def register() -> None:
    """Add the family, as a row of the table would."""
    families.FAMILIES["own"] = OWN
    families.PROJECTION[OWN.attention] = OWN.projection


def own_model() -> Model:
    """Return a tiny model with this attention, and random weights."""
    model = tiny("mpnet")
    for layer in model.network.encoder.layer:
        layer.attention.attn.__class__ = OwnSelfAttention
    return attlas.load((model.network, model.tokenizer))


def output_change(model: Model, layer: int, head: int) -> float:
    """Return how much the last hidden state changes when one head is switched off."""
    batch = next(iter(model.batches(model.encode([(0, Text("a", "the cat sat on it"))]))))
    gates = torch.ones(model.n_layers, model.n_heads)
    gates[layer, head] = 0
    before, after = model.forward(batch), model.forward(batch, gates=gates)
    return float((before.last_hidden_state - after.last_hidden_state).abs().max())


if __name__ == "__main__":
    register()
    print(f"without head L0H1 the output changes by {output_change(own_model(), 0, 1):.2f}")
