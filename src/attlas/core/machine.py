"""What the machine offers, and what is installed on it."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """The versions that numbers can depend on."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("attlas", "torch", "transformers", "numpy", "numba")}
