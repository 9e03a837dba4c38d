"""As on Windows: without fcntl, and where processes are spawned."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attlas

SOURCE = Path(attlas.__file__).parents[1]
WITHOUT_FCNTL = """
import sys
sys.modules["fcntl"] = None  # an import of it fails
import importlib, pathlib, pkgutil, warnings
warnings.simplefilter("error")
import attlas.support
for module in pkgutil.iter_modules(attlas.support.__path__):
    importlib.import_module(f"attlas.support.{module.name}")
assert not {"torch", "numpy"} & {*sys.modules}, "support imports no library that computes"

from attlas.support.errors import StudyError
from attlas.support.files import atomic_write, locked, remove_leftovers
from attlas.support.fingerprint import fingerprint

path = pathlib.Path("file")
with atomic_write(path) as file:
    file.write(b"whole")
try:
    with atomic_write(path) as file:
        file.write(b"ha")
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
assert path.read_bytes() == b"whole"
assert [one.name for one in pathlib.Path().iterdir()] == ["file"]

folder = pathlib.Path("folder")
for _ in range(2):  # it is free again afterwards
    with locked(folder):
        try:
            with locked(folder):
                raise AssertionError("a second one was let in")
        except StudyError as error:
            assert "another process is writing" in str(error)

print(fingerprint({"a": [1, 2.5, "b", None, b"c", (True,)]}))
"""
SPAWNED = """
import multiprocessing, sys
multiprocessing.set_start_method("spawn")
import attlas
from attlas.core.text import Text
from attlas.testing import tiny

quiet = {"workers": 2, "progress": False}
study = attlas.study(tiny("bert"), ["a cat sat", "a dog"], "entropy", "study", **quiet)
texts = [Text(str(n), f"a {('bad', 'good')[n % 2]} film", label=str(n % 2)) for n in range(40)]
parts = {"train": texts[:20], "dev": texts[20:30], "test": texts[30:]}
for workers in (1, 2):
    classifiers = attlas.Dynamics(**parts, scales=(1.0, 10.0), dim=2, epochs=1)
    grid = attlas.run(classifiers, f"grid{workers}", workers=workers, progress=False)
print(len(study.table("texts")), len(grid.table("dynamics")), multiprocessing.get_start_method())
"""
TESTS_OF_SUPPORT = """
import multiprocessing, sys
sys.modules["fcntl"] = None
multiprocessing.set_start_method("spawn")
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run(code: str, folder: Path) -> str:
    """Run a script as the command `attlas` is run: from another folder than the working one."""
    (folder / "script").mkdir()
    (folder / "work").mkdir(exist_ok=True)
    script = folder / "script" / "started.py"
    script.write_text(code)
    variables = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder / "work",
        env=variables,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_support_needs_no_fcntl(tmp_path: Path) -> None:
    from attlas.support.fingerprint import fingerprint

    printed = run(WITHOUT_FCNTL, tmp_path)
    assert printed.strip() == fingerprint({"a": [1, 2.5, "b", None, b"c", (True,)]})


@pytest.mark.slow
def test_the_tests_of_support_pass_without_fcntl_where_processes_are_spawned() -> None:
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow and not attack"]
    done = subprocess.run(
        [sys.executable, "-c", TESTS_OF_SUPPORT, *options, "tests/support"],
        cwd=SOURCE.parent,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_study_and_a_grid_run_where_processes_are_spawned(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("multiprocessing", "queue", "json", "numpy", "torch", "attlas"):
        (tmp_path / "work" / f"{name}.py").write_text("open('ran', 'w'); 1 / 0")
    assert run(SPAWNED, tmp_path) == "2 2 spawn\n"
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / "work" / name / "tables").iterdir()}
        for name in ("grid1", "grid2")
    )
    assert one == two
    assert not (tmp_path / "work" / "ran").exists()
