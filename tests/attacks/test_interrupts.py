"""Ctrl-C at any moment of a run: one line, exit code 130, and the same command resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.attacks.undisturbed import COUNTING, Undisturb, assert_resumes
from tests.attacks.verbs import VERBS
from tests.builders.processes import Run, Start

AT_ONCE = COUNTING.replace("signal.SIGKILL", "signal.SIGINT")
MOMENTS = 10
INTERRUPTED = (
    *("study", "study of shards", "study until", "study by"),
    *("probe syntax", "finetune all"),
)
QUICK = (("study", 4), ("probe syntax", 6))
STARTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from attlas.cli import main
print(flush=True)
main()
"""
SAID = "attlas: interrupted; run the same command again to resume"


def moments() -> list[object]:
    return [
        pytest.param(name, number, marks=[] if (name, number) in QUICK else [pytest.mark.attack])
        for name in (
            "study",
            "study of shards",
            "study until",
            "study by",
            "probe syntax",
            "finetune all",
        )
        for number in range(MOMENTS)
    ]


@pytest.mark.parametrize(("name", "number"), moments())
def test_interrupted_it_says_one_line_and_resumes(
    name: str,
    number: int,
    home: Path,
    undisturbed: Undisturb,
    attlas_start: Start,
    attlas_command: Run,
    tmp_path: Path,
) -> None:
    verb, expected, out = VERBS[name], undisturbed(name), tmp_path / "out"
    words = verb.words(home, out)
    at = 1 + number * (expected.changes - 1) // MOMENTS
    code = AT_ONCE.format(out=str(out), at=at, counted=str(tmp_path / "changes"))
    process = attlas_start(*words, code=code)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 128 + signal.SIGINT, error
    assert "Traceback" not in error
    assert [line for line in error.splitlines() if line.startswith("attlas: ")] == [SAID]
    assert error.strip().splitlines()[-1] == SAID
    assert_resumes(attlas_command, verb, words, out, expected)


@pytest.mark.attack
@pytest.mark.parametrize("tenths", [1, 2, 3, 5, 8, 12, 18, 27, 40, 60])
def test_interrupted_by_the_clock_it_says_one_line(tenths: int, home: Path, tmp_path: Path) -> None:
    """In a process that imports everything itself, as a user's does: during imports, then work."""
    words = VERBS["study"].words(home, tmp_path / "out")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", STARTED, *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the command has begun
        time.sleep(tenths / 10)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=240)
    assert "Traceback" not in error, error
    if process.returncode:  # it was not done before
        assert process.returncode == 128 + signal.SIGINT
        assert error.strip().splitlines()[-1] == SAID
