"""Temporary changes to a network (attention function, methods, hooks), undone afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from transformers import PretrainedConfig

Undo = list[Callable[[], None]]
MARK = "_output_capturing_hooks_installed"  # of transformers, on a network with such hooks


@dataclass
class _Installed:
    """How to undo one change, and how many users it has."""

    undo: Undo
    users: int = 0


# by network, or class of transformers
_installed: WeakKeyDictionary[Any, dict[Hashable, _Installed]] = WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def installed(
    target: nn.Module | type, name: Hashable, install: Callable[[], Undo]
) -> Iterator[None]:
    """While open, a network (or a class of transformers) has what `install` puts on it.

    Nested uses and several threads share it; the last to leave removes it.
    """
    with _lock:
        changes = _installed.setdefault(target, {})
        if name not in changes:
            changes[name] = _Installed(install())
        changes[name].users += 1
    try:
        yield
    finally:
        with _lock:
            changes[name].users -= 1
            if changes[name].users == 0:
                for step in reversed(changes.pop(name).undo):
                    step()


def replace_method(
    module: nn.Module, name: str, function: Callable[..., Any]
) -> Callable[[], None]:
    """Put a method on one module; return how to restore what was there."""
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
    """Put every module of a network into evaluation mode; return how to undo it."""
    undo: Undo = []
    for module in network.modules():
        if module.training:
            module.training = False
            undo.append(partial(setattr, module, "training", True))
    return undo


def use_implementation(network: nn.Module, name: str) -> Undo:
    """Set the attention implementation of every configuration of a network; return the undo."""
    undo: Undo = []
    for config in sub_configs(getattr(module, "config", None) for module in network.modules()):
        before = config.__dict__.get("_attn_implementation_internal")

        def restore(config: PretrainedConfig = config, before: str | None = before) -> None:
            config._attn_implementation_internal = before

        undo.append(restore)
        config._attn_implementation_internal = name
    return undo


def sub_configs(configs: Iterable[Any]) -> list[PretrainedConfig]:
    """Configurations and all their parts, each once."""
    known: dict[int, PretrainedConfig] = {}
    waiting = list(configs)
    while waiting:
        config = waiting.pop()
        if isinstance(config, PretrainedConfig) and id(config) not in known:
            known[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(known.values())


def without_traces(network: nn.Module) -> AbstractContextManager[None]:
    """While open, transformers may put the hooks on a network that record its outputs.

    They are removed when the last user leaves: they cannot be pickled.
    """

    def install() -> Undo:
        modules = list(network.modules())
        before = [set(module._forward_hooks) for module in modules]
        marked = [MARK in vars(module) for module in modules]

        def remove() -> None:
            for module, known, is_marked in zip(modules, before, marked, strict=True):
                for number in set(module._forward_hooks) - known:
                    if module._forward_hooks[number].__module__.startswith("transformers."):
                        del module._forward_hooks[number]
                if MARK in vars(module) and not is_marked:
                    delattr(module, MARK)

        return [remove]

    return installed(network, "traces", install)
