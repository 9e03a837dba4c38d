"""Slow twins of fine-tuning."""

from __future__ import annotations

import numpy as np
import torch

import attlas


def logits_slowly(model: attlas.Model, texts: list[str]) -> torch.Tensor:
    """A text at a time, with nothing but transformers."""
    with torch.no_grad():
        return torch.cat(
            [model.network(**model.tokenizer(text, return_tensors="pt")).logits for text in texts]
        )


def inputs_slowly(
    model: attlas.Model, name: str, texts: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The inputs of the layer whose output becomes the logits, and the logits, text by text."""
    seen: list[torch.Tensor] = []
    layer = model.network.get_submodule(name)
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits = logits_slowly(model, texts)
    handle.remove()
    rows = []
    for states, out in zip(seen, logits, strict=True):
        states = states.reshape(
            -1, states.shape[-1]
        )  # a causal model has a row a token; its last token decides
        with torch.no_grad():
            np.testing.assert_allclose(layer(states[-1]), out, rtol=1e-4, atol=1e-5)
        rows.append(states[-1].double().numpy())
    return np.stack(rows), logits.double().numpy()
