"""How numbers and heads are written for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def number(value: float) -> str:
    """A number in the short form used throughout: no zero before the point.

    >>> number(0.834), number(-0.05), number(2.5), number(-0.001), number(float("nan"))
    ('.83', '-.05', '2.50', '.00', '-')
    """
    if value is None or value != value:
        return "-"
    short = f"{value:.2f}".removeprefix("-") if abs(value) < 0.005 else f"{value:.2f}"
    return short.replace("0.", ".", 1) if abs(value) < 1 else short


def interval(row: Mapping[Any, Any], what: str) -> str:
    """A number with its interval, from columns that end in `_low` and `_high`.

    >>> interval({"f1": 0.5, "f1_low": 0.4, "f1_high": 0.625}, "f1")
    '.50 [.40, .62]'
    """
    return f"{number(row[what])} [{number(row[f'{what}_low'])}, {number(row[f'{what}_high'])}]"


def head_name(row: Mapping[Any, Any]) -> str:
    """A head's name: layer and head, from 0.

    >>> head_name({"layer": 2, "head": 7})
    'L2.H7'
    """
    return f"L{int(row['layer'])}.H{int(row['head'])}"
