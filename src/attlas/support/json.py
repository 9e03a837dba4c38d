"""Strict JSON: plain values, and null for a number that is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def to_json(value: Any) -> Any:
    """A value as strict JSON has it: NaN and infinity are None, numpy's scalars plain numbers.

    >>> to_json({"a": (0.5, float("nan")), 2: None})
    {'a': [0.5, None], '2': None}
    """
    if isinstance(value, Mapping):
        return {str(name): to_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):  # numpy's scalars, without numpy
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
