"""Deprecated aliases of four estimators, removed in 0.3; each warns and names its new package."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

MOVED = {
    "CoreferenceHeads": "attlas.coreference",
    "RelationExtractor": "attlas.relations",
    "SyntaxHeads": "attlas.syntax",
    "TreeProbe": "attlas.tree",
}


def __getattr__(name: str) -> Any:
    if name not in MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = MOVED[name]
    warnings.warn(
        f"attlas.probes.{name} has moved; write `from {package} import {name}`",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(importlib.import_module(package), name)


def __dir__() -> list[str]:
    return sorted(MOVED)
