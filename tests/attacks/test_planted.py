"""Planted files: no module of the working folder runs, no pickle in a result folder is loaded."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.support.errors import AttlasError
from tests.attacks.verbs import VERBS
from tests.builders.runs import QUIET, Interrupted, files_in, model, outcome, reviews, write_files

MARK = "ran"
MODULE = "open({mark!r}, 'a').write({name!r} + chr(10))\n"
CONFIG = "!!python/object/apply:os.system ['echo numba >> {mark}']\n"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with a module of every name that Python, Attlas or a library could import."""
    names = {*sys.stdlib_module_names, *packages_distributions(), "attlas", "tests"}
    names |= {"sitecustomize", "usercustomize"}
    folder, mark = tmp_path / "working", str(tmp_path / MARK)
    folder.mkdir()
    for name in names:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(MODULE.format(mark=mark, name=name))
    (folder / ".numba_config.yaml").write_text(CONFIG.format(mark=mark))
    (folder / "matplotlibrc").write_text("backend: module://json\n")
    return folder


def script(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command, as a user does, in a folder."""
    command = Path(sys.executable).with_name("attlas")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [str(command), *words], capture_output=True, text=True, cwd=folder, env=environment
    )


def ran(folder: Path) -> list[str]:
    mark = folder.parent / MARK
    return sorted(set(mark.read_text().split())) if mark.exists() else []


def test_the_command_imports_nothing_from_the_working_folder(planted: Path) -> None:
    done = script(planted, "--version")
    assert (done.returncode, done.stdout.strip()) == (0, attlas.__version__), done.stderr
    assert ran(planted) == []


@pytest.mark.attack
def test_workers_import_nothing_from_the_working_folder(planted: Path, home: Path) -> None:
    words = VERBS["dynamics"].words(home)
    words[words.index("--workers") + 1] = "2"
    done = script(planted, *words)
    assert done.returncode == 0, done.stderr
    assert ran(planted) == []


@pytest.mark.attack
@pytest.mark.parametrize("name", VERBS)
def test_no_verb_imports_from_the_working_folder(planted: Path, home: Path, name: str) -> None:
    VERBS[name].prepare(planted / "out")
    done = script(planted, *VERBS[name].words(home))
    assert done.returncode == 0, done.stderr
    assert ran(planted) == []


@pytest.mark.attack
def test_safe_path_keeps_the_working_folder_out_of_a_module_run(planted: Path) -> None:
    """`python -m attlas` imports Attlas itself from the working folder; `-P` does not."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "attlas", "--version"],
        capture_output=True,
        text=True,
        cwd=planted,
    )
    assert done.returncode == 0, done.stderr
    assert ran(planted) == []


# pickles


class Bomb:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return _leave, (self.mark, "unpickled")


def _leave(mark: str, line: str) -> None:
    Path(mark).write_text(line)


def bombs(mark: Path, folder: Path) -> None:
    """Replace every file by a pickle, and add pickles of the names that libraries look for."""
    content = pickle.dumps(Bomb(mark))
    for path in [*folder.rglob("*")]:
        if path.is_file() and path.suffix in (".npz", ".npy"):
            buffer = io.BytesIO()
            np.save(buffer, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
            path.write_bytes(buffer.getvalue())
        elif path.is_file() and path.suffix not in (".json", ".lock"):
            path.write_bytes(content)
    for name in ("optimizer.pt", "scheduler.pt", "pytorch_model.bin", "state.pkl", "arrays.npy"):
        (folder / name).write_bytes(content)


def rehashed(entry: Path) -> None:
    """Make an entry of `states` list its files as they are now, as an attacker would."""
    about = json.loads((entry / "entry.json").read_text())
    about["files"] = {
        name: hashlib.sha256((entry / name).read_bytes()).hexdigest() for name in about["files"]
    }
    (entry / "entry.json").write_text(json.dumps(about))


def test_a_pickle_in_the_states_of_a_study_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> attlas.Study:
        return attlas.study(model(), ["a cat"], [Interrupted()], tmp_path / "out", **QUIET)

    monkeypatch.setattr(Interrupted, "now", True)
    with pytest.raises(KeyboardInterrupt):
        run()
    entries = [path.parent for path in (tmp_path / "out/states").rglob("entry.json")]
    assert entries
    for entry in entries:
        bombs(tmp_path / MARK, entry)
        rehashed(entry)
    monkeypatch.setattr(Interrupted, "now", False)
    with suppress(Exception):  # an attacker who knows the checksums may well stop a run
        run()
    assert not (tmp_path / MARK).exists()


def cached(cache: Path, out: Path) -> attlas.Study:
    parts = {"train": reviews(20), "dev": reviews(8, 1), "test": reviews(8, 2)}
    grid = attlas.Dynamics(**parts, scales=(10.0,), epochs=1, dim=2)
    return attlas.run(grid, out, cache=cache, workers=1, **QUIET)


def test_a_pickle_in_a_cache_is_not_loaded(tmp_path: Path) -> None:
    cached(tmp_path / "cache", tmp_path / "first")
    entries = [path.parent for path in (tmp_path / "cache").rglob("entry.json")]
    kinds = {path.suffix for entry in entries for path in entry.iterdir()}
    assert {".npz", ".npy"} & kinds
    for entry in entries:
        bombs(tmp_path / MARK, entry)
        rehashed(entry)
    with suppress(Exception):
        cached(tmp_path / "cache", tmp_path / "second")
    assert not (tmp_path / MARK).exists()


def test_a_table_that_is_a_pickle_is_refused(tmp_path: Path) -> None:
    attlas.study(model(), ["a cat"], "entropy", tmp_path / "out", **QUIET)
    bombs(tmp_path / MARK, tmp_path / "out" / "tables")
    with pytest.raises(AttlasError, match="changed"):
        attlas.Study.open(tmp_path / "out").table("entropy")
    assert not (tmp_path / MARK).exists()


# links


def precious(folder: Path) -> dict[str, bytes]:
    """Another finished study of the user's."""
    attlas.study(model(), ["the dog"], "entropy", folder, **QUIET)
    return files_in(folder)


@pytest.mark.parametrize("place", ["states/000000", "parts/other"])
def test_a_link_to_another_result_is_not_cleared(place: str, tmp_path: Path) -> None:
    before = precious(tmp_path / "precious")
    attlas.study(model(), ["a cat"], "entropy", tmp_path / "out", **QUIET)
    (tmp_path / "out" / place).parent.mkdir(exist_ok=True)
    (tmp_path / "out" / place).symlink_to(tmp_path / "precious")
    attlas.study(model(), ["a dog"], "entropy", tmp_path / "out", fresh=True, **QUIET)
    assert files_in(tmp_path / "precious") == before


@pytest.mark.parametrize("name", ["tables", "files", "states", "parts"])
def test_nothing_is_written_or_removed_behind_a_linked_folder(name: str, tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    attlas.study(model(), ["a cat"], "entropy", out, **QUIET)
    if (out / name).exists():
        shutil.move(out / name, victim)
    write_files(victim, {"entropy.parquet": b"mine", "note.txt": b"mine"})
    before = files_in(victim)
    (out / name).symlink_to(victim)
    with pytest.raises(AttlasError, match="link"):
        attlas.study(model(), ["a dog"], "entropy", out, fresh=True, **QUIET)
    assert files_in(victim) == before


FOREIGN = {"attlas": 2, "kind": "study", "status": "complete", "identity": {}, "tables": {}}


@pytest.mark.parametrize("name", ["../victim.txt", "tables/../../victim.txt", "ABSOLUTE", "a\0b"])
def test_a_manifest_cannot_have_files_elsewhere_removed(name: str, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim.txt", tmp_path / "out"
    victim.write_text("years of work")
    listed = {name.replace("ABSOLUTE", str(victim)): None}
    write_files(out, {"manifest.json": json.dumps({**FOREIGN, "files": listed}).encode()})
    for fresh in (False, True):
        outcome(partial(attlas.study, model(), ["a dog"], "entropy", out, fresh=fresh, **QUIET))
    assert victim.read_text() == "years of work"


@pytest.mark.parametrize("name", ["../../../victim.txt", "ABSOLUTE", "a\0b"])
def test_a_planted_entry_cannot_have_files_elsewhere_removed(name: str, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim.txt", tmp_path / "out"
    victim.write_text("years of work")
    attlas.study(model(), ["a cat"], "entropy", out, **QUIET)
    listed = {"attlas": 2, "files": {name.replace("ABSOLUTE", str(victim)): "0" * 64}}
    write_files(out, {"states/planted/entry.json": json.dumps(listed).encode()})
    outcome(lambda: attlas.study(model(), ["a dog"], "entropy", out, fresh=True, **QUIET))
    assert victim.read_text() == "years of work"


def test_a_file_of_the_user_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    victim, out = tmp_path / "victim.parquet", tmp_path / "out"
    pd.DataFrame({"a": [1]}).to_parquet(victim)
    before = victim.read_bytes()
    attlas.study(model(), ["a cat"], "entropy", out, **QUIET)
    (out / "tables/entropy.parquet").unlink()
    (out / "tables/entropy.parquet").symlink_to(victim)
    attlas.study(model(), ["a dog"], "entropy", out, fresh=True, **QUIET)
    assert victim.read_bytes() == before
    assert not (out / "tables/entropy.parquet").is_symlink()
