"""Models with attention code of their own, observed by hooks on the modules that return the weights.

The registered function (capture.py) never sees these. A hook asks the module for its weights, hands them over in the same form,
and takes nothing away from what the module returns; gates multiply the heads side by side where they enter the output projection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attlas.core.attention import Attention, DenseAttention
from attlas.core.banded import BandedAttention
from attlas.core.batch import Batch
from attlas.core.errors import CaptureError

if TYPE_CHECKING:
    from attlas.models.capture import Observer

Undo = list[Callable[[], None]]
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

    def fit(self, scope: nn.Module, observers_of: ObserversOf) -> Undo:
        """Put hooks on the modules of a network; how to take them off."""
        modules = self.modules(scope)
        if not modules:
            raise CaptureError(
                f"{type(scope).__name__} has no attention that can be observed; it neither uses transformers' attention interface nor returns weights on output_attentions=True"
            )
        undo: Undo = []
        for module in modules:
            undo += self.fit_one(module, observers_of)
        return undo + _keep_attention_type(scope)

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
                observer.see(seen)

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
        sums = found[0].detach().float().sum(-1)
        if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
            name = type(module).__name__
            hint = "; load it with attention_type='original_full'" if name == "BigBirdAttention" else ""
            raise CaptureError(f"the rows that {name} returns as its attention do not sum to one{hint}")
        return DenseSeen(found[0])


class LongformerHooked(Hooked):
    """Longformer: the band and the global rows. For gradients the weights are taken where they enter the output."""

    def modules(self, scope: nn.Module) -> Sequence[nn.Module]:
        return [module for module in scope.modules() if type(module).__name__ == "LongformerAttention"]

    def fit_one(self, module: nn.Module, observers_of: ObserversOf) -> Undo:
        undo = super().fit_one(module, observers_of)
        inner = module.get_submodule("self")
        undo += [
            _tapped(inner, name, lambda: any(observer.gradients for observer in observers_of(module)))
            for name in ("_compute_attn_output_with_global_indices", "_sliding_chunks_matmul_attn_probs_value")
        ]
        return undo

    def seen(self, module: nn.Module, output: Any) -> Seen:
        local, rows = output[1], output[2] if len(output) > 2 else None
        return BandSeen(module.get_submodule("self").__dict__.pop("_attlas_weights", local), rows)


def _tapped(module: nn.Module, name: str, wanted: Callable[[], bool]) -> Callable[[], None]:
    """Let a method of Longformer's attention work on a copy of its weights that nothing overwrites later; how to undo it."""
    method = getattr(module, name)
    signature = inspect.signature(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not wanted() or "_attlas_weights" in module.__dict__:
            return method(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.arguments["attn_probs"] = module.__dict__["_attlas_weights"] = bound.arguments["attn_probs"].clone()
        return method(*bound.args, **bound.kwargs)

    module.__dict__[name] = call

    def undo() -> None:
        module.__dict__.pop(name, None)
        module.__dict__.pop("_attlas_weights", None)

    return undo


def _keep_attention_type(scope: nn.Module) -> Undo:
    """BigBird turns itself to full attention on a short text, for good; how to turn it back."""

    def back(module: Any, before: str) -> Callable[[], None]:
        return lambda: module.set_attention_type(before) if module.attention_type != before else None

    return [
        back(module, module.attention_type)
        for module in scope.modules()
        if isinstance(module, PreTrainedModel) and hasattr(module, "set_attention_type")
    ]


def adapter_of(scope: nn.Module) -> Hooked | None:
    """The adapter a network needs, or None if the registered attention function serves it."""
    if any(type(module).__name__ == "LongformerAttention" for module in scope.modules()):
        return LongformerHooked()
    if isinstance(scope, PreTrainedModel) and scope._can_set_attn_implementation():
        return None
    return Hooked()
