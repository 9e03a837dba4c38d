"""Helpers of test_stale.py and test_damage.py: what is right when inputs have changed or files are damaged, and how to interrupt a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest
import transformers
from safetensors.numpy import load_file, save_file

from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies
from attlas.core.text import Text
from attlas.support.errors import AttlasError

T = TypeVar("T")
QUIET: dict[str, Any] = {"progress": False}
WORDS = ("the", "cat", "sat", "on", "mat", "and", "dog", "saw", "it", "was", "a", "very", "good", "film", "not", "bad")
REFUSAL = re.compile(r"other|chang|differ|damag|missing|match|shorter|truncat|checksum|fresh", re.IGNORECASE)


class WrongTestError(Exception):
    """The test itself does not hold: unlike an AssertionError, no xfail mark expects it."""


def premise(holds: bool, what: str) -> None:
    """Check what a test takes for granted, so that it cannot fail for a reason that it does not name."""
    if not holds:
        raise WrongTestError(what)


def text(number: int, words: int = 30, **more: Any) -> Text:
    """A text of random words, always the same for a number."""
    return Text(str(number), " ".join(np.random.default_rng(number).choice(WORDS, words)), **more)


def labelled_rows(count: int = 24, words: int = 8, **more: Any) -> list[Text]:
    """Texts of two labels, which one word tells apart."""
    return [
        Text(str(number), f"{text(number, words).text} {'good' if number % 2 else 'bad'}", str(number % 2), **more)
        for number in range(count)
    ]


def parsed(count: int, words: int = 8, **annotations: Any) -> list[Text]:
    """Sentences with dependency trees: every word depends on the next one, the last on ROOT."""
    relations = tuple("nsubj" if place % 2 else "det" for place in range(words - 1))
    tree = Dependencies((*range(1, words), ROOT), (*relations, "root"), ("NOUN",) * words)
    return [
        Text(
            str(number), words=tuple(text(number, words).text.split()), annotations={DEPENDENCIES: tree, **annotations}
        )
        for number in range(count)
    ]


def same(left: Any, right: Any) -> bool:
    """Whether two results are equal, numbers up to rounding."""
    if isinstance(left, pd.DataFrame):
        try:
            pd.testing.assert_frame_equal(left, right, rtol=1e-6, atol=1e-9)
        except AssertionError:
            return False
        return True
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, np.ndarray | float):
        return np.shape(left) == np.shape(right) and np.allclose(left, right, rtol=1e-5, atol=1e-7, equal_nan=True)
    if isinstance(left, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def refused(call: Callable[[], Any]) -> Any:
    """The result of a call, or None if it was refused with a reason; an error with another message is not a refusal."""
    try:
        return call()
    except AttlasError as error:
        premise(bool(REFUSAL.search(str(error))), f"an error, but not a refusal: {error}")
        return None


def refused_or(true: Any, call: Callable[[], Any], *, old: Any = None) -> None:
    """Assert that a call is refused or computes the true result; `old` is the stale result, which must differ for the test to show anything."""
    premise(old is None or not same(true, old), "the true result is the same as the old one")
    result = refused(call)
    assert result is None or same(true, result), f"neither refused nor true: {_short(result)}; true is {_short(true)}"


def noticed_or(true: Any, call: Callable[[], Any], *clumsy: type[BaseException]) -> None:
    """Assert that damage is refused or repaired; `clumsy` are the errors of other libraries with which it ends today, which are no refusal."""
    try:
        refused_or(true, call)
    except clumsy as error:
        raise AssertionError(f"ended with {type(error).__name__}: {str(error)[:200]}") from error


def found(call: Callable[[], T]) -> T:
    """The result of a call that must not be refused."""
    try:
        return call()
    except AttlasError as error:
        raise AssertionError(f"refused: {error}") from error


def _short(value: Any) -> str:
    return str(value.to_dict("list") if isinstance(value, pd.DataFrame) else value)[:300]


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, at: Callable[[], bool], *names: str) -> Iterator[None]:
    """Stop (as Ctrl-C does) before the first call of one of these functions of `os` for which `at` holds."""

    def stopping(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if at():
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(os, name, stopping(getattr(os, name)))
        yield


REMOVING = ("unlink", "remove", "rmdir")
MOVING = ("replace", "rename")


def stopped_at(monkeypatch: pytest.MonkeyPatch, number: int, call: Callable[[], Any], *names: str) -> bool:
    """Run a call and stop it before its removal (or move) of this number; whether it got that far."""
    count = iter(range(10_000))
    try:
        with interrupted(monkeypatch, lambda: next(count) == number, *names):
            call()
    except KeyboardInterrupt:
        return True
    return False


@contextmanager
def counting_loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The classes of networks whose weights are read meanwhile."""
    seen: list[str] = []
    load = transformers.PreTrainedModel.from_pretrained.__func__

    def counted(cls: type, *arguments: Any, **options: Any) -> Any:
        seen.append(cls.__name__)
        return load(cls, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(transformers.PreTrainedModel, "from_pretrained", classmethod(counted))
        yield seen


def reads(model: Any, longer: int = 10) -> list[int]:
    """The lengths of texts that the network reads from now on; short ones, by which a model is tried out, do not count."""
    seen: list[int] = []

    def note(module: Any, arguments: Any, options: Mapping[str, Any]) -> None:
        length = int((arguments[0] if arguments else options["input_ids"]).shape[1])
        if length > longer:
            seen.append(length)

    model.network.base_model.register_forward_pre_hook(note, with_kwargs=True)
    return seen


def upgrade(library: str, folder: Path) -> Path:
    """A folder that, first on the path, makes an installed library appear in a newer version."""
    newer = f"{version(library).partition('+')[0].rpartition('.')[0]}.99"
    about = folder / f"{library.replace('-', '_')}-{newer}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: {newer}\n")
    return folder


def flip(path: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Cut a file in half."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def alter_numbers(path: Path) -> None:
    """Change the numbers of a file, which stays well-formed."""
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        numbers = frame.select_dtypes("floating").columns
        frame.assign(**{name: frame[name] + 1 for name in numbers}).to_parquet(path, index=False)
    elif path.suffix == ".npz":
        with np.load(path) as arrays:
            changed = {name: array + 1 if array.dtype.kind == "f" else array for name, array in arrays.items()}
        np.savez(path, **changed)
    elif path.suffix == ".npy":
        np.save(path, np.load(path) + 1)
    elif path.suffix == ".safetensors":
        save_file(
            {name: array + 1 if array.dtype.kind == "f" else array for name, array in load_file(path).items()}, path
        )
    else:
        halves = np.frombuffer(path.read_bytes(), np.float16)
        path.write_bytes((halves[::-1]).tobytes())
