"""The gradient of attention weights: requested before the backward pass, read after it."""

from __future__ import annotations

import torch
from torch import Tensor

from attlas.support.errors import CaptureError


def keep_gradient(weights: Tensor) -> None:
    """Keep the gradient of weights in the backward pass."""
    if not weights.requires_grad:
        raise CaptureError(
            "no gradient can be computed, because nothing in this pass requires one; "
            "run it with gradients enabled and parameters that are not frozen"
        )
    weights.retain_grad()


def gradient_of(weights: Tensor) -> Tensor:
    """The gradient of weights after the backward pass."""
    if weights.grad is None:
        raise CaptureError(
            "these weights have no gradient yet; call backward on a loss while they are observed"
        )
    return weights.grad


def wide(weights: Tensor) -> torch.dtype:
    """The precision in which weights are measured: float32 for half precision."""
    return torch.float32 if weights.dtype in (torch.float16, torch.bfloat16) else weights.dtype
