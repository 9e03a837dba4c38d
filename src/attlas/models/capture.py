"""Capture: see the attention of a model a layer at a time, without keeping it, and gate its heads.

A network that is observed runs eager attention, under that name: some families choose keys or precision by it. Where its
modules look eager attention up in transformers' AttentionInterface they get it wrapped: weights and output are bit for bit
those of the library, the weights go to whoever observes in this thread and are forgotten. Networks that nobody observes in this
thread get what they would get anyway. Models with attention code of their own are observed by hooks (hooks.py). Everything
put on a model or the library is taken off again when the last observer leaves, also after an exception; observers nest, and
several threads may observe one model at a time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from attlas.core.attention import Attention, DenseAttention, same_visible
from attlas.core.batch import Batch
from attlas.models.families import AROUND
from attlas.models.hooks import DenseSeen, Seen, adapter_of
from attlas.models.install import Undo, fitted, replace_method, use_implementation
from attlas.support.errors import CaptureError

EAGER = "eager"
HIDDEN = -9_999.0  # added to a score, this or less leaves a weight of 0 in any precision
Sink = Callable[[Attention], None]
Eager = Callable[..., tuple[Tensor, Tensor]]  # of module, query, key, value, mask


@dataclass(eq=False)
class Observer:
    """One open `observe`: what it watches, where layers go, and the layer it is at."""

    modules: frozenset[int]
    sink: Sink | None
    gates: Tensor | None
    gradients: bool
    hooked: bool = False  # sees by hooks, not where attention is looked up
    batch: Batch | None = None
    layer: int = 0
    patterns: list[Tensor] = field(default_factory=list)
    masks: list[tuple[weakref.ref[Tensor], Tensor | None]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # the layers' own numbers, where they have one

    def watch(self, batch: Batch) -> None:
        """Say which batch the next forward pass is of."""
        self.batch, self.layer, self.patterns, self.masks, self.numbers = batch, 0, [], [], []

    @property
    def n_heads(self) -> int:
        return 0 if self.gates is None else int(self.gates.shape[-1])

    def gated(self, heads: Tensor) -> Tensor:
        """The heads' output [text, token, head, dimension], each multiplied by its gate."""
        if self.gates is None:
            return heads
        gates = self.gates if self.gates.dim() == 3 else self.gates[None]  # text layer head
        if (
            self.layer >= gates.shape[1]
            or gates.shape[-1] != heads.shape[2]
            or gates.shape[0] not in (1, len(heads))
        ):
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

    def visible(self, mask: Tensor | None, keys: int) -> Tensor | None:
        """Which keys each query sees; the same object for the same pattern, so that layers share it."""
        if mask is None:
            return None
        for seen_mask, visible in self.masks:  # most models give all layers one mask
            if seen_mask() is mask:
                return visible
        visible = self._pattern(_visible(mask, keys))
        self.masks.append((weakref.ref(mask), visible))
        return visible

    def _pattern(self, visible: Tensor | None) -> Tensor | None:
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
    own: Eager,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """A module's own eager attention, seen and gated."""
    output, weights = own(module, query, key, value, attention_mask, **kwargs)
    observers = [observer for observer in _open.of(module) if not observer.hooked]
    for observer in observers:
        output = observer.gated(output)
    for observer in observers:
        observer.see(
            DenseSeen(weights, observer.visible(attention_mask, weights.shape[-1])), module
        )
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
    if not layer.by_form(dense=_only_visible, banded=lambda _: True):
        raise CaptureError(
            f"{name} attends to tokens that its mask hides; Attlas cannot tell what its queries see"
        )


def _only_visible(layer: DenseAttention) -> bool:
    """Whether each query sees a key, and attends to no key that it does not see."""
    if layer.visible is None:
        return True
    some = layer.weights[: len(layer.visible)]  # where all texts see the same, one is enough
    hidden = (some * ~layer.visible).sum(-1).max()
    return bool(layer.visible.any(-1).all()) and not bool(hidden > 1e-2)


def _visible(mask: Tensor, keys: int) -> Tensor | None:
    """Which keys each query sees, from the mask [text, head, query, key] that is added to the scores; None if all.

    Masks may hold a bias next to the smallest number, which hides a key. Where all texts, or all heads, see the same,
    one stands for all: [text or 1, head or 1, query, key].
    """
    visible = (mask if mask.dtype == torch.bool else mask > HIDDEN)[..., :keys]
    if bool(visible.all()):
        return None
    for axis in (0, 1):
        first = visible.narrow(axis, 0, 1)
        visible = first if visible.shape[axis] == 1 or bool((visible == first).all()) else visible
    return visible


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
    adapter = adapter_of(scope)
    observer = Observer(
        frozenset(map(id, scope.modules())), sink, gates, gradients, hooked=adapter is not None
    )

    def fit() -> Undo:
        return adapter.fit(network, scope, _open.of) if adapter else _use_eager(network)

    with fitted(AttentionInterface, EAGER, _wrap_lookup), fitted(network, "attention", fit):
        _open.observers.append(observer)
        try:
            yield observer
        finally:
            _open.observers.remove(observer)


def _wrap_lookup() -> Undo:
    """Let modules that look eager attention up while someone observes in their thread get it wrapped; how to undo it."""
    look_up = AttentionInterface.get_interface

    def get_interface(self: AttentionInterface, attn_implementation: str, default: Eager) -> Eager:
        own: Eager = look_up(self, attn_implementation, default)
        return (
            partial(attention_function, own)
            if attn_implementation == EAGER and _open.observers
            else own
        )

    AttentionInterface.get_interface = get_interface
    return [partial(setattr, AttentionInterface, "get_interface", look_up)]


def _use_eager(network: nn.Module) -> Undo:
    """Switch the network to eager attention, and wrap what stands in its place without being looked up; how to undo it."""
    undo = use_implementation(network, EAGER)
    for module in network.modules():
        for name in AROUND:
            if hasattr(type(module), name):
                wrapped = partial(attention_function, _unbound(getattr(module, name)), module)
                undo.append(replace_method(module, name, wrapped))
    return undo


def _unbound(method: Eager) -> Eager:
    """A method of a module as a function of the module and the rest."""
    return lambda module, *args, **kwargs: method(*args, **kwargs)
