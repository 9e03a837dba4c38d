"""Models with attention code of their own: what softmax returns inside their attention modules.

The attention interface (capture.py) is never called for these. While such a module runs, the square
matrices that softmax returns are its weights; gates multiply the weights that the module goes on
with, which multiplies the output of the head.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from attlas.core.attention import Attention, DenseAttention
from attlas.core.batch import Batch
from attlas.models import longformer
from attlas.models.families import WHICH_SOFTMAX
from attlas.models.gradients import gradient_of, keep_gradient, wide
from attlas.models.install import Undo, replace_method
from attlas.models.norms import unknown
from attlas.support.errors import CaptureError

if TYPE_CHECKING:
    from attlas.models.capture import Observer

ObserversOf = Callable[[nn.Module], "list[Observer]"]
INTERFACE = ("get_interface", "ALL_ATTENTION_FUNCTIONS")  # names in code that uses it
SOFTMAX: tuple[Any, ...] = (
    torch.softmax,
    Tensor.softmax,
    functional.softmax,
    torch.special.softmax,
)
NAMES = ("Attention", "Attn")  # in the names of attention modules


class CapturedLayer(Protocol):
    """One layer's weights as captured."""

    def attention(self, batch: Batch, index: int) -> Attention: ...

    def keep_gradient(self) -> None:
        """Keep the gradient of the weights in the backward pass."""


@dataclass(frozen=True)
class DenseWeights:
    """Square weights and which keys each query sees."""

    weights: Tensor  # text head query key
    visible: Tensor | None = None  # [text or 1, head or 1, query, key]; None for all

    def attention(self, batch: Batch, index: int) -> Attention:
        n, visible = batch.n_tokens, self.visible
        if self.weights.shape[-2:] != (n, n):
            queries, keys = self.weights.shape[-2:]
            raise CaptureError(
                f"layer {index} has {queries} queries and {keys} keys for a text of {n} tokens; "
                "Attlas reads attention between the tokens of a text"
            )
        weights = self.weights.detach().to(wide(self.weights))
        layer = DenseAttention(weights, batch, index, visible)
        layer.gradient_source = lambda: DenseAttention(self._gradient(), batch, index, visible)
        return layer

    def _gradient(self) -> Tensor:
        """The gradient of the weights; 0 for keys that a query cannot see."""
        gradient = gradient_of(self.weights).to(wide(self.weights))
        return gradient if self.visible is None else gradient * self.visible

    def keep_gradient(self) -> None:
        keep_gradient(self.weights)


class _SoftmaxCatch(TorchFunctionMode):
    """Notes what softmax over the last axis returns, and gates its heads."""

    def __init__(self, observers: list[Observer]) -> None:
        super().__init__()
        self.observers = observers
        self.caught: list[Tensor] = []  # text head query key

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if func not in SOFTMAX:
            return output
        axis = (kwargs or {}).get("dim", args[1] if len(args) > 1 else None)
        if axis not in (-1, output.dim() - 1) or output.dim() not in (3, 4):
            return output
        texts = next((one.batch.n_texts for one in self.observers if one.batch is not None), 1)
        if output.dim() == 3 and len(output) % texts:
            return output
        weights = output if output.dim() == 4 else output.unflatten(0, (texts, -1))
        self.caught.append(weights)
        gating = [one for one in self.observers if one.gates is not None]
        by_query = weights.transpose(1, 2)
        for observer in gating:
            by_query = observer.gated(by_query)
        return by_query.transpose(1, 2).reshape_as(output) if gating else output


def install(scope: nn.Module, observers_of: ObserversOf) -> Undo:
    """Observe every attention module that does not use the interface; return how to undo it."""
    undo = longformer.install(scope, observers_of) + _use_full_attention(scope)
    for module in _attention_modules(scope):
        undo.append(replace_method(module, "forward", _caught(module, observers_of)))
    return undo


def _attention_modules(scope: nn.Module) -> list[nn.Module]:
    """The innermost attention modules with code of their own."""
    every = [one for one in scope.modules() if any(name in type(one).__name__ for name in NAMES)]
    known = set(map(id, every))
    return [
        module
        for module in every
        if not any(id(part) in known for part in module.modules() if part is not module)
        and not _uses_interface(type(module).__mro__)
        and "Longformer" not in type(module).__name__
    ]


@cache
def _uses_interface(classes: tuple[type, ...]) -> bool:
    """Whether a method of these classes looks up the attention function in the interface."""
    functions = (
        inspect.unwrap(one)
        for base in classes
        for one in vars(base).values()
        if inspect.isfunction(one)
    )
    return any(name in one.__code__.co_names for one in functions for name in INTERFACE)


def _caught(module: nn.Module, observers_of: ObserversOf) -> Callable[..., Any]:
    """The forward pass of a module, its softmax observed."""
    own = module.forward

    @wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        observers = observers_of(module)
        if not observers:
            return own(*args, **kwargs)
        before = [observer.layer for observer in observers]
        with _SoftmaxCatch(observers) as catch:
            output = own(*args, **kwargs)
        if before == [observer.layer for observer in observers]:
            _hand_over(module, catch.caught, observers)
        elif catch.caught and any(observer.gates is not None for observer in observers):
            raise CaptureError(f"heads of {type(module).__name__} cannot be gated")
        return output

    return forward


def _hand_over(module: nn.Module, caught: list[Tensor], observers: list[Observer]) -> None:
    """Pass the weights of one module to its observers; there are none if it computes none."""
    if not caught:
        return
    name, which = type(module).__name__, WHICH_SOFTMAX.get(type(module).__name__)
    if len(caught) != 1 and which is None:
        raise CaptureError(
            f"{name} computes {len(caught)} softmax matrices; "
            "Attlas cannot tell which is its attention"
        )
    weights = caught[which or 0]
    layer = DenseWeights(weights, _causal_pattern(weights.detach()))
    for observer in observers:
        if observer.lens is not None:  # the values are not known
            raise unknown(module)
        observer.on_layer(layer, module)


def _causal_pattern(weights: Tensor) -> Tensor | None:
    """Which keys each query of a causal model sees, from the weights; None if not causal."""
    n = weights.shape[-1]
    if n == 1 or bool(weights.triu(1).any()):
        return None
    return (weights != 0).flatten(0, 1).any(0)[None, None]


def _use_full_attention(scope: nn.Module) -> Undo:
    """Switch BigBird to full attention, which short texts would do for good; return the undo."""
    undo: Undo = []
    for module in scope.modules():
        if isinstance(module, PreTrainedModel) and hasattr(module, "set_attention_type"):
            undo.append(partial(module.set_attention_type, module.attention_type))
            module.set_attention_type("original_full")
    return undo
