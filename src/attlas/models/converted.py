"""GGUF files as folders of transformers.

A file is read by transformers once, which takes a while, and written as a folder to the user's
cache, known by the digest of its bytes.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attlas.support.errors import ModelError
from attlas.support.files import move
from attlas.support.fingerprint import sha256_of
from attlas.support.machine import user_cache


def gguf_folder(path: Path) -> Path:
    """The folder that was made of a GGUF file; it is made now if there is none."""
    if find_spec("gguf") is None:
        raise ModelError(f"{path.name} can be read only with the package gguf: pip install gguf")
    folder = user_cache() / "gguf" / sha256_of(path)
    if (folder / "config.json").is_file():
        return folder
    how = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    network = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **how)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **how)
    _as_plain_weights(network)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        whole = Path(temporary) / "model"
        network.save_pretrained(whole)
        tokenizer.save_pretrained(whole)
        if not folder.exists():
            move(whole, folder)
    return folder


def _as_plain_weights(network: Any) -> None:
    """Weights of a GGUF file are plain once they are read, but transformers counts them as not."""
    network.hf_quantizer = None
    network.is_quantized = False
    for owner in (network, network.config):
        for name in ("quantization_method", "quantization_config"):
            if name in vars(owner):
                delattr(owner, name)
