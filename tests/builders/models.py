"""Tiny models, made once per test run."""

from __future__ import annotations

import torch

import attlas


def perturbed_model(model: attlas.Model, seed: int = 1) -> attlas.Model:
    """The same model with biases and norms that are not 0 and 1, so that none can be forgotten
    unseen.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model
