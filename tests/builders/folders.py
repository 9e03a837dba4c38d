"""The contract of result folders: laws that hold whatever writes the folder, stopped at every step
and damaged file by file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attlas.studies.folder import MANIFEST, listed_files, read_manifest
from attlas.support import files
from attlas.support.errors import AttlasError
from attlas.support.files import LOCK

Write = Callable[[Path, bool], object]  # writes a result into a folder; with True, fresh


class Stopped(BaseException):
    """The process ends here: nothing may catch this but a `finally`."""


def results(folder: Path) -> dict[str, bytes]:
    """The bytes of every result file that the manifest of a complete folder lists."""
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest["status"] == "complete"
    return {name: (folder / name).read_bytes() for name in listed_files(manifest)}


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, the lock aside."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != LOCK)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(found)}


@contextmanager
def stopping(
    monkeypatch: pytest.MonkeyPatch, at: int | Callable[[], bool], dead: bool = True
) -> Iterator[list[str]]:
    """Stop at the change of the disk with this number (from 0), or at the first one before which
    `at` holds; gives the list of the changes so far.

    With `dead` no later change happens either, as when a process was killed: what should be cleaned
    up stays.
    """
    steps: list[str] = []
    stopped = False
    real = {"move": files.move, "remove": files.remove}
    rmtree = shutil.rmtree

    def step(name: str) -> Callable[..., None]:
        def change(*paths: Path) -> None:
            nonlocal stopped
            stopped = stopped or (len(steps) >= at if isinstance(at, int) else at())
            if stopped:
                steps.append(name)
                raise Stopped
            steps.append(f"{name} {paths[-1]}")
            real[name](*paths)

        return change

    def keep(path: object, *arguments: object, **options: object) -> None:
        if not (dead and stopped and ".attlas-" in str(path)):
            rmtree(path, *arguments, **options)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        for name in real:
            changed = step(name)
            for module in ("attlas.support.files", "attlas.studies.folder"):
                patch.setattr(f"{module}.{name}", changed)
        patch.setattr("attlas.support.files.shutil.rmtree", keep)
        yield steps


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, number: int, *names: str) -> Iterator[None]:
    """Stop at the n-th call of one of these functions of `os`; the disk changes no more, as when a
    process was killed.
    """
    calls = 0

    def fatal(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += name in names and calls < number
            if calls == number:
                raise Stopped
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("unlink", "remove", "rmdir", "replace", "rename", "mkdir"):
            patch.setattr(os, name, fatal(name))
        yield


def check_resumes(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int = 1
) -> int:
    """Stopped at every change of the disk and run again: the bytes of an undisturbed run, and
    nothing left over.
    """
    whole = tmp_path / "whole"
    with stopping(monkeypatch, 10**9) as steps:
        write(whole, False)
    expected = results(whole)
    for at in range(0, len(steps), every):
        folder = tmp_path / f"stopped-{at}"
        with stopping(monkeypatch, at), pytest.raises(Stopped):
            write(folder, False)
        write(folder, False)
        assert results(folder) == expected, f"stopped at {steps[at]}"
        assert contents(folder).keys() == contents(whole).keys(), f"stopped at {steps[at]}"
        shutil.rmtree(folder)
    return len(steps)


def check_damage(
    write: Write, tmp_path: Path, kinds: tuple[str, ...] = ("cut", "empty", "changed", "removed")
) -> None:
    """Each file of a finished folder, damaged in turn: refused in one line that names it, or made
    again; never used.
    """
    whole = tmp_path / "damaged"
    write(whole, False)
    expected = results(whole)
    for name in expected:
        for kind in kinds:
            damage(whole / name, kind)
            if (whole / name).is_file() and (whole / name).read_bytes() == expected[name]:
                continue  # an empty file cannot be cut
            message = refusal(write, whole)
            if message is None:
                assert results(whole) == expected, f"{name} {kind}"
            else:
                assert Path(name).name in message
                assert "\n" not in message
            (whole / name).write_bytes(expected[name])
            write(whole, False)  # whole again: found again
            assert results(whole) == expected


def refusal(write: Write, folder: Path) -> str | None:
    """What is said when a folder is refused; None if it is not."""
    try:
        write(folder, False)
    except AttlasError as error:
        return str(error)
    return None


def damage(path: Path, kind: str) -> None:
    """Damage a file."""
    data = path.read_bytes()
    if kind == "removed":
        path.unlink()
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif data:
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def check_fresh(
    write: Write, other: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int = 1
) -> None:
    """`fresh` stopped at every step, then run again with other inputs: no file or row of the first
    result appears, and a user's files stay.
    """
    there, wanted = tmp_path / "before", tmp_path / "wanted"
    write(there, False)
    other(wanted, False)
    expected = results(wanted)
    mine = {"README.md": b"mine", "tables/notes.xlsx": b"mine", "states/note.txt": b"mine"}
    for name, data in mine.items():
        (there / name).parent.mkdir(exist_ok=True)
        (there / name).write_bytes(data)
    folder = tmp_path / "fresh"
    shutil.copytree(there, folder)
    with stopping(monkeypatch, 10**9) as steps:
        other(folder, True)
    shutil.rmtree(folder)
    for at in range(0, len(steps), every):
        shutil.copytree(there, folder)
        with stopping(monkeypatch, at), pytest.raises(Stopped):
            other(folder, True)
        assert (folder / MANIFEST).is_file(), (
            f"stopped at {steps[at]}: without a manifest nobody knows whose files these are"
        )
        try:
            other(folder, False)
        except AttlasError:
            other(folder, True)
        assert results(folder) == expected, f"stopped at {steps[at]}"
        found = contents(folder)
        assert {name: found.pop(name) for name in mine} == mine
        assert found.keys() == contents(wanted).keys(), f"stopped at {steps[at]}"
        shutil.rmtree(folder)


def check_foreign(write: Write, tmp_path: Path) -> None:
    """A folder that is not ours is refused, fresh or not, in one line, and left as it is."""
    for number, (name, data) in enumerate(
        [
            ("tables/mine.csv", b"a,b"),
            ("states/texas.csv", b"a"),
            ("states/000000/x", b"x"),
            ("report.html", b"<html>"),
            ("quarantine.jsonl", b"{}"),
            ("result.json", b"{}"),
            ("files/x", b"x"),
            ("parts/x", b"x"),
            ("parts/x/manifest.json", b"{}"),
            ("log.txt", b"x"),
            ("summary.json", b"{}"),
            ("manifest.json", b'{"status": "x", "identity": {}, "name": "my web app"}'),
            ("manifest.json", b"[1, 2]"),
            ("manifest.json.tmp", b"x"),
            ("tables.tmp/x", b"x"),
        ]
    ):
        folder = tmp_path / f"foreign-{number}"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(data)
        for fresh in (False, True):
            with pytest.raises(AttlasError) as caught:
                write(folder, fresh)
            assert "\n" not in str(caught.value)
            assert contents(folder) == {name: data}, f"{name}, fresh {fresh}"
