"""What is put on a network for a while: the attention function its configurations ask for, methods of its modules, and back again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from transformers import PretrainedConfig

Undo = list[Callable[[], None]]


@dataclass
class _Fitted:
    """What was put on a network and how often it is in use."""

    undo: Undo
    users: int = 0


_fitted: WeakKeyDictionary[nn.Module, dict[Hashable, _Fitted]] = WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def fitted(network: nn.Module, what: Hashable, fit: Callable[[], Undo]) -> Iterator[None]:
    """While open, what `fit` puts on a network is there; nested uses and several threads share it, and the last to leave takes it off."""
    with _lock:
        on = _fitted.setdefault(network, {})
        if what not in on:
            on[what] = _Fitted(fit())
        on[what].users += 1
    try:
        yield
    finally:
        with _lock:
            on[what].users -= 1
            if on[what].users == 0:
                for step in reversed(on.pop(what).undo):
                    step()


def replace_method(module: nn.Module, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Put a method on one module; how to put back what was there (a method of the user's own, or the class's)."""
    own = module.__dict__
    before = own.get(name)
    own[name] = function

    def undo() -> None:
        if before is None:
            own.pop(name, None)
        else:
            own[name] = before

    return undo


def use_implementation(network: nn.Module, name: str) -> Undo:
    """Let every configuration of the network ask for the attention of this name; how to undo it."""
    undo: Undo = []
    for config in _configs(network):
        before = config.__dict__.get("_attn_implementation_internal")

        def restore(config: PretrainedConfig = config, before: str | None = before) -> None:
            config._attn_implementation_internal = before

        undo.append(restore)
        config._attn_implementation_internal = name
    return undo


def _configs(network: nn.Module) -> list[PretrainedConfig]:
    """Every configuration that a part of the network reads, each once."""
    found: dict[int, PretrainedConfig] = {}
    waiting: list[Any] = [getattr(module, "config", None) for module in network.modules()]
    while waiting:
        config = waiting.pop()
        if isinstance(config, PretrainedConfig) and id(config) not in found:
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())
