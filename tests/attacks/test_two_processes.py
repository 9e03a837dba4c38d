"""Two processes on one folder: the second is refused at once, the first is not disturbed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.attacks.undisturbed import Undisturb
from tests.attacks.verbs import VERBS
from tests.builders.processes import Run, Start

WAITING = """
import sys, time
from pathlib import Path
import attlas.studies.folder
real = attlas.studies.folder.Folder.staging
def staging(self):
    if self.path == Path({out!r}):
        Path({ready!r}).touch()
        while not Path({proceed!r}).exists():
            time.sleep(0.01)
    return real(self)
attlas.studies.folder.Folder.staging = staging
import attlas.cli
attlas.cli.main()
"""
ATTACKED = ("study until", "study by", "probe syntax", "finetune")
EITHER = pytest.mark.parametrize("fresh", [False, True], ids=["resume", "fresh"])


@EITHER
@pytest.mark.parametrize(
    "name",
    [
        "study",
        *(
            pytest.param(one, marks=pytest.mark.attack)
            for one in ("study until", "study by", "probe syntax", "finetune")
        ),
    ],
)
def test_a_second_process_is_refused_and_the_first_not_disturbed(
    name: str,
    fresh: bool,
    home: Path,
    undisturbed: Undisturb,
    attlas_start: Start,
    attlas_command: Run,
    tmp_path: Path,
) -> None:
    verb, expected, out = VERBS[name], undisturbed(name), tmp_path / "out"
    ready, proceed = tmp_path / "ready", tmp_path / "proceed"
    words = verb.words(home, out)
    paths = {"out": str(out), "ready": str(ready), "proceed": str(proceed)}
    first = attlas_start(*words, code=WAITING.format(**paths))
    while not ready.exists():
        assert first.poll() is None
        time.sleep(0.01)
    second = attlas_command(*words, *["--fresh"] * fresh)
    assert second.returncode == 2, second.stderr
    assert second.stderr.splitlines()[-1].startswith("attlas: another process is writing in")
    assert "Traceback" not in second.stderr
    proceed.touch()
    _, error = first.communicate(timeout=240)
    assert first.returncode == 0, error
    assert verb.results(out) == expected.files
    assert verb.names(out) == expected.names


@pytest.mark.attack
@pytest.mark.parametrize("name", ["study of shards", "probe tree", "finetune all"])
def test_of_many_at_once_all_end_well_or_are_refused(
    name: str,
    home: Path,
    undisturbed: Undisturb,
    attlas_start: Start,
    tmp_path: Path,
) -> None:
    verb, expected, out = VERBS[name], undisturbed(name), tmp_path / "out"
    every = [attlas_start(*verb.words(home, out)) for _ in range(4)]
    codes = []
    for process in every:
        _, error = process.communicate(timeout=240)
        assert "Traceback" not in error
        assert process.returncode == 0 or "another process is writing in" in error, error
        codes.append(process.returncode)
    assert 0 in codes
    assert verb.results(out) == expected.files
    assert verb.names(out) == expected.names
