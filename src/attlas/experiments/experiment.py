"""An experiment is a frozen record of its inputs and options; its package has what it does.

>>> from dataclasses import dataclass
>>> from attlas.support.options import option
>>> @dataclass(frozen=True, kw_only=True, eq=False, repr=False)
... class Toy(Experiment):
...     draws: int = option(10, "Number of draws.", at_least=1)
>>> Toy(draws=5.0)
Toy(draws=5)
>>> Toy(draws=0)
Traceback (most recent call last):
    ...
attlas.support.errors.AttlasError: draws is 0; it must be a whole number at least 1
"""

from __future__ import annotations

import importlib
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from attlas.support.options import Given, Opening, Option, check_fields, declared


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Experiment:
    """The base of all experiments: a subclass declares its fields and says what it is called."""

    name: ClassVar[str] = ""  # the kind of its result folder
    clause: ClassVar[str] = ""  # what it does and its controls, for a methods paragraph
    references: ClassVar[tuple[str, ...]] = ()  # papers that it follows: keys of references.bib
    does: ClassVar[str] = "work:run"  # the function that runs it, in its package
    resolves: ClassVar[str] = ""  # one that completes its opened inputs, as a test set from train
    checks: ClassVar[str] = ""  # one that refuses opened inputs, before anything is written
    may_lack: ClassVar[tuple[str, ...]] = ()  # models it adds itself and can do without
    default_out: ClassVar[str] = "runs/{name}"  # of its verb: its name, {an input}, or none

    def __post_init__(self) -> None:
        declared(self)  # every field is
        check_fields(self)

    def __repr__(self) -> str:
        values = (f"{name}={reprlib.repr(getattr(self, name))}" for name in declared(self))
        return f"{type(self).__name__}({', '.join(values)})"

    def completed(self) -> Experiment:
        """The experiment with inputs that follow from others, as a base model from its record.

        Called before anything is opened; it reads small files at most. Of the
        models that it adds, those in `may_lack` are None if they cannot be loaded.
        """
        return self

    @property
    def out_folder(self) -> Path:
        """The folder that its verb writes to where none is given."""
        return Path(self.default_out.format(name=self.name, **self.inputs))

    @property
    def options(self) -> dict[str, Any]:
        """The plain values that its identity contains, by name."""
        return self._values(lambda about: not isinstance(about, Given | Opening))

    @property
    def inputs(self) -> dict[str, Any]:
        """Its inputs as they were given, by name."""
        return self._values(lambda about: isinstance(about, Given))

    def openings(self, of: str) -> dict[str, Any]:
        """How inputs of a kind are opened: arguments of what opens them."""
        return self._values(lambda about: isinstance(about, Opening) and about.of == of)

    def _values(self, wanted: Callable[[Given | Option], bool]) -> dict[str, Any]:
        """The values of the fields whose declaration is wanted, by name."""
        each = declared(self).items()
        return {name: getattr(self, name) for name, about in each if wanted(about)}

    def part(self, location: str) -> Any:
        """A function of its package by its location there, `module:function`."""
        module, _, name = location.partition(":")
        package = type(self).__module__.rpartition(".")[0]
        return getattr(importlib.import_module(f"{package}.{module}"), name)


Control = str | Mapping[str, str]  # a column, or rows of the same table: {column: value}
Excluded = list[tuple[str, int, Any]]  # excluded rows: input, index, BadRow


@dataclass(frozen=True)
class TableFile:
    """A table that is a Parquet file already, as those of a pass: not read, not copied."""

    path: Path
    about: Mapping[str, Any]  # its entry in the manifest: rows, kind


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an experiment has made: tables (frames), `result` (what --json prints), and the rest.

    A file named "." is a model: it is saved in the folder itself.
    """

    tables: Mapping[str, Any]  # name -> a frame, or a TableFile
    result: Mapping[str, Any]
    counts: Mapping[str, int] = field(default_factory=dict)  # read, truncated, excluded
    files: Mapping[str, Any] = field(default_factory=dict)  # name -> a thing with `save(folder)`
    controls: Sequence[tuple[str, str, Control]] = ()  # table, column of a score, its control
    about: Mapping[str, Any] = field(default_factory=dict)  # further entries of the manifest
    corpus: Mapping[str, Any] = field(default_factory=dict)  # further facts of the corpus: labels
    quarantine: Path | None = None  # excluded rows with their reasons: a pass's file
