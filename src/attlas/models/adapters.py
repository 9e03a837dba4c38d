"""Models with attention code of their own, observed by hooks on the modules that return the weights.

The registered function (capture.py) never sees these. A hook asks the module for its weights, hands them over in the same form,
and takes nothing away from what the module returns; gates multiply the heads side by side where they enter the output projection.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attlas.core.attention import Attention, DenseAttention
from attlas.core.banded import BandedAttention
from attlas.core.batch import Batch
from attlas.core.errors import CaptureError
from attlas.models.implementation import Undo, use_implementation

if TYPE_CHECKING:
    from attlas.models.capture import Observer

ObserversOf = Callable[[nn.Module], "list[Observer]"]

# class that returns the weights -> its part whose input is the heads side by side
PROJECTION = {
    "MPNetSelfAttention": "o",
    "DebertaAttention": "output.dense",
    "DebertaV2Attention": "output.dense",
    "BigBirdAttention": "output.dense",
    "LongformerAttention": "output.dense",
}


class Seen(Protocol):
    """One layer's weights as they came, and how to make attention of them for a batch."""

    def attention(self, batch: Batch, index: int) -> Attention: ...

    def keep_gradient(self) -> None:
        """Ask for the gradient of the weights to be kept in the backward pass."""


@dataclass(frozen=True)
class DenseSeen:
    """Square weights [text, head, query, key] and which keys each query sees ([1, query, key], None for all)."""

    weights: Tensor
    visible: Tensor | None = None

    def attention(self, batch: Batch, index: int) -> Attention:
        n = batch.n_tokens
        layer = DenseAttention(_float(self.weights.detach()[..., :n, :n]), batch, index, self.visible)
        layer.gradient_source = lambda: DenseAttention(
            _float(_grad(self.weights)[..., :n, :n]), batch, index, self.visible
        )
        return layer

    def keep_gradient(self) -> None:
        _keep(self.weights)


@dataclass(frozen=True)
class BandSeen:
    """Longformer's local weights [text, query, head, global + window + 1] and its global rows [text, head, global, key].

    Both keep the padded length; cells of global keys inside the window and rows of global queries are not used.
    """

    local: Tensor
    rows: Tensor | None

    def attention(self, batch: Batch, index: int) -> Attention:
        layer = self._band(batch, index, self.local.detach(), None if self.rows is None else self.rows.detach())
        layer.gradient_source = lambda: self._band(
            batch, index, _grad(self.local), None if self.rows is None else _grad(_base(self.rows)).view_as(self.rows)
        )
        return layer

    def _band(self, batch: Batch, index: int, local: Tensor, rows: Tensor | None) -> BandedAttention:
        n, count = batch.n_tokens, 0 if rows is None else rows.shape[2]
        places = torch.zeros(batch.n_texts, 0, dtype=torch.long, device=local.device)
        if rows is not None:
            mask = batch.inputs["global_attention_mask"]
            places = mask.nonzero()[:, 1].reshape(batch.n_texts, count)
        else:
            rows = local.new_zeros(batch.n_texts, local.shape[2], 0, n)
        local = _float(local[:, :n]).transpose(1, 2).contiguous()  # text head query cell
        across = places[:, None, :, None].expand(-1, local.shape[1], -1, local.shape[-1])
        local = local.scatter(2, across, 0.0)
        return BandedAttention(
            local[..., count:].contiguous(),
            local[..., :count].contiguous(),
            _float(rows[..., :n]).contiguous(),
            places,
            batch,
            index,
        )

    def keep_gradient(self) -> None:
        _keep(self.local)
        if self.rows is not None:
            _keep(_base(self.rows))


def _float(weights: Tensor) -> Tensor:
    return weights.float() if weights.dtype in (torch.float16, torch.bfloat16) else weights


def _base(weights: Tensor) -> Tensor:
    """The tensor that took part in the output, where the one returned is a view of it."""
    return weights if weights._base is None else weights._base


def _keep(weights: Tensor) -> None:
    if not weights.requires_grad:
        raise CaptureError(
            "gradients were asked for, but nothing in this pass requires one; run it with gradients enabled and unfrozen parameters"
        )
    weights.retain_grad()


def _grad(weights: Tensor) -> Tensor:
    if weights.grad is None:
        raise CaptureError("these weights have no gradient yet; call backward on a loss inside the observation first")
    return weights.grad


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
        return [module for module in able if not any(part in able for part in module.modules() if part is not module)]

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


class LongformerHooked(Hooked):
    """Longformer: the band and the global rows. For gradients the weights are taken where they enter the output."""

    def __init__(self) -> None:
        self.tapped = threading.local()  # what this thread's pass took, by module

    def modules(self, scope: nn.Module) -> Sequence[nn.Module]:
        return [module for module in scope.modules() if type(module).__name__ == "LongformerAttention"]

    def fit_one(self, module: nn.Module, observers_of: ObserversOf) -> Undo:
        undo = super().fit_one(module, observers_of)
        for name in ("_compute_attn_output_with_global_indices", "_sliding_chunks_matmul_attn_probs_value"):
            undo.append(self._tap(module.get_submodule("self"), name, partial(observers_of, module)))
        return undo

    def _tap(self, module: nn.Module, name: str, observers: Callable[[], list[Observer]]) -> Callable[[], None]:
        """Let a method work on a copy of the weights that nothing overwrites later, if gradients are wanted; how to undo it."""
        method = getattr(module, name)
        signature = inspect.signature(method)

        def call(*args: Any, **kwargs: Any) -> Any:
            taken = self.tapped.__dict__
            if str(id(module)) in taken or not any(observer.gradients for observer in observers()):
                return method(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.arguments["attn_probs"] = taken[str(id(module))] = bound.arguments["attn_probs"].clone()
            return method(*bound.args, **bound.kwargs)

        module.__dict__[name] = call
        return lambda: module.__dict__.pop(name, None)

    def seen(self, module: nn.Module, output: Any) -> Seen:
        local, rows = output[1], output[2] if len(output) > 2 else None
        return BandSeen(self.tapped.__dict__.pop(str(id(module.get_submodule("self"))), local), rows)


def _causal_pattern(weights: Tensor) -> Tensor | None:
    """Which keys each query sees, where nothing says so but the weights: of a causal model the keys before it that any head uses."""
    n = weights.shape[-1]
    if n == 1 or bool(weights.triu(1).any()):
        return None
    return (weights != 0).flatten(0, 1).any(0)[None]


def _use_full_attention(scope: nn.Module) -> Undo:
    """BigBird turns itself to full attention on a short text, for good: turn it so for a while; how to turn it back."""
    undo: Undo = []
    for module in scope.modules():
        if isinstance(module, PreTrainedModel) and hasattr(module, "set_attention_type"):
            undo.append(partial(module.set_attention_type, module.attention_type))
            module.set_attention_type("original_full")
    return undo


def adapter_of(scope: nn.Module) -> Hooked | None:
    """The adapter a network needs, or None if the registered attention function serves it."""
    if any(type(module).__name__ == "LongformerAttention" for module in scope.modules()):
        return LongformerHooked()
    if isinstance(scope, PreTrainedModel) and scope._can_set_attn_implementation():
        return None
    return Hooked()
