"""What is put on a network for a while: the attention function its configurations ask for, methods of its modules, and back again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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


_fitted: WeakKeyDictionary[Any, dict[Hashable, _Fitted]] = (
    WeakKeyDictionary()
)  # by network, or class of the library
_lock = threading.Lock()


@contextmanager
def fitted(on_what: nn.Module | type, what: Hashable, fit: Callable[[], Undo]) -> Iterator[None]:
    """While open, what `fit` puts on a network (or on a class of the library) is there; nested uses and several threads share it, and the last to leave takes it off."""
    with _lock:
        on = _fitted.setdefault(on_what, {})
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


def replace_method(
    module: nn.Module, name: str, function: Callable[..., Any]
) -> Callable[[], None]:
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


def evaluate(network: nn.Module) -> Undo:
    """Put every module of a network into evaluation mode; how to put back those that were training."""
    undo: Undo = []
    for module in network.modules():
        if module.training:
            module.training = False
            undo.append(partial(setattr, module, "training", True))
    return undo


def use_implementation(network: nn.Module, name: str) -> Undo:
    """Let every configuration of the network ask for the attention of this name; how to undo it."""
    undo: Undo = []
    for config in sub_configs(getattr(module, "config", None) for module in network.modules()):
        before = config.__dict__.get("_attn_implementation_internal")

        def restore(config: PretrainedConfig = config, before: str | None = before) -> None:
            config._attn_implementation_internal = before

        undo.append(restore)
        config._attn_implementation_internal = name
    return undo


def sub_configs(configs: Iterable[Any]) -> list[PretrainedConfig]:
    """Configurations and all that are in them, each once."""
    found: dict[int, PretrainedConfig] = {}
    waiting = list(configs)
    while waiting:
        config = waiting.pop()
        if isinstance(config, PretrainedConfig) and id(config) not in found:
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())
