"""Memo: what is asked of an object again is not computed again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """An object that remembers what was worked out on it."""

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` gives, worked out the first time this key is asked for."""
        known: dict[Hashable, Any] = self.__dict__.setdefault("_known", {})
        if key not in known:
            known[key] = compute()
        return known[key]

    def forget(self) -> None:
        """Let go of everything that was worked out."""
        self.__dict__.pop("_known", None)
