"""The gradient of attention weights: asked for before the backward pass, read after it; half precision is measured in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from attlas.support.errors import CaptureError


def keep_gradient(weights: Tensor) -> None:
    """Ask for the gradient of weights to be kept in the backward pass."""
    if not weights.requires_grad:
        raise CaptureError(
            "gradients were asked for, but nothing in this pass requires one; run it with gradients enabled and unfrozen parameters"
        )
    weights.retain_grad()


def gradient_of(weights: Tensor) -> Tensor:
    """The gradient that was kept."""
    if weights.grad is None:
        raise CaptureError(
            "these weights have no gradient yet; call backward on a loss inside the observation first"
        )
    return weights.grad


def wide(weights: Tensor) -> torch.dtype:
    """The precision that weights are measured in."""
    return torch.float32 if weights.dtype in (torch.float16, torch.bfloat16) else weights.dtype
