"""The laws of result folders on every experiment: one stop, one damaged file (attack: all)."""

from __future__ import annotations

from pathlib import Path

import pytest

from attlas.experiments.run import run
from attlas.studies.folder import listed_files, read_manifest
from tests.builders.folders import (
    Stopped,
    Write,
    check_damage,
    check_foreign,
    check_resumes,
    damage,
    refusal,
    results,
    stopping,
)
from tests.contracts.cases import CASES

EACH = pytest.mark.parametrize("name", CASES)


def writing(name: str) -> Write:
    """What runs an experiment in a folder."""

    def write(folder: Path, fresh: bool) -> object:
        return run(CASES[name].make(), folder, fresh=fresh, workers=1, progress=False)

    return write


@EACH
def test_stopped_at_the_middle_write_it_resumes_and_one_damaged_file_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, whole, folder = writing(name), tmp_path / "whole", tmp_path / "stopped"
    CASES[name].make()  # what its inputs need (a fitted extractor) is made before steps are counted
    with stopping(monkeypatch, 10**9) as steps:
        write(whole, False)
    expected = results(whole)
    with stopping(monkeypatch, len(steps) // 2), pytest.raises(Stopped):
        write(folder, False)
    write(folder, False)
    assert results(folder) == expected, f"stopped at {steps[len(steps) // 2]}"
    assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}
    damaged = sorted(listed_files(read_manifest(whole) or {}))[-1]
    damage(whole / damaged, "changed")
    message = refusal(write, whole)
    if message is None:
        assert results(whole) == expected
    else:
        assert Path(damaged).name in message
        assert "\n" not in message


@EACH
@pytest.mark.attack
def test_stopped_at_every_write_it_resumes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writing(name)
    write(tmp_path / "first", False)  # what its inputs need (a fitted extractor) is made once
    assert check_resumes(write, tmp_path, monkeypatch) > 5


@EACH
@pytest.mark.attack
def test_every_damaged_file_is_noticed(name: str, tmp_path: Path) -> None:
    check_damage(writing(name), tmp_path)


@EACH
@pytest.mark.attack
def test_folders_of_others_are_refused(name: str, tmp_path: Path) -> None:
    check_foreign(writing(name), tmp_path)
