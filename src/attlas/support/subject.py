"""Subject: what a package adds to Attlas, in strings relative to itself."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

API = 1  # of subjects; a package that was written for another one is refused


@dataclass(frozen=True)
class Subject:
    """What a package has: its experiments, verbs, measures, section, and part of the tour.

    `package` is the package's name, `__name__`. Locations are relative to it: `"experiment"` is a
    module, `"arcs:ArcCounts"` an object in one.
    """

    name: str
    package: str
    experiments: Mapping[str, str] = field(default_factory=dict)  # class -> module
    verb: str | Mapping[str, str] = ""  # of its experiment; of each experiment, by class
    measures: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # location and question
    section: str = ""  # module with SECTION, or SECTIONS by name
    tour: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # class -> its fields
    full: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # others with tour --full
    api: int = API

    @property
    def verbs(self) -> dict[str, str]:
        """Each verb with the class of its experiment."""
        if isinstance(self.verb, str):
            return dict.fromkeys([self.verb] if self.verb else [], next(iter(self.experiments), ""))
        return {verb: name for name, verb in self.verb.items()}

    def experiment(self, name: str) -> Any:
        """The class of an experiment."""
        return self.thing(f"{self.experiments[name]}:{name}")

    def sections(self) -> dict[str, Any]:
        """The sections of the report by name; a single one has the subject's name."""
        if not self.section:
            return {}
        module = self.thing(self.section)
        return dict(getattr(module, "SECTIONS", None) or {self.name: module.SECTION})

    def thing(self, location: str) -> Any:
        """A module of the package, or an object in it, by its location."""
        path, _, name = location.partition(":")
        module = importlib.import_module(f"{self.package}.{path}")
        return getattr(module, name) if name else module
