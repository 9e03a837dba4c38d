"""What is printed of a finished result comes from `summary.json`, unless it is out of date."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import attlas
from attlas.catalogue import sections
from attlas.cli import summary
from attlas.cli.app import print_experiment, print_study, report_page
from attlas.support import fingerprint
from attlas.testing import tiny
from attlas.testing.verbs import commands
from attlas.views import summary as views_summary
from attlas.views.findings import summarize
from attlas.views.summary import Summary
from tests.builders.processes import CommandOutput

TEXTS = "text,label\na good film,1\na bad film,0\nno film,0\na film,1\n"
STUDY = ["study", "--data", "a.csv", "--model", "model", "--measures", "surface,entropy"]
GROUPS = [*STUDY, "--label", "label", "--by", "label"]


@pytest.mark.parametrize("words", [STUDY, GROUPS], ids=["study", "groups"])
def test_a_finished_result_is_printed_without_a_library(
    words: list[str], inside: Callable[..., CommandOutput], tmp_path: Path, tiny_folder: Path
) -> None:
    """Law 6: tables and findings in under a second of CPU time, without pandas or torch."""
    (tmp_path / "a.csv").write_text(TEXTS)
    shutil.copytree(tiny_folder, tmp_path / "model")
    verb = [*words, "--out", "out", "--no-report"]
    made = inside(*verb)
    assert made.code == 0, made.error
    (text,) = commands(tmp_path, verb)
    (record,) = commands(tmp_path, [*verb, "--json"])
    for opened in (text, record):
        assert (opened.code, opened.heavy) == (0, ()), opened.error
        assert opened.seconds < 1
    assert text.out.split() == made.out.split()  # tables are as wide as the terminal
    assert json.loads(record.out)["study"] == "out"
    other = inside(*verb, "--measures", "entropy")
    assert (other.code, other.out) == (2, "")
    changed = tmp_path / "a.csv"
    changed.write_text(TEXTS.replace("good", "fine"))
    other = inside(*verb)
    assert (other.code, other.out) == (2, "")
    assert "was made with another" in other.error


@pytest.fixture
def study(tmp_path: Path) -> attlas.Study:
    return attlas.study(
        tiny("bert"), ["a cat sat", "a dog"], "surface", tmp_path / "out", progress=False
    )


def test_a_summary_is_all_that_sections_say(study: attlas.Study) -> None:
    made = summarize(study, sections())
    assert Summary.from_dict(json.loads(json.dumps(made.to_dict()))).to_dict() == made.to_dict()
    for _ in range(2):  # made, then read
        assert summary.summary_of(study).to_dict() == made.to_dict()


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[attlas.Study]:
    """The results that were summarized."""
    made: list[attlas.Study] = []

    def counting(study: attlas.Study, *rest: object) -> Summary:
        made.append(study)
        return summarize(study, *rest)

    monkeypatch.setattr("attlas.views.findings.summarize", counting)
    return made


def test_a_summary_is_used_only_while_it_is_up_to_date(
    study: attlas.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = _counted(monkeypatch), study.folder / "summary.json"
    summary.summary_of(study)
    written = path.read_bytes()
    summary.summary_of(study)
    assert len(made) == 1
    for damage in (written.replace(b"Warning", b"x").replace(b"Signal", b"y")[:-9], b"", b"[]"):
        path.write_bytes(damage)
        assert summary.summary_of(study).to_dict() == summarize(study, sections()).to_dict()
    content = json.loads(written)
    content["summary"]["warnings"] = ["all is well"]
    path.write_text(json.dumps(content))
    assert "all is well" not in summary.summary_of(study).warnings
    assert path.read_bytes() == written
    made.clear()
    monkeypatch.setattr(views_summary, "program_digest", lambda: "other code")
    summary.summary_of(study)
    assert len(made) == 1
    monkeypatch.undo()
    manifest = {**study.manifest, "seconds": 77.0}
    moved = attlas.Study(study.folder, manifest)
    assert ("time", "77.0 s") in summary.summary_of(moved).facts


def test_the_digest_of_the_program_covers_what_draws() -> None:
    names: list[str] = []
    fingerprint._digest_of_files(lambda path: names.append(path.as_posix()) or False)
    counted = {name for name in names if name.endswith((".py", ".md", ".js", ".html"))}
    assert {"views/claims.py", "syntax/section.py", "syntax/section.md", "cli/app.py"} <= counted
    assert {"views/static/heads.js", "views/templates/report.html"} <= counted
    assert fingerprint.program_digest() != fingerprint.source_digest()


@pytest.mark.parametrize("mine", [b"{}", b"my notes", b""])
def test_a_summary_of_the_user_is_left_alone(study: attlas.Study, mine: bytes) -> None:
    path = study.folder / "summary.json"
    path.write_bytes(mine)
    print_study(study, None, as_json=False)
    again = attlas.study(
        tiny("bert"), ["a dog"], "surface", study.folder, fresh=True, progress=False
    )
    print_experiment(again, report=False, as_json=False)
    assert path.read_bytes() == mine


def test_a_summary_goes_with_its_result(study: attlas.Study, tmp_path: Path) -> None:
    """Fresh clears it; a link in its place is neither followed nor removed."""
    path, other = study.folder / "summary.json", tmp_path / "other.json"
    summary.summary_of(study)
    assert path.is_file()
    attlas.study(tiny("bert"), ["a dog"], "surface", study.folder, fresh=True, progress=False)
    assert not path.exists()
    other.write_text("{}")
    path.symlink_to(other)
    summary.summary_of(attlas.Study.open(study.folder))
    assert other.read_text() == "{}"
    assert path.is_symlink()


def test_a_page_is_used_only_while_it_is_up_to_date(
    study: attlas.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another code, or a page that was made of other results as well, is drawn anew."""
    path = report_page(study)
    before = path.stat().st_ino
    assert report_page(study).stat().st_ino == before
    path.write_text(path.read_text().replace(views_summary.made_from(study), "of two results"))
    again = report_page(study).stat().st_ino
    assert again != before
    monkeypatch.setattr(views_summary, "program_digest", lambda: "other code")
    assert report_page(study).stat().st_ino != again
