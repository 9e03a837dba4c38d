"""Conventions: where a paper's code is unsound the default is the sound way, and `published` gives theirs."""

from __future__ import annotations

from attlas.support.errors import MeasureError

CONVENTIONS = ("sound", "published")


def check_convention(convention: str) -> None:
    """Refuse what is no convention."""
    if convention not in CONVENTIONS:
        raise MeasureError(f"convention is {convention!r}; it must be {' or '.join(CONVENTIONS)}")
