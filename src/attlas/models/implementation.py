"""Which attention function a network's configurations ask for: switched for a while, and back again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from transformers import PretrainedConfig

Undo = list[Callable[[], None]]


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
