"""Saved estimators: arrays in one file, and a JSON file that names its kind and their sha256."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attlas.support.arrays import Array
from attlas.support.errors import AttlasError, StudyError
from attlas.support.files import (
    LOCK,
    is_temporary,
    read_json,
    write_bytes,
    write_errors,
    write_json,
)
from attlas.support.fingerprint import sha256

FILES = "files"
# what reading a folder of anyone's may raise; RecursionError is a RuntimeError
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
)
DEVICE = "device"  # where a model computes does not matter to an estimator


@dataclass(frozen=True)
class Saved:
    """How one kind of estimator is saved: its two files, and the key that names the kind."""

    what: str  # for people
    kind: str
    about: str
    arrays: str
    key: str = "format"

    def write(self, folder: str | Path, about: Mapping[str, Any], arrays: bytes) -> Path:
        """Write both files, the JSON last; a folder with anything but this kind is refused.

        A save that is killed half way leaves a folder that `read` refuses and `write` accepts.
        """
        path = Path(folder).expanduser()
        with write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            before = read_json(path / self.about) or {}
            self._refuse_other(path, before)
        if FILES not in before:
            write_json(path / self.about, {self.key: self.kind})
        write_bytes(path / self.arrays, arrays)
        files = {self.arrays: sha256(arrays).hexdigest()}
        write_json(path / self.about, {self.key: self.kind, **about, FILES: files})
        return path

    def _refuse_other(self, folder: Path, before: Mapping[str, Any]) -> None:
        if before.get(self.key) == self.kind:
            return
        entry = next(_entries(folder), None)
        if entry is not None:
            raise StudyError(
                f"{folder} is not empty (it has {entry.name}) and holds no {self.what}; "
                "choose another folder, or delete this one by hand"
            )

    def read(self, folder: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
        """Read the JSON and the arrays; raises one of UNREADABLE if they are damaged.

        Arrays that were changed, truncated or are not finite are refused; see also `check_shapes`.
        What was saved before files were listed has no checksum to compare.
        """
        path = Path(folder).expanduser()
        about = json.loads((path / self.about).read_bytes())
        if about[self.key] != self.kind:
            raise ValueError(f"it is a {about[self.key]!r}, not a {self.kind!r}")
        arrays = (path / self.arrays).read_bytes()
        if FILES in about and about[FILES].get(self.arrays) != sha256(arrays).hexdigest():
            raise ValueError(f"{self.arrays} has changed since it was written")
        return about, self._arrays(arrays)

    @contextmanager
    def readable(
        self, folder: str | Path, advice: str, error: type[AttlasError] = StudyError
    ) -> Iterator[None]:
        """Report a folder that does not hold what was saved in one line, with what to do."""
        try:
            yield
        except UNREADABLE as reason:
            line = f"{type(reason).__name__}: {first_line(reason)}"
            raise error(f"{folder} holds no {self.what} ({line}); {advice}") from reason

    def _arrays(self, data: bytes) -> dict[str, Array]:
        import numpy as np
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = {name: np.array(array) for name, array in load(data).items()}
        except SafetensorError as error:
            raise ValueError(f"{self.arrays} is not a whole safetensors file: {error}") from error
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise ValueError(f"{name} has numbers that are not finite")
        return arrays


def _entries(folder: Path) -> Iterator[Path]:
    """The entries of a folder, without the lock and what a killed process left."""
    for path in sorted(folder.iterdir()):
        if path.name != LOCK and not is_temporary(path):
            yield path


def check_shapes(arrays: Mapping[str, Array], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays that do not have the shapes that the rest of an estimator needs."""
    for name, shape in expected.items():
        if name not in arrays:
            raise KeyError(f"the array {name} is missing")
        if arrays[name].shape != shape:
            actual, wanted = list(arrays[name].shape), list(shape)
            raise ValueError(f"the array {name} has the shape {actual}, expected {wanted}")


def check_finite(**numbers: Any) -> None:
    """Refuse numbers in the JSON of an estimator that are not finite."""
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise ValueError(f"{name} is {number}")


def first_line(error: BaseException) -> str:
    """Why a folder cannot be read, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def fitted_identity(identity: Mapping[str, str]) -> dict[str, str]:
    """The parts of a model's identity that count for an estimator that was fitted on it."""
    return {part: value for part, value in identity.items() if part != DEVICE}


def differing_parts(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name the parts in which two identities differ, wherever the models compute.

    >>> differing_parts({"weights": "a", "device": "x"}, {"weights": "b", "config": "c"})
    ['weights', 'config']
    """
    return [
        part for part in {**known, **now} if part != DEVICE and known.get(part) != now.get(part)
    ]
