"""A full disk and folders that cannot be written: one line, and the same command then succeeds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks.verbs import VERBS
from tests.builders.processes import Run

QUICK = ("study", "lengthen")
EVERY = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.attack]) for name in VERBS]
Mount = Callable[[str], Path]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mount]:
    """Mount a small disk of its own in `tmp_path`; mounted again with other options, it changes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        how = f"remount,{options}" if mounted else options
        command = ["mount", "-t", "tmpfs", "-o", how, "attlas-attack", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount command on this system")
        if done.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
        mounted = True
        return place

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def assert_refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    error = [line for line in done.stderr.splitlines() if line.startswith("attlas: ")]
    assert len(error) == 1, done.stderr
    assert done.stderr.strip().splitlines()[-1] == error[0]


@pytest.mark.parametrize("size", [8, 40, 100])
@pytest.mark.parametrize("name", EVERY)
def test_after_a_full_disk_the_same_command_succeeds(
    name: str, size: int, home: Path, disk: Mount, attlas_command: Run
) -> None:
    verb, place = VERBS[name], disk(f"size={size}k")
    words = verb.words(home, verb.prepare(place / "out"))
    full = attlas_command(*words)
    if full.returncode == 0:
        assert size > 8, "8 kB are enough for it: this shows nothing"
        return
    assert_refused(full)
    disk("size=400m")
    again = attlas_command(*words)
    assert again.returncode == 0, again.stderr
    assert verb.results(place / "out")
    assert not [path for path in place.rglob("*") if ".attlas-" in path.name]


@pytest.mark.parametrize("name", EVERY)
def test_a_folder_that_cannot_be_written_is_one_line(
    name: str, home: Path, disk: Mount, attlas_command: Run
) -> None:
    verb, place = VERBS[name], disk("size=400m")
    words = verb.words(home, verb.prepare(place / "out"))
    disk("ro")
    assert_refused(attlas_command(*words))
    disk("rw,size=400m")
    again = attlas_command(*words)
    assert again.returncode == 0, again.stderr
