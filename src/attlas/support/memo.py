"""Memo: an object that caches values computed from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Base of objects that cache values computed from them."""

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of `compute()`, computed the first time this key is used."""
        known: dict[Hashable, Any] = self.__dict__.setdefault("_known", {})
        if key not in known:
            known[key] = compute()
        return known[key]

    def forget(self) -> None:
        """Clear the cache."""
        self.__dict__.pop("_known", None)
