"""The record of a fine-tuned model: its base model, known without importing torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attlas.models.sources import EMBEDDED
from attlas.support.files import read_json

RECORD = "finetune.json"


def base_model_of(folder: str | os.PathLike[str]) -> str | None:
    """The name of the base model of a folder that `finetune` wrote; None for any other folder."""
    record = read_json(Path(folder).expanduser() / RECORD) or {}
    settings = record.get("settings")
    if not isinstance(settings, dict):
        return None
    return record.get("base") or (EMBEDDED if settings.get("model") == EMBEDDED else None)


def reload_name(model: Any) -> str | None:
    """A name or folder that loads the model again from anywhere; None for an object."""
    if model is None:
        return EMBEDDED
    if not isinstance(model, str | os.PathLike):
        return None
    folder = Path(model).expanduser()
    return str(folder.resolve()) if folder.is_dir() else str(model)
