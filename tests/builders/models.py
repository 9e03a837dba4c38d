"""Tiny models, made once per test run where tests leave them as they are."""

from __future__ import annotations

from typing import Any

import torch

import attlas
from attlas.testing import tiny

_SHARED: dict[str, tuple[attlas.Model, dict[str, str]]] = {}  # with what they were at first


def shared(family: str = "bert", task: str = "base", seed: int = 0, **options: Any) -> attlas.Model:
    """A tiny model that all tests share; whoever changes it makes the test run fail at its end."""
    name = repr((family, task, seed, sorted(options.items())))
    if name not in _SHARED:
        model = tiny(family, task, seed, **options)
        _SHARED[name] = model, model.identity()
    return _SHARED[name][0]


def changed_models() -> list[str]:
    """The shared models that are no longer what they were."""
    return [name for name, (model, before) in _SHARED.items() if model.identity() != before]


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
