"""Capture: see the attention of a model a layer at a time, without keeping it, and gate its heads.

One function is registered with transformers' AttentionInterface. It calls the model's own eager attention, so weights and output
are bit for bit those of the library, hands the weights to whoever observes in this thread, and forgets them. Models with
attention code of their own are observed by hooks (adapters.py). Everything put on a model is taken off again when the last
observer leaves, also after an exception; observers nest, and several threads may observe one model at a time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from attlas.core.attention import Attention, DenseAttention, same_visible
from attlas.core.batch import Batch
from attlas.models.hooks import DenseSeen, Seen, adapter_of
from attlas.models.install import Undo, fitted, use_implementation
from attlas.support.errors import CaptureError

IMPLEMENTATION = "attlas"
Sink = Callable[[Attention], None]


@dataclass(eq=False)
class Observer:
    """One open `observe`: what it watches, where layers go, and the layer it is at."""

    modules: frozenset[int]
    sink: Sink | None
    gates: Tensor | None
    gradients: bool
    batch: Batch | None = None
    layer: int = 0
    patterns: list[Tensor | None] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # the layers' own numbers, where they have one

    def watch(self, batch: Batch) -> None:
        """Say which batch the next forward pass is of."""
        self.batch, self.layer, self.patterns, self.numbers = batch, 0, [], []

    @property
    def n_heads(self) -> int:
        return 0 if self.gates is None else int(self.gates.shape[-1])

    def gated(self, heads: Tensor) -> Tensor:
        """The heads' output [text, token, head, dimension], each multiplied by its gate."""
        if self.gates is None:
            return heads
        gates = self.gates if self.gates.dim() == 3 else self.gates[None]  # text layer head
        if self.layer >= gates.shape[1] or gates.shape[-1] != heads.shape[2] or gates.shape[0] not in (1, len(heads)):
            raise CaptureError(
                f"gates have the shape {list(self.gates.shape)}, but the model has {heads.shape[2]} heads and at least {self.layer + 1} layers; give gates of shape [layer, head], or [text, layer, head]"
            )
        return heads * gates[:, None, self.layer].to(heads)[..., None]

    def see(self, seen: Seen, module: nn.Module) -> None:
        """Take one layer's attention."""
        index, self.layer = self.layer, self.layer + 1
        if self.sink is None:
            return
        number = getattr(module, "layer_idx", None)
        if isinstance(number, int) and number in self.numbers:
            raise CaptureError(
                f"{type(module).__name__} computes more than one attention in layer {number}; Attlas cannot tell them apart"
            )
        self.numbers += [number] if isinstance(number, int) else []
        if self.batch is None:
            raise CaptureError(
                "attention came before the batch was named; call watch(batch) on the observer, or run the model by Model.forward"
            )
        if self.gradients:
            seen.keep_gradient()
        layer = seen.attention(self.batch, index)
        _check(layer, type(module).__name__)
        self.sink(layer)

    def pattern(self, visible: Tensor | None) -> Tensor | None:
        """The same object for the same pattern of visible keys, so that layers share it."""
        known = next((known for known in self.patterns if same_visible(known, visible)), None)
        if known is None and visible is not None:
            self.patterns.append(visible)
            return visible
        return known


class _Open(threading.local):
    """The observers open in this thread, outermost first."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []

    def __deepcopy__(self, memo: Any) -> _Open:
        return self  # a copy of a network that is observed is watched by the same

    def of(self, module: nn.Module) -> list[Observer]:
        return [observer for observer in self.observers if id(module) in observer.modules]


_open = _Open()


def attention_function(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The registered attention function: the model's own eager attention, seen and gated."""
    output, weights = _eager_of(module)(module, query, key, value, attention_mask, **kwargs)
    observers = _open.of(module)
    if not observers:
        return output, weights
    for observer in observers:
        output = observer.gated(output)
    visible = _visible(attention_mask, weights.shape[-1])
    for observer in observers:
        observer.see(DenseSeen(weights, observer.pattern(visible)), module)
    return output, weights


def _check(layer: Attention, name: str) -> None:
    """Refuse what is not attention: not a number, rows that do not sum to one, mass on keys that cannot be seen."""
    total = layer.received.sum(-1)  # text head: one for each row
    if bool(total.isnan().any()):
        raise CaptureError(f"the attention of layer {layer.index} is not a number")
    if bool((total / layer.n_tokens - 1).abs().max() > 1e-2):
        low = float(total.min()) / layer.n_tokens
        raise CaptureError(
            f"the rows of the attention of {name} do not sum to one (a head's mean is {low:.2f}); Attlas cannot measure it"
        )
    if isinstance(layer, DenseAttention) and layer.visible is not None:
        one = layer.weights[0]  # one text of the batch tells
        if bool((one * ~layer.visible[0]).sum(-1).max() > 1e-2) or not bool(layer.visible.any(-1).all()):
            raise CaptureError(f"{name} attends to tokens that its mask hides; Attlas cannot tell what its queries see")


def _eager_of(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager attention of the file that defines the module's class (or a class it derives from)."""
    for kind in type(module).__mro__:
        function = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        if function is not None:
            return function
    raise CaptureError(
        f"{type(module).__name__} has no eager attention to observe; pass a model of a class that transformers supports with attn_implementation='eager'"
    )


def _visible(mask: Tensor | None, keys: int) -> Tensor | None:
    """Which keys each query sees, from the additive mask; None if all. Texts of a batch have one length, so one serves all."""
    if mask is None:
        return None
    visible = mask[0, 0, :, :keys] == 0 if mask.dtype != torch.bool else mask[0, 0, :, :keys]
    return None if bool(visible.all()) else visible[None]


@contextmanager
def observe(
    network: nn.Module,
    sink: Sink | None = None,
    *,
    gates: Tensor | None = None,
    gradients: bool = False,
    scope: nn.Module | None = None,
) -> Iterator[Observer]:
    """While open, hand each layer's attention of `network` to `sink`, and multiply each head's output by its gate.

    `gates` is [layer, head] or [text, layer, head]: 0 switches a head off, 1 leaves it; it may require a gradient. With `gradients` the layer's weights keep
    their graph, and after a backward pass their `grad`. `scope` is the part of the network to watch (an encoder).
    """
    scope = network if scope is None else scope
    observer = Observer(frozenset(map(id, scope.modules())), sink, gates, gradients)
    with fitted(network, "attention", lambda: _fit(network, scope)):
        _open.observers.append(observer)
        try:
            yield observer
        finally:
            _open.observers.remove(observer)


def _fit(network: nn.Module, scope: nn.Module) -> Undo:
    adapter = adapter_of(scope)
    return adapter.fit(network, scope, _open.of) if adapter else _use_function(network)


def _use_function(network: nn.Module) -> Undo:
    """Switch the network to the registered function; how to undo it."""
    AttentionInterface.register(IMPLEMENTATION, attention_function)
    AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)
    return use_implementation(network, IMPLEMENTATION)
