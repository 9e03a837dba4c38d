"""A family of models of one's own: attention code that transformers' interface does not know.

Attlas reads what softmax returns inside its attention modules, and switches heads off there, so
most models need no row. This one says how long its texts may be, which its positions do not tell.
In Attlas that would be one row of `FAMILIES` in `src/attlas/models/families.py`.
Run it: python examples/own_family.py
"""

from __future__ import annotations

import torch
from transformers import MPNetConfig
from transformers.models.mpnet.modeling_mpnet import MPNetModel, MPNetSelfAttention

import attlas
from attlas.core.text import Text
from attlas.models import Model, families
from attlas.models.families import Family
from attlas.testing.models import tiny_tokenizer


class OwnConfig(MPNetConfig):  # type: ignore[misc]
    """A configuration of a type that transformers does not know."""

    model_type = "own"
    max_position_embeddings = 512
    longest_text = 32


class OwnSelfAttention(MPNetSelfAttention):  # type: ignore[misc]
    """Its softmax is in code of its own."""


OWN = Family(longest=lambda config: int(config.longest_text))


def register() -> None:
    """Add the family, as a row of the table would."""
    families.FAMILIES[OwnConfig.model_type] = OWN


def own_model() -> Model:
    """Return a tiny model with this attention, and random weights."""
    tokenizer = tiny_tokenizer()
    config = OwnConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=37,
    )
    torch.manual_seed(0)
    network = MPNetModel(config).eval()
    network.embeddings.position_embeddings.padding_idx = None  # its table says nothing of texts
    for layer in network.encoder.layer:
        layer.attention.attn.__class__ = OwnSelfAttention
    return attlas.load((network, tokenizer))


def output_change(model: Model, layer: int, head: int) -> float:
    """Return how much the last hidden state changes when one head is switched off."""
    batch = next(iter(model.batches(model.encode([(0, Text("a", "the cat sat on it"))]))))
    gates = torch.ones(model.n_layers, model.n_heads)
    gates[layer, head] = 0
    before, after = model.forward(batch), model.forward(batch, gates=gates)
    return float((before.last_hidden_state - after.last_hidden_state).abs().max())


if __name__ == "__main__":
    register()
    own = own_model()
    print(f"texts have at most {own.max_length} tokens")
    print(f"without head L0H1 the output changes by {output_change(own, 0, 1):.3f}")
