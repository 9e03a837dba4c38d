"""SIGKILL at any moment of any verb: the same command then makes the bytes of an undisturbed run.

A verb is killed at a change of its folder (every second time) or at a fraction of the time that it
takes; both are drawn from a fixed seed.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import pytest

from attlas.catalogue import subjects
from tests.attacks.undisturbed import COUNTING, Undisturb, assert_resumes
from tests.attacks.verbs import VERBS
from tests.builders.processes import Run, Start


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
    """All moments; `make test` kills a study, an experiment and a grid once each."""
    quick = {("study", 0), ("probe syntax", 0), ("dynamics", 0)}
    every = [(name, number) for name, verb in VERBS.items() for number in range(verb.moments)]
    assert len(every) >= 100
    return [
        pytest.param(
            *one, id=f"{one[0]}-{one[1]}", marks=[] if one in quick else [pytest.mark.attack]
        )
        for one in every
    ]


def test_every_verb_that_writes_is_attacked() -> None:
    """A verb that was added without a command in VERBS fails."""
    lines = [verb.line for verb in VERBS.values()]
    verbs = {"study", "look", "report", *(verb for one in subjects() for verb in one.verbs)}
    assert {one for one in verbs if not any(line.startswith(f"{one} ") for line in lines)} == set()


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
