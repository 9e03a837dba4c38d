"""Result folders of every kind that Attlas made before format 2 still open, read only: not a byte
of them changes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import attlas
from attlas.support.errors import StudyError
from tests.golden.make_old_folders import OLD
from tests.golden.predictions import PREDICTIONS
from tests.golden.scenario import INPUTS

STUDIES = {
    "study": "surface",
    "explain": "agreement",
    "explain/importance": "importance",
    "syntax": "syntax",
    "tree": "tree",
    "coreference": "coreference",
    "relations": "relations",
    "relations_scored": "relations",
    "topology": "topology",
    "dynamics": "dynamics",
    "tour": "surface",
    "tour/syntax": "syntax",
    "tour/coreference": "coreference",
    "tour/dynamics": "dynamics",
}
TOUR = ("syntax", "coreference", "dynamics")


def hashes(folder: Path) -> dict[str, str]:
    """Every file and folder under a folder, but for locks."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Path]:
    """Copies of all old folders, where the inputs are too; whatever a test does with them, they
    stay as they were."""
    folder = tmp_path / "old"
    shutil.copytree(OLD, folder)
    before = hashes(folder)
    shutil.copytree(INPUTS, tmp_path, dirs_exist_ok=True)
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    yield folder
    after = hashes(folder)
    assert {name for name in before | after if before.get(name) != after.get(name)} == set()


def test_every_old_folder_is_opened_by_a_test() -> None:
    manifests = {str(path.parent.relative_to(OLD)) for path in OLD.rglob("manifest.json")}
    named = {name for name in manifests if not name.startswith("topology/features/")}
    assert named == {*STUDIES, "interrupted"}
    assert {path.name for path in OLD.iterdir()} == {
        *STUDIES,
        "interrupted",
        *PREDICTIONS,
        "predictions.json",
    } - {name for name in STUDIES if "/" in name}


@pytest.mark.parametrize("name", STUDIES)
def test_an_old_study_opens_with_all_its_tables(name: str, old: Path) -> None:
    study = attlas.Study.open(old / name)
    manifest = json.loads((old / name / "manifest.json").read_text())
    assert sorted(study.tables) == sorted(manifest["tables"])
    assert STUDIES[name] in study.tables
    for table, about in manifest["tables"].items():
        frame = study.table(table)
        assert len(frame) == about["rows"]
        pd.testing.assert_frame_equal(
            frame, pd.read_parquet(old / name / "tables" / f"{table}.parquet")
        )
    assert study.n_layers == manifest["model"]["n_layers"]
    if any(about["kind"] == "head" for about in manifest["tables"].values()):
        assert len(study.atlas()) == study.n_layers * study.n_heads


@pytest.mark.slow  # that they open is tested above
@pytest.mark.parametrize("name", STUDIES)
def test_an_old_study_reports(name: str, old: Path, tmp_path: Path) -> None:
    page = attlas.Study.open(old / name).report(tmp_path / "page.html")
    text = page.read_text()
    assert "</html>" in text
    assert "<section" in text


def test_a_report_of_an_old_tour_shows_its_parts(old: Path, tmp_path: Path) -> None:
    tour = attlas.Study.open(old / "tour")
    together = tour.combined_with(*(attlas.Study.open(old / "tour" / name) for name in TOUR))
    text = together.report(tmp_path / "page.html").read_text()
    for name in ("surface", *TOUR):
        assert f'<section id="{name}"' in text


def test_an_old_study_that_was_interrupted_is_refused(old: Path) -> None:
    with pytest.raises(StudyError, match="not complete"):
        attlas.Study.open(old / "interrupted")


@pytest.mark.parametrize("name", PREDICTIONS)
def test_what_was_saved_predicts_the_same(name: str, old: Path) -> None:
    expected = json.loads((old / "predictions.json").read_text())[name]
    assert same(PREDICTIONS[name](), expected)


def same(found: Any, expected: Any) -> bool:
    """Equal, floats but for rounding."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            same(found[name], expected[name]) for name in expected
        )
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    return type(found) is type(expected) and found == expected


def test_a_saved_fine_tuning_is_known_as_one(old: Path) -> None:
    record = json.loads((old / "finetuned/finetune.json").read_text())
    model = attlas.load(old / "finetuned", task="classify")
    assert [model.network.config.id2label[number] for number in range(2)] == record["labels"]
