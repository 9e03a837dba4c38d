"""SIGKILL at any moment of any verb: the same command then makes the bytes of an undisturbed run.

A verb is killed at a change of its folder (every second time) or at a fraction of the time that it
takes; both are drawn from a fixed seed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.attacks import Files
from tests.attacks.verbs import VERBS, Verb
from tests.conftest import Run, Start

COUNTING = """
import os, signal, sys
from pathlib import Path
changes, out = 0, {out!r}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "shutil.rmtree")
def heard(event, arguments):
    global changes
    if event not in CHANGES and not (event == "open" and arguments[2] & WRITES):
        return
    if out in str(arguments[0]):
        changes += 1
        if changes == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(heard)
import attlas.cli
try:
    attlas.cli.main()
finally:
    Path({counted!r}).write_text(str(changes))
"""


@dataclass(frozen=True)
class Undisturbed:
    """What a verb makes when nothing happens to it, how long that takes, how often it writes."""

    files: Files
    names: set[str]
    seconds: float
    changes: int


Undisturb = Callable[[str], Undisturbed]


@pytest.fixture(scope="module")
def known() -> dict[str, Undisturbed]:
    return {}


@pytest.fixture
def undisturbed(
    known: dict[str, Undisturbed],
    home: Path,
    attlas_start: Start,
    tmp_path_factory: pytest.TempPathFactory,
) -> Undisturb:
    """What a verb makes, run once."""

    def run(name: str) -> Undisturbed:
        verb, place = VERBS[name], tmp_path_factory.mktemp("undisturbed")
        out, counted = verb.prepare(place / "out"), place / "changes"
        code = COUNTING.format(out=str(out), at=0, counted=str(counted))
        began = time.monotonic()
        process = attlas_start(*verb.words(home, out), code=code)
        _, error = process.communicate(timeout=240)
        assert process.returncode == 0, error
        seconds, changes = time.monotonic() - began, int(counted.read_text())
        return Undisturbed(verb.results(out), verb.names(out), seconds, changes)

    def find(name: str) -> Undisturbed:
        if name not in known:
            known[name] = run(name)
        return known[name]

    return find


def draw(name: str, number: int) -> float:
    """When a verb is killed: a fraction of its changes or of its time."""
    return float(np.random.default_rng([*name.encode(), number]).uniform(0.02, 0.98))


def kill_at_change(start: Start, words: list[str], out: Path, number: int) -> None:
    code = COUNTING.format(out=str(out), at=number, counted=str(out.parent / "changes"))
    assert start(*words, code=code).wait(240) == -signal.SIGKILL


def kill_after(start: Start, words: list[str], seconds: float) -> bool:
    """Kill a verb after a time; False if it had ended before."""
    process = start(*words)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait(240) == -signal.SIGKILL


def moments() -> list[object]:
    quick = {("study", 0), ("finetune", 0), ("lengthen", 0), ("look", 0), ("probe syntax", 0)}
    quick.add(("dynamics", 0))
    every = [(name, number) for name, verb in VERBS.items() for number in range(verb.moments)]
    assert len(every) >= 100
    return [
        pytest.param(
            *one, id=f"{one[0]}-{one[1]}", marks=[] if one in quick else [pytest.mark.attack]
        )
        for one in every
    ]


@pytest.mark.parametrize(("name", "number"), moments())
def test_killed_and_run_again_it_is_as_if_nothing_had_happened(
    name: str,
    number: int,
    home: Path,
    undisturbed: Undisturb,
    attlas_start: Start,
    attlas_command: Run,
    tmp_path: Path,
) -> None:
    verb, expected, out = VERBS[name], undisturbed(name), tmp_path / "out"
    words, fraction = verb.words(home, verb.prepare(out)), draw(name, number)
    if number % 2 == 0:
        at = 1 + int(fraction * expected.changes)
        kill_at_change(attlas_start, words, out, min(at, expected.changes))
    else:
        seconds = fraction * expected.seconds
        while not kill_after(attlas_start, words, seconds):  # it was faster this time
            seconds *= 0.7
            remove_all(out)
    assert_resumes(attlas_command, verb, words, out, expected)


def remove_all(out: Path) -> None:
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def assert_resumes(
    run: Run, verb: Verb, words: list[str], out: Path, expected: Undisturbed
) -> None:
    again = run(*words)
    assert again.returncode == 0, again.stderr
    assert verb.results(out) == expected.files
    assert verb.names(out) == expected.names
