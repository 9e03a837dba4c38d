"""Another package adds a subject: nothing of Attlas changes, and all laws hold for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas import catalogue
from attlas.cli.tour import Tour, run_part
from attlas.studies import Study
from attlas.testing import (
    Case,
    check_drawing_is_light,
    check_measure,
    experiment_checks,
    section_checks,
    stream,
    tiny,
)

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "repetition"
sys.path.append(str(EXAMPLE))  # as an editable install would
TEXTS = [
    "the cat saw the dog and the dog saw the cat",
    "a good film and a very good cast",
    "not bad not good and not long",
    "the end of the film is the best of it",
    "no word here twice",
    "it was what it was",
]


def repetition(**options: Any) -> Any:
    from attlas_repetition.experiment import Repetition

    return Repetition(**{"train": TEXTS[:4], "test": TEXTS[4:], "model": tiny("bert"), **options})


CASE = Case(
    repetition,
    {"train": TEXTS[:3], "test": TEXTS[5:], "model": tiny("bert", seed=1), "top": 2, "seed": 1},
    {"top": 0, "seed": -1, "max_length": 2},
)


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=law) for law, check in experiment_checks(CASE)]
)
def test_its_experiment_keeps_the_laws(check: Callable[[], None]) -> None:
    check()


def test_its_measure_keeps_the_laws_and_is_right() -> None:
    from attlas_repetition.repeats import Repeats, repeated

    model = tiny("bert")
    batches = stream(model, TEXTS)
    check_measure(Repeats(), batches, model)
    layer = batches[0][1]
    ids, weights = layer.batch.ids[0].tolist(), layer.dense().weights[0]
    shares = []  # by plain loops
    for query, token in enumerate(ids):
        others = [key for key, other in enumerate(ids) if other == token and key != query]
        if others and not layer.batch.special[0][query]:
            shares.append(weights[:, query, others].sum(-1))
    expected = sum(shares) / len(shares)
    assert repeated(layer)[0].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert repeated(stream(model, ["a cat sat on the mat"])[0][0]).isnan().all()


@cache
def found() -> Study:
    return attlas.run(repetition(), progress=False)


SECTION_LAWS = [name for name, _ in section_checks(None, None)]  # type: ignore[arg-type]


@pytest.mark.parametrize("law", SECTION_LAWS)
def test_its_section_keeps_the_laws(law: str) -> None:
    from attlas_repetition.section import SECTION

    dict(section_checks(SECTION, found()))[law]()


def test_its_section_is_drawn_without_a_model_library() -> None:
    check_drawing_is_light("attlas_repetition.section", found())


def test_its_part_of_the_tour_runs_and_one_that_fails_is_left_out(tmp_path: Path) -> None:
    from attlas_repetition import SUBJECT

    tour = Tour(tmp_path, None, False, {"workers": 1, "progress": False})
    done = run_part(SUBJECT, "Repetition", {"train": TEXTS, "top": 2}, tour, print)
    assert done is not None
    assert done.folder == tmp_path / "parts" / "repetition"
    with pytest.warns(
        UserWarning, match="the part Repetition of the tour is skipped: there is no file"
    ):
        assert run_part(SUBJECT, "Repetition", {"train": "no such file"}, tour, print) is None


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as pip installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, folder / "source")  # building leaves files behind
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    pip += ["--disable-pip-version-check", "--target", str(folder / "site"), str(folder / "source")]
    subprocess.run(pip, check=True, capture_output=True)
    return folder / "site"


def command(installed: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(installed), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "COLUMNS": "200",
    }
    return subprocess.run(
        [sys.executable, "-m", "attlas", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )


@pytest.mark.slow
def test_installed_its_verb_measure_and_section_are_there(installed: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "src").rglob("*.py")}
    assert "repetition" in command(installed, "--help", cwd=tmp_path).stdout
    assert "other occurrences" in command(installed, "measures", cwd=tmp_path).stdout
    tiny("bert").save(tmp_path / "m")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 3))
    done = command(
        installed,
        "repetition",
        "--train",
        "texts.txt",
        "--model",
        "m",
        "--out",
        "out",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["heads"]) == 3
    assert '<section id="repetition"' in (tmp_path / "out" / "report.html").read_text()
    again = command(
        installed,
        "repetition",
        "--train",
        "texts.txt",
        "--model",
        "m",
        "--out",
        "out",
        cwd=tmp_path,
    )
    assert "attends to other occurrences of a token: " in again.stdout
    studied = command(
        installed,
        "study",
        "--data",
        "texts.txt",
        "--model",
        "m",
        "--measures",
        "repetition",
        "--out",
        "study",
        "--json",
        cwd=tmp_path,
    )
    assert "repetition" in json.loads(studied.stdout)["tables"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a package of one module as a plug-in of this process."""

    def install(code: str, group: str = "attlas.subjects", value: str = "strange_plugin") -> None:
        (tmp_path / "strange_plugin.py").write_text(code)
        about = tmp_path / "strange_plugin-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-plugin\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[{group}]\nstrange = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        clear()

    def clear() -> None:
        catalogue.subjects.cache_clear()
        catalogue.measures.cache_clear()
        sys.modules.pop("strange_plugin", None)

    yield install
    monkeypatch.undo()
    clear()


SUBJECT = "from attlas.support.subject import Subject\nSUBJECT = Subject({})"
BROKEN = {
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "has no subject": ("x = 1", "has no attribute 'SUBJECT'"),
    "is no subject": ("SUBJECT = 1", "SUBJECT is a int, not a Subject"),
    "was written for another api": (
        SUBJECT.format('name="strange", package=__name__, api=2'),
        "it was written for api 2; this Attlas has 1",
    ),
    "has a verb of ours": (
        SUBJECT.format(
            'name="strange", package="attlas.syntax", experiments={"Syntax": "experiment"}, '
            'verb="probe syntax"'
        ),
        "'probe syntax' already exists",
    ),
    "has a verb of the command line's own": (
        SUBJECT.format(
            'name="strange", package="attlas.syntax", experiments={"Syntax": "experiment"}, '
            'verb="report"'
        ),
        "'report' already exists",
    ),
    "has a verb without an experiment": (
        SUBJECT.format('name="strange", package="attlas.syntax", verb={"Nothing": "strange"}'),
        "KeyError: 'Nothing'",
    ),
    "has a subject of ours": (
        SUBJECT.format('name="syntax", package=__name__'),
        "'syntax' already exists",
    ),
    "has no such experiment": (
        SUBJECT.format(
            'name="strange", package="attlas.syntax", experiments={"Nothing": "experiment"}'
        ),
        "has no attribute 'Nothing'",
    ),
}


@pytest.mark.parametrize(("code", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plug_in_is_left_out_with_one_warning(
    entry: Callable[..., None], code: str, reason: str
) -> None:
    ours = [subject.name for subject in catalogue.subjects()]
    entry(code)
    with pytest.warns(
        UserWarning, match="the plug-in strange .strange_plugin. is left out"
    ) as message:
        assert [subject.name for subject in catalogue.subjects()] == ours
    assert len(message) == 1
    assert reason in str(message[0].message)
    assert "\n" not in str(message[0].message)


def test_a_single_measure_is_added_by_an_entry_point(entry: Callable[..., None]) -> None:
    code = (
        "from attlas.measures.entropy import Entropy\nclass Strange(Entropy):\n    name = 'strange'"
    )
    entry(code, "attlas.measures", "strange_plugin:Strange")
    assert catalogue.measures_of("strange")[0].name == "strange"
    assert "a measure of strange_plugin" in catalogue.measures().question("strange")


def subjects_of_the_contract() -> set[str]:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ][0]
    line = next(layer for layer in contract["layers"] if "syntax" in layer)
    return {f"attlas.{name}" for name in line.split(" | ")}


def test_the_lists_of_subjects_are_one_list() -> None:
    """Catalogue, import contract, folders with a SUBJECT, and public names."""
    listed = {name for name in catalogue.SUBJECTS if name != "attlas.measures"}
    folders = {
        f"attlas.{path.parent.name}"
        for path in (ROOT / "src" / "attlas").glob("*/__init__.py")
        if "SUBJECT = " in path.read_text() and path.parent.name != "measures"
    }
    assert listed == folders == subjects_of_the_contract()
    for subject in catalogue.subjects():
        for name in subject.experiments if subject.package.startswith("attlas.") else ():
            assert getattr(attlas, name) is subject.experiment(name)


@pytest.mark.slow
def test_as_a_folder_of_attlas_it_needs_three_lines(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(EXAMPLE / "attlas_repetition", tmp_path / "src" / "attlas" / "repetition")
    for path in (tmp_path / "src" / "attlas" / "repetition").glob("*.py"):
        path.write_text(path.read_text().replace("attlas_repetition", "attlas.repetition"))
    lines = {
        "src/attlas/catalogue.py": (
            '    "attlas.syntax",\n',
            '    "attlas.syntax",\n    "attlas.repetition",\n',
        ),
        "pyproject.toml": (" | syntax | ", " | syntax | repetition | "),
        "src/attlas/__init__.pyi": (
            "from .syntax.experiment",
            "from .repetition.experiment import Repetition as Repetition\nfrom .syntax.experiment",
        ),
    }
    for name, (old, new) in lines.items():
        content = (tmp_path / name).read_text()
        assert content.count(old) == 1, name
        (tmp_path / name).write_text(content.replace(old, new))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    code = (
        "import attlas, sys; from attlas.testing import tiny;"
        "assert attlas.__file__.startswith(sys.argv[1]);"
        "experiment = attlas.Repetition(train=['a b a', 'b a b', 'a a'] * 3, model=tiny('bert'));"
        "done = attlas.run(experiment, progress=False);"
        "assert len(done.result['heads']) == 3; assert 'repetition' in attlas.MEASURES"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, env=environment, cwd=tmp_path
    )
    helped = subprocess.run(
        [sys.executable, "-m", "attlas", "repetition", "--help"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert "--top" in helped.stdout, helped.stderr
    linter = (
        "from importlinter.cli import lint_imports; sys = __import__('sys'); "
        "sys.exit(lint_imports())"
    )
    linted = partial(
        subprocess.run,
        [sys.executable, "-c", linter],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    done = linted()
    assert done.returncode == 0, done.stdout
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # without its name, the contract is broken
    done = linted()
    assert done.returncode == 1
    assert "attlas.repetition" in done.stdout
