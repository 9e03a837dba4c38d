"""The lens "norms": attention weights times the length of what each token contributes.

A head adds A[q, k] f(k) to the output of its module, where f(k) is the value of token k, its bias
included, times the head's part of the projection out of the heads (Kobayashi et al. 2020). The lens
shows A[q, k] |f(k)| with rows that sum to one, as measures expect. The projection is the linear map
that is given the output of all heads: it is found in one pass, in families whose heads lead to it
without anything in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attlas.models.gradients import wide
from attlas.support.errors import CaptureError

Lens = Callable[[nn.Module, Tensor, Tensor], Tensor]  # of a module, its values and weights


@dataclass(frozen=True, eq=False)
class NormLens:
    """What a model's heads add, by attention module: the products of its projection's rows."""

    projections: Mapping[int, Tensor]  # by module: [head, dimension, out]

    def contributions(self, module: nn.Module, value: Tensor) -> Tensor:
        """What each token adds where a head attends to it alone: [text, head, key, out]."""
        projection = self._projection(module)
        value = by_head(value, len(projection)).to(projection)
        return torch.einsum("thkd,hdo->thko", value, projection)

    def lengths(self, module: nn.Module, value: Tensor) -> Tensor:
        """The length of each contribution: [text, head, key]."""
        projection = self._projection(module)
        value = by_head(value, len(projection)).to(projection)
        products = torch.einsum("hdo,heo->hde", projection, projection)
        squares = torch.einsum("thkd,hde,thke->thk", value, products, value)
        return squares.clamp_min(0).sqrt()

    def __call__(self, module: nn.Module, value: Tensor, weights: Tensor) -> Tensor:
        """Weights times lengths; each row sums to what it did. A row of zeros stays as it was."""
        weights = weights.to(wide(weights))
        scaled = weights * self.lengths(module, value)[:, :, None].to(weights)
        total = scaled.sum(-1, keepdim=True)
        rescaled = scaled * (weights.sum(-1, keepdim=True) / total.clamp_min(1e-30))
        return torch.where(total > 0, rescaled, weights)

    def _projection(self, module: nn.Module) -> Tensor:
        if id(module) not in self.projections:
            raise unknown(module)
        return self.projections[id(module)]


def unknown(module: nn.Module) -> CaptureError:
    """The error for a module whose projection out of its heads is not known."""
    return CaptureError(
        f"the lens norms is not available for {type(module).__name__}: it is not known what its "
        "heads add to the output; use the lens weights"
    )


def by_head(value: Tensor, heads: int) -> Tensor:
    """Values [text, group, key, dimension] for every head; heads of a group share them."""
    return value.repeat_interleave(heads // value.shape[1], 1)


@dataclass
class FindProjections(TorchFunctionMode):
    """A lens that changes nothing, and notes which linear map is given the output of the heads."""

    found: dict[int, Tensor] = field(default_factory=dict)
    waiting: list[tuple[nn.Module, Tensor, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def lens(self, module: nn.Module, value: Tensor, weights: Tensor) -> Tensor:
        """Remember what the heads of a module give."""
        heads = weights.shape[1]
        if value.dim() == 4 and heads % value.shape[1] == 0:
            output = (weights.to(value) @ by_head(value, heads)).transpose(1, 2).flatten(2)
            self.waiting.append((module, output.detach(), heads))
        return weights

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is functional.linear:
            self._match(args[0], args[1])
        elif func is torch.addmm:
            self._match(args[1], args[2].T)
        return func(*args, **(kwargs or {}))

    def _match(self, given: Tensor, weight: Tensor) -> None:
        for at, (module, output, heads) in enumerate(self.waiting):
            flat = given.reshape(-1, given.shape[-1])
            if flat.shape == output.flatten(0, 1).shape and torch.allclose(
                flat, output.flatten(0, 1), rtol=1e-3, atol=1e-5
            ):
                projection = weight.detach().to(wide(weight))
                rows = len(projection.T) // heads
                self.found[id(module)] = projection.T.reshape(heads, rows, -1).contiguous()
                del self.waiting[at]
                return
