"""Capture: observe the attention of a model layer by layer, without keeping it, and gate its heads.

A network that is observed runs eager attention, under that name: some families choose keys or
precision by it. Where its modules look up eager attention in transformers' AttentionInterface they
get it wrapped: weights and output are bit for bit those of transformers, and the weights go to the
observers of this thread and are dropped. Other networks and threads are not affected. Models with
attention code of their own are observed by hooks (hooks.py). All changes to a model or to
transformers are undone when the last observer leaves, also after an exception; observers nest, and
several threads may observe one model at the same time.
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
from attlas.models import hooks
from attlas.models.families import AROUND
from attlas.models.hooks import CapturedLayer, DenseWeights
from attlas.models.install import Undo, installed, replace_method, use_implementation
from attlas.models.norms import Lens
from attlas.support.errors import CaptureError

EAGER = "eager"
HIDDEN = -9_999.0  # added to a score, this or less gives a weight of 0 in any precision
Sink = Callable[[Attention], None]
Eager = Callable[..., tuple[Tensor, Tensor]]  # of module, query, key, value, mask


@dataclass(eq=False)
class Observer:
    """One open `observe`: the modules it watches, its sink, and the current layer."""

    modules: frozenset[int]
    sink: Sink | None
    gates: Tensor | None
    gradients: bool
    lens: Lens | None = None
    batch: Batch | None = None
    layer: int = 0
    patterns: list[Tensor] = field(default_factory=list)
    masks: list[tuple[weakref.ref[Tensor], Tensor | None]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # the layers' own numbers, where they have one

    def watch(self, batch: Batch) -> None:
        """Set the batch of the next forward pass."""
        self.batch, self.layer, self.patterns, self.masks, self.numbers = batch, 0, [], [], []

    @property
    def n_heads(self) -> int:
        return 0 if self.gates is None else int(self.gates.shape[-1])

    def gated(self, heads: Tensor) -> Tensor:
        """The heads' output [text, token, head, dimension], each multiplied by its gate."""
        if self.gates is None:
            return heads
        gates = self.gates if self.gates.dim() == 3 else self.gates[None]  # text layer head
        fits = gates.shape[-1] == heads.shape[2] and gates.shape[0] in (1, len(heads))
        if self.layer >= gates.shape[1] or not fits:
            raise CaptureError(
                f"gates have the shape {list(self.gates.shape)}, but the model has "
                f"{heads.shape[2]} heads and at least {self.layer + 1} layers; "
                "give gates of shape [layer, head], or [text, layer, head]"
            )
        return heads * gates[:, None, self.layer].to(heads)[..., None]

    def on_layer(self, captured: CapturedLayer, module: nn.Module) -> None:
        """Pass one layer's attention to the sink."""
        index, self.layer = self.layer, self.layer + 1
        if self.sink is None:
            return
        number = getattr(module, "layer_idx", None)
        number = number if isinstance(number, int) and number >= 0 else None
        if number is not None and number in self.numbers:
            raise CaptureError(
                f"{type(module).__name__} computes more than one attention in layer {number}; "
                "Attlas cannot distinguish them"
            )
        self.numbers += [] if number is None else [number]
        if self.batch is None:
            raise CaptureError(
                "the batch of this pass is not known; "
                "call watch(batch) on the observer first, or use Model.forward"
            )
        if self.gradients:
            captured.keep_gradient()
        layer = captured.attention(self.batch, index)
        check_rows(layer, module)
        self.sink(layer)

    def visible(self, mask: Tensor | None, keys: int) -> Tensor | None:
        """Which keys each query sees; layers with the same pattern share one tensor."""
        if mask is None:
            return None
        for known_mask, visible in self.masks:  # most models give all layers one mask
            if known_mask() is mask:
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
        return self  # a copy of an observed network has the same observers

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
    """A module's own eager attention, observed and gated."""
    output, weights = own(module, query, key, value, attention_mask, **kwargs)
    observers = _open.of(module)
    for observer in observers:
        output = observer.gated(output)
    for observer in observers:
        visible = observer.visible(attention_mask, weights.shape[-1])
        lens = None if observer.sink is None else observer.lens
        seen = weights if lens is None else lens(module, value, weights)
        observer.on_layer(DenseWeights(seen, visible), module)
    return output, weights


def check_rows(layer: Attention, module: nn.Module) -> None:
    """Refuse NaN, rows that do not sum to one, and weights on keys that the mask hides.

    Rows may sum to less where a part of the module is a sink that takes the rest.
    """
    name = type(module).__name__
    total = layer.received.sum(-1)  # text head: one for each row
    if bool(total.isnan().any()):
        raise CaptureError(f"the attention of layer {layer.index} is not a number")
    beyond = total / layer.n_tokens - 1
    has_sink = any("sink" in own for own, _ in module.named_parameters(recurse=False))
    if bool((beyond if has_sink else beyond.abs()).max() > 1e-2):
        low = float(total.min()) / layer.n_tokens
        raise CaptureError(
            f"the attention rows of {name} do not sum to one (a head's mean is {low:.2f}); "
            "Attlas can only measure softmax attention"
        )
    if not layer.by_form(dense=_only_visible, banded=lambda _: True):
        raise CaptureError(
            f"{name} attends to tokens that its mask hides; "
            "Attlas cannot determine what its queries see"
        )


def _only_visible(layer: DenseAttention) -> bool:
    """Whether each query sees a key, and attends to no key that it does not see."""
    if layer.visible is None:
        return True
    some = layer.weights[: len(layer.visible)]  # where all texts see the same, one is enough
    hidden = (some * ~layer.visible).sum(-1).max()
    return bool(layer.visible.any(-1).all()) and not bool(hidden > 1e-2)


def _visible(mask: Tensor, keys: int) -> Tensor | None:
    """Which keys each query sees, from the mask [text, head, query, key]; None if all.

    Masks may contain a bias as well as very small numbers, which hide a key. If all texts, or all
    heads, have the same pattern it is kept once: [text or 1, head or 1, query, key]. A query for
    which an indexer chooses no key sees all: softmax spreads it evenly.
    """
    visible = (mask if mask.dtype == torch.bool else mask > HIDDEN)[..., :keys]
    some = visible.any(-1, keepdim=True)
    if bool(some.any()):
        visible = visible | ~some
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
    lens: Lens | None = None,
) -> Iterator[Observer]:
    """While open, pass each layer's attention of `network` to `sink` and gate its heads.

    `gates` is [layer, head] or [text, layer, head] and multiplies each head's output: 0 switches a
    head off; it may require a gradient. With `gradients` the layers' weights keep their graph and,
    after a backward pass, their `grad`. `scope` is the part of the network to watch (an encoder).
    `lens` makes what is observed of a module's values and weights (norms.py).
    """
    if gradients and lens is not None:
        raise CaptureError("gradients are those of weights; use the lens weights")
    scope = network if scope is None else scope

    def install() -> Undo:
        return _use_eager(network) + hooks.install(scope, _open.of)

    with (
        installed(AttentionInterface, EAGER, _wrap_lookup),
        installed(network, "attention", install),
    ):
        modules = frozenset(map(id, scope.modules()))  # BigBird has others while it is observed
        observer = Observer(modules, sink, gates, gradients, lens)
        _open.observers.append(observer)
        try:
            yield observer
        finally:
            _open.observers.remove(observer)


def _wrap_lookup() -> Undo:
    """Wrap the eager attention that modules look up in observed threads; return the undo."""
    look_up = AttentionInterface.get_interface

    def get_interface(self: AttentionInterface, attn_implementation: str, default: Eager) -> Eager:
        own: Eager = look_up(self, attn_implementation, default)
        is_observed = attn_implementation == EAGER and _open.observers
        return partial(attention_function, own) if is_observed else own

    AttentionInterface.get_interface = get_interface
    return [partial(setattr, AttentionInterface, "get_interface", look_up)]


def _use_eager(network: nn.Module) -> Undo:
    """Switch the network to eager attention, wrap methods that replace it; return the undo."""
    undo = use_implementation(network, EAGER)
    for module in network.modules():
        for name in AROUND:
            if hasattr(type(module), name):
                wrapped = partial(attention_function, _unbound(getattr(module, name)), module)
                undo.append(replace_method(module, name, wrapped))
    return undo


def _unbound(method: Eager) -> Eager:
    """A bound method as a function that also takes the module."""
    return lambda module, *args, **kwargs: method(*args, **kwargs)
