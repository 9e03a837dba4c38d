"""What of a network and a tokenizer its results depend on, as plain content for fingerprints."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attlas.support.fingerprint import FingerprintError, described, fingerprint

# in the configuration of a saved Longformer: which tokens are global
GLOBAL_CHOICE = "attlas_global_tokens"
# of a configuration: its origin, and what the identity has elsewhere
NOT_CONFIGURED = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    GLOBAL_CHOICE,
)
OF_A_HEAD = ("id2label", "label2id", "problem_type")
# of a tokenizer: its origin, and what changes no token
_NOT_TOKENIZED = (
    "name_or_path",
    "vocab_file",
    "merges_file",
    "tokenizer_file",
    "files_loaded",
    "init_inputs",
    "init_kwargs",
    "verbose",
    "deprecation_warnings",
    "chat_template",
    "response_template",
    "chat_control_tokens",
    "backend",
    "_in_target_context_manager",
    "_processor_class",
    "_special_tokens_map",
    "_tokenizer",
    "_vocab",
    "_merges",
)


def config_content(network: PreTrainedModel) -> dict[str, Any]:
    """A network's class, modules and configuration, without names."""
    config = {
        name: value
        for name, value in network.config.to_dict().items()
        if name not in NOT_CONFIGURED
    }
    return {
        "class": type(network),
        "modules": repr(network),  # may have been changed in memory: an epsilon, an activation
        "config": json.dumps(config, sort_keys=True, default=plain_config),
    }


def plain_config(value: Any) -> Any:
    """What json cannot write in a configuration, as something that it can."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value) if isinstance(value, torch.dtype) else vars(value)


def hooks_fingerprint(network: nn.Module) -> str:
    """The fingerprint of the user's hooks, module by module: their code and plain values."""
    hooks = [
        (name, described(hook))
        for name, module in network.named_modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        if _package_of(hook) not in ("transformers", "attlas")  # these only read
    ]
    return fingerprint(hooks)


def _package_of(function: Any) -> str:
    return str(getattr(getattr(function, "func", function), "__module__", "")).partition(".")[0]


def tokenizer_content(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The full state of a tokenizer, except its last truncation and padding."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise FingerprintError(
            f"a {type(tokenizer).__name__} has no fingerprint; use a fast tokenizer (use_fast=True)"
        )
    backend = type(backend).from_str(backend.to_str())
    backend.no_truncation()
    backend.no_padding()
    state = {
        name: value
        for name, value in vars(tokenizer).items()
        if name not in _NOT_TOKENIZED
        and isinstance(value, bool | int | float | str | list | tuple | None)
    }
    return {
        "backend": backend.to_str(),
        "special": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        "special_ids": sorted(tokenizer.all_special_ids),
        "state": {
            name: list(map(str, value)) if isinstance(value, list | tuple) else value
            for name, value in state.items()
        },
    }


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a tensor's elements, in order."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
