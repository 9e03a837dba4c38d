"""Files that a user names are written whole, with a fitting ending, never over existing files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest

import attlas
from attlas.support.errors import AttlasError, StudyError
from attlas.support.outputs import CHARTS, GENERATOR, PAGE, PICTURES, check_output
from attlas.testing import tiny
from attlas.views.charts import export
from attlas.views.text_page import write_text
from tests.builders.runs import command_line

MINE = "years of work"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["look.csv", "look", "look.html.bak", ".html"])
def test_an_ending_that_does_not_fit_is_refused_even_with_force(
    name: str, force: bool, tmp_path: Path
) -> None:
    with pytest.raises(
        StudyError, match=r"name a file that ends in \.html or \.svg or \.png or \.pdf$"
    ):
        check_output(tmp_path / name, (PAGE, *PICTURES), force)


@pytest.mark.parametrize("ending", [PAGE, *PICTURES])
def test_a_file_that_exists_needs_force(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine{ending}"
    assert check_output(path, (PAGE, *PICTURES)) == path
    path.write_text(MINE)
    with pytest.raises(
        StudyError,
        match=r"mine\.\w+ already exists; .* overwrite it with --force \(in Python, force=True\)$",
    ):
        check_output(path, (PAGE, *PICTURES))
    assert check_output(path, (PAGE, *PICTURES), True) == path


def test_a_page_of_ours_is_replaced_but_no_link_to_one_and_no_other_file_with_its_mark(
    tmp_path: Path,
) -> None:
    ours = tmp_path / "report.html"
    ours.write_text(f"<!doctype html>{GENERATOR}")
    assert check_output(ours, [PAGE]) == ours
    (tmp_path / "link.html").symlink_to(ours)
    (tmp_path / "broken.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "mine.svg").write_text(GENERATOR)
    for name in ("link.html", "broken.html", "mine.svg"):
        with pytest.raises(StudyError, match="already exists"):
            check_output(tmp_path / name, (PAGE, *PICTURES))


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="is a folder; give a file, such as"):
        check_output(tmp_path, [PAGE], True)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> attlas.Study:
    folder = tmp_path_factory.mktemp("study") / "out"
    return attlas.study(
        tiny("bert"), ["a cat sat", "a dog"], "entropy", folder, progress=False, workers=1
    )


CHART = alt.Chart(pd.DataFrame({"x": [1]})).mark_point().encode(x="x:Q")


@pytest.mark.parametrize("ending", CHARTS)
def test_a_chart_is_written_once_and_again_with_force(ending: str, tmp_path: Path) -> None:
    path = export(CHART, tmp_path / f"chart{ending}")
    written = path.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    path.write_text(MINE)
    with pytest.raises(StudyError, match="already exists"):
        export(CHART, path)
    assert path.read_text() == MINE
    assert export(CHART, path, force=True).stat().st_size == pytest.approx(len(written), rel=0.2)


@pytest.mark.parametrize("name", ["look.html", "look.svg"])
def test_python_refuses_and_forces_too(study: attlas.Study, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(MINE)
    seen = attlas.attention(tiny("bert"), "a cat sat")
    writers: list[Any] = [seen.write, lambda path, **how: write_text(seen.numbers, path, **how)]
    if path.suffix == PAGE:
        writers.append(study.report)
    for write in writers:
        path.write_text(MINE)
        with pytest.raises(StudyError, match="already exists"):
            write(path)
        assert path.read_text() == MINE
        assert write(path, force=True) == path
        assert MINE not in path.read_text()
    if path.suffix == PAGE:
        assert seen.write(path) == path  # a page of ours is replaced


def test_a_report_has_the_ending_of_a_page(study: attlas.Study, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"ends in '\.csv'; name a file that ends in \.html$"):
        study.report(tmp_path / "mine.csv")


def test_if_one_picture_exists_none_is_written(study: attlas.Study, tmp_path: Path) -> None:
    from tests.builders.pages import write_charts

    first, *_ = write_charts(study, tmp_path / "all")
    some = tmp_path / "some"
    some.mkdir()
    (some / first.name).write_text(MINE)
    with pytest.raises(StudyError, match="already exists"):
        write_charts(study, some)
    assert [(path.name, path.read_text()) for path in some.iterdir()] == [(first.name, MINE)]
    with pytest.raises(
        AttlasError, match="format is 'gif'; it must be svg or pdf or png or html or json"
    ):
        write_charts(study, tmp_path / "none", "gif")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("look", "a cat", "--html", "mine.csv"),
            "mine.csv ends in '.csv'; name a file that ends in .html",
        ),
        (("look", "a cat", "--html", "mine.html"), "mine.html already exists"),
        (("look", "a cat", "--heads", "mine.svg"), "mine.svg already exists"),
        (
            ("look", "a cat", "--html", "new.svg", "--heads", "new.svg"),
            "--html and --heads both name new.svg",
        ),
        (("look", "a cat", "--file", "text.txt"), "give a text or --file, not both"),
        (("look", ""), "the text is empty; give a text to look at"),
        (("look", " \n"), "the text is empty; give a text to look at"),
        (("look",), "no text was given; give a text"),
        (("look", "--file", "empty.txt"), "empty.txt is empty; give a text to look at"),
        (("report", "study", "--out", "mine.html"), "mine.html already exists"),
        (
            ("report", "study", "--charts", "c", "--format", "gif"),
            "format is 'gif'; it must be svg or",
        ),
        (
            ("relations", "extract", "--extractor", "e", ""),
            "the text is empty; give a text to extract from",
        ),
        (
            ("relations", "extract", "--extractor", "e", "a", "--html", "mine.html"),
            "mine.html already exists",
        ),
    ],
)
def test_the_command_line_refuses_before_anything_is_loaded(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.csv", "mine.html", "mine.svg", "text.txt"):
        Path(name).write_text(MINE)
    Path("empty.txt").write_text("\n")
    monkeypatch.setattr("attlas.models.load", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(AttlasError) as refusal:
        command_line(*words)
    assert str(refusal.value).startswith(f"attlas: {message}")
    assert "\n" not in str(refusal.value)
    assert {path.read_text() for path in Path().glob("mine.*")} == {MINE}


def test_pictures_that_an_interrupted_run_wrote_are_completed(
    study: attlas.Study, tmp_path: Path
) -> None:
    from tests.builders.pages import write_charts

    whole = write_charts(study, tmp_path / "all")
    half = tmp_path / "half"
    half.mkdir()
    for path in whole[::2]:
        (half / path.name).write_bytes(path.read_bytes())
    assert [path.name for path in write_charts(study, half)] == [path.name for path in whole]
    assert all((half / path.name).read_bytes() == path.read_bytes() for path in whole)
