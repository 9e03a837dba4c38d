"""Models with attention code of their own, observed by hooks on the modules that return weights.

The registered function (capture.py) is never called for these. A hook asks the module for its
weights and passes them on without changing what the module returns; gates multiply the concatenated
heads where they enter the output projection.
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
        weights = self.weights.detach()[..., :n, :n].to(wide(self.weights))
        layer = DenseAttention(weights, batch, index, visible)
        layer.gradient_source = lambda: DenseAttention(self._gradient(n), batch, index, visible)
        return layer

    def _gradient(self, n: int) -> Tensor:
        """The gradient of the weights; 0 for keys that a query cannot see."""
        gradient = gradient_of(self.weights)[..., :n, :n].to(wide(self.weights))
        return gradient if self.visible is None else gradient * self.visible

    def keep_gradient(self) -> None:
        keep_gradient(self.weights)


class Adapter(Protocol):
    """A change to a network that makes its attention observable."""

    def install(self, network: nn.Module, scope: nn.Module, observers_of: ObserversOf) -> Undo: ...


class HookAdapter:
    """Hooks on every module that returns attention weights when asked."""

    def install(self, network: nn.Module, scope: nn.Module, observers_of: ObserversOf) -> Undo:
        """Put hooks on the modules of a network and use eager masks; return how to undo it."""
        modules = self.modules(scope)
        if not modules:
            raise CaptureError(
                f"the attention of {type(scope).__name__} cannot be observed; it neither uses "
                "transformers' attention interface nor returns weights on output_attentions=True"
            )
        undo = use_implementation(network, "eager")
        for module in modules:
            undo += self.install_one(module, observers_of)
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

    def install_one(self, module: nn.Module, observers_of: ObserversOf) -> Undo:
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
                    f"heads of {type(module).__name__} cannot be gated; "
                    "its output projection is not known"
                )
            captured = self.captured(module, output)
            for observer in observers:
                observer.on_layer(captured, module)

        undo = [
            module.register_forward_pre_hook(ask, with_kwargs=True).remove,
            module.register_forward_hook(hand_over).remove,
        ]
        if projection is not None:

            def gate(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
                heads = args[0]
                for observer in observers_of(module):
                    if observer.gates is not None:
                        separate = heads.unflatten(-1, (observer.n_heads, -1))
                        heads = observer.gated(separate).flatten(-2)
                return (heads, *args[1:])

            undo.append(module.get_submodule(projection).register_forward_pre_hook(gate).remove)
        return undo

    def captured(self, module: nn.Module, output: Any) -> CapturedLayer:
        weights = [
            part
            for part in (output if isinstance(output, tuple) else ())
            if isinstance(part, Tensor) and part.dim() == 4 and part.shape[-1] == part.shape[-2]
        ]
        if len(weights) != 1:
            name = type(module).__name__
            raise CaptureError(
                f"{name} returned no attention weights of shape [text, head, query, key]"
            )
        return DenseWeights(weights[0], _causal_pattern(weights[0].detach()))


class LongformerAdapter:
    """Longformer: its attention is computed in blocks (longformer.py)."""

    def install(self, network: nn.Module, scope: nn.Module, observers_of: ObserversOf) -> Undo:
        return use_implementation(network, "eager") + longformer.install(scope, observers_of)


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


def find_adapter(scope: nn.Module) -> Adapter | None:
    """The adapter that a network needs; None if the registered attention function is enough."""
    if any(type(module).__name__ == "LongformerAttention" for module in scope.modules()):
        return LongformerAdapter()
    if isinstance(scope, PreTrainedModel) and scope._can_set_attn_implementation():
        return None
    return HookAdapter()
