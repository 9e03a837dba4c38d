"""Registry: a table of things by name; each is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from attlas.support.errors import AttlasError

T = TypeVar("T")


@dataclass
class Registry(Mapping[str, T], Generic[T]):
    """Names to things, each with the question it answers.

    `register` takes the thing itself or its address (`"package.module:Name"`), so listing is free.
    """

    kind: str
    error: type[AttlasError] = AttlasError
    _things: dict[str, T | str] = field(default_factory=dict)
    _questions: dict[str, str] = field(default_factory=dict)

    def register(self, name: str, thing: T | str, question: str) -> None:
        """Add a thing under a new name."""
        if name in self._things:
            raise self.error(f"{self.kind} {name!r} is registered already; choose another name")
        self._things[name] = thing
        self._questions[name] = question

    def question(self, name: str) -> str:
        """What the thing answers, in one line."""
        return self._questions[self._known(name)]

    def __getitem__(self, name: str) -> T:
        thing = self._things[self._known(name)]
        if isinstance(thing, str):
            module, _, attribute = thing.partition(":")
            thing = cast(T, getattr(importlib.import_module(module), attribute))
            self._things[name] = thing
        return thing

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def _known(self, name: str) -> str:
        if name not in self._things:
            raise self.error(
                f"there is no {self.kind} {name!r}; the {self.kind}s are {', '.join(self._things)}"
            )
        return name
