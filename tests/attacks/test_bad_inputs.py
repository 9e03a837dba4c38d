"""Bad files and bad options: exit code 2 with one line, or 0 where the rest is analysed.

No traceback, no case over ten seconds or a gigabyte.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.bad_inputs import bad_inputs, option_cases
from tests.builders.processes import Run, Start

COUNT, QUICK = 560, 40
MOST_SECONDS, MOST_BYTES = 10, 2**30
CASES = bad_inputs(COUNT)


def numbered() -> list[object]:
    """All cases; every twelfth or so is quick."""
    step = COUNT // QUICK
    return [
        pytest.param(
            number,
            id=f"{number}-{case.name}",
            marks=[] if number % step == 0 and number // step < QUICK else [pytest.mark.attack],
        )
        for number, case in enumerate(CASES)
    ]


def assert_clear(code: int | None, out: str, error: str) -> None:
    """The end of a command that was given something bad."""
    assert "Traceback" not in error + out, error
    assert code in (0, 2), (code, error)
    if code == 2:
        lines = error.strip().splitlines()
        assert [line for line in lines if line.startswith("attlas: ")] == lines[-1:], error
        assert len(lines[-1]) < 2000, len(lines[-1])


@pytest.mark.parametrize("number", numbered())
def test_bad_inputs_are_refused_in_one_line(
    number: int, home: Path, attlas_start: Start, tmp_path: Path
) -> None:
    words = CASES[number].words(home, tmp_path)
    process = attlas_start(*words, HF_HUB_OFFLINE="1")
    out, error = process.communicate(timeout=6 * MOST_SECONDS)  # other processes may run as well
    assert_clear(process.returncode, out, error)
    assert process.returncode == 2 or not CASES[number].refused, words
    assert process.seconds < MOST_SECONDS, words
    assert process.peak < MOST_BYTES, words


@pytest.mark.attack
@pytest.mark.parametrize("number", range(3, COUNT, 33))
def test_bad_inputs_are_refused_from_nothing(
    number: int, home: Path, attlas_anew: Run, tmp_path: Path
) -> None:
    """The same in processes that import everything themselves, as a user's do."""
    done = attlas_anew(*CASES[number].words(home, tmp_path))
    assert_clear(done.returncode, done.stdout, done.stderr)


def test_many_cases_must_be_refused() -> None:
    assert sum(case.refused for case in CASES) > COUNT // 10


def test_every_option_of_every_verb_is_among_the_cases() -> None:
    given = {case.name for case in CASES}
    missing = {f"{verb.replace(' ', '_')}{option}" for verb, option in option_cases()} - given
    assert missing == set()
