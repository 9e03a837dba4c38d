"""Models with attention code of their own, observed by hooks on the modules that return the weights.

The registered function (capture.py) never sees these. A hook asks the module for its weights, hands them over in the same form,
and takes nothing away from what the module returns; gates multiply the heads side by side where they enter the output projection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn
from transformers import PreTrainedModel

from attlas.core.attention import Attention, DenseAttention
from attlas.core.batch import Batch
from attlas.models import longformer
from attlas.models.gradients import gradient_of, keep_gradient, wide
from attlas.models.install import Undo, use_implementation
from attlas.support.errors import CaptureError

if TYPE_CHECKING:
    from attlas.models.capture import Observer
from attlas.models.families import PROJECTION

ObserversOf = Callable[[nn.Module], "list[Observer]"]


class Seen(Protocol):
    """One layer's weights as they came, and how to make attention of them for a batch."""

    def attention(self, batch: Batch, index: int) -> Attention: ...

    def keep_gradient(self) -> None:
        """Ask for the gradient of the weights to be kept in the backward pass."""


@dataclass(frozen=True)
class DenseSeen:
    """Square weights [text, head, query, key] and which keys each query sees ([text or 1, head or 1, query, key], None for all)."""

    weights: Tensor
    visible: Tensor | None = None

    def attention(self, batch: Batch, index: int) -> Attention:
        n = batch.n_tokens
        layer = DenseAttention(
            self.weights.detach()[..., :n, :n].to(wide(self.weights)), batch, index, self.visible
        )
        layer.gradient_source = lambda: DenseAttention(
            self._gradient(n), batch, index, self.visible
        )
        return layer

    def _gradient(self, n: int) -> Tensor:
        """The gradient of the weights; 0 for those that no query can give, whatever the loss would make of them."""
        gradient = gradient_of(self.weights)[..., :n, :n].to(wide(self.weights))
        return gradient if self.visible is None else gradient * self.visible

    def keep_gradient(self) -> None:
        keep_gradient(self.weights)


class Adapter(Protocol):
    """Something put on a network so that its attention is seen."""

    def fit(self, network: nn.Module, scope: nn.Module, observers_of: ObserversOf) -> Undo: ...


class Hooked:
    """Hooks on every module that returns attention weights when asked."""

    def fit(self, network: nn.Module, scope: nn.Module, observers_of: ObserversOf) -> Undo:
        """Put hooks on the modules of a network and let it prepare its masks for eager attention; how to undo both."""
        modules = self.modules(scope)
        if not modules:
            raise CaptureError(
                f"{type(scope).__name__} has no attention that can be observed; it neither uses transformers' attention interface nor returns weights on output_attentions=True"
            )
        undo = use_implementation(network, "eager")
        for module in modules:
            undo += self.fit_one(module, observers_of)
        return undo + _use_full_attention(scope)

    def modules(self, scope: nn.Module) -> Sequence[nn.Module]:
        known = [module for module in scope.modules() if type(module).__name__ in PROJECTION]
        if known:
            return known
        able = [
            module
            for module in scope.modules()
            if "Attention" in type(module).__name__
            and "output_attentions" in inspect.signature(module.forward).parameters
        ]
        return [
            module
            for module in able
            if not any(part in able for part in module.modules() if part is not module)
        ]

    def fit_one(self, module: nn.Module, observers_of: ObserversOf) -> Undo:
        signature = inspect.signature(module.forward)
        projection = PROJECTION.get(type(module).__name__)

        def ask(
            module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
            if not observers_of(module) or "output_attentions" not in signature.parameters:
                return None
            bound = signature.bind(*args, **kwargs)
            bound.arguments["output_attentions"] = True
            return bound.args, bound.kwargs

        def hand_over(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            observers = observers_of(module)
            if not observers:
                return
            if projection is None and any(observer.gates is not None for observer in observers):
                raise CaptureError(
                    f"heads of {type(module).__name__} cannot be gated; its output projection is not known"
                )
            seen = self.seen(module, output)
            for observer in observers:
                observer.see(seen, module)

        undo = [
            module.register_forward_pre_hook(ask, with_kwargs=True).remove,
            module.register_forward_hook(hand_over).remove,
        ]
        if projection is not None:

            def gate(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
                heads = args[0]
                for observer in observers_of(module):
                    heads = (
                        observer.gated(heads.unflatten(-1, (observer.n_heads, -1))).flatten(-2)
                        if observer.gates is not None
                        else heads
                    )
                return (heads, *args[1:])

            undo.append(module.get_submodule(projection).register_forward_pre_hook(gate).remove)
        return undo

    def seen(self, module: nn.Module, output: Any) -> Seen:
        found = (
            [
                part
                for part in output
                if isinstance(part, Tensor) and part.dim() == 4 and part.shape[-1] == part.shape[-2]
            ]
            if isinstance(output, tuple)
            else []
        )
        if len(found) != 1:
            raise CaptureError(
                f"{type(module).__name__} returned no attention weights of shape [text, head, query, key]"
            )
        return DenseSeen(found[0], _causal_pattern(found[0].detach()))


class LongformerBlocks:
    """Longformer: its attention is computed in blocks (longformer.py), which hand over the band and the global rows themselves."""

    def fit(self, network: nn.Module, scope: nn.Module, observers_of: ObserversOf) -> Undo:
        return use_implementation(network, "eager") + longformer.fit(scope, observers_of)


def _causal_pattern(weights: Tensor) -> Tensor | None:
    """Which keys each query sees, where nothing says so but the weights: of a causal model the keys before it that any head uses."""
    n = weights.shape[-1]
    if n == 1 or bool(weights.triu(1).any()):
        return None
    return (weights != 0).flatten(0, 1).any(0)[None, None]


def _use_full_attention(scope: nn.Module) -> Undo:
    """BigBird turns itself to full attention on a short text, for good: turn it so for a while; how to turn it back."""
    undo: Undo = []
    for module in scope.modules():
        if isinstance(module, PreTrainedModel) and hasattr(module, "set_attention_type"):
            undo.append(partial(module.set_attention_type, module.attention_type))
            module.set_attention_type("original_full")
    return undo


def adapter_of(scope: nn.Module) -> Adapter | None:
    """The adapter a network needs, or None if the registered attention function serves it."""
    if any(type(module).__name__ == "LongformerAttention" for module in scope.modules()):
        return LongformerBlocks()
    if isinstance(scope, PreTrainedModel) and scope._can_set_attn_implementation():
        return None
    return Hooked()
