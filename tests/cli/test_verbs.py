"""A verb and its Python twin are one thing: names, defaults, help and domains come from the fields of the experiment."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import attlas
import attlas.support.errors
from attlas.cli.verbs import HOW, help_of, verb_of
from attlas.corpora.sources import embedded_file
from attlas.experiments.experiment import Experiment
from attlas.support.options import declared
from attlas.testing import tiny
from tests.conftest import Run

VERBS: dict[str, type[Experiment]] = {
    "probe syntax": attlas.Syntax,
    "probe coreference": attlas.Coreference,
    "relations fit": attlas.FitRelations,
    "relations score": attlas.ScoreRelations,
}
KEYS = {
    "probe syntax": {"relations", "overall"},
    "probe coreference": {"heads", "baselines"},
    "relations fit": {"binary_accuracy", "precision", "recall", "f1", "controls"},
    "relations score": {"binary_accuracy", "precision", "recall", "f1", "controls"},
}
EACH = pytest.mark.parametrize("verb", VERBS)


@EACH
def test_options_are_the_fields(verb: str) -> None:
    experiment = VERBS[verb]
    signature = inspect.signature(verb_of(experiment))
    fields = {one.name: one for one in dataclasses.fields(experiment)}
    assert set(signature.parameters) == {*fields, *HOW, "out"}
    for name, one in fields.items():
        parameter = signature.parameters[name]
        required = one.default is dataclasses.MISSING
        assert (parameter.default is inspect.Parameter.empty) == required
        if not required:
            assert parameter.default == one.default
        option = parameter.annotation.__metadata__[0]
        assert option.help == help_of(declared(experiment)[name])


HELP = """
import sys
from attlas.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = [name for name in ("torch", "numpy", "pandas", "transformers") if name in sys.modules]
assert not heavy, heavy
"""


@EACH
def test_help_says_every_domain_and_imports_nothing_heavy(verb: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HELP, *verb.split(), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=_wide())
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for name, about in declared(VERBS[verb]).items():
        assert f"--{name.replace('_', '-')}" in said
        assert help_of(about) in said


def _wide() -> dict[str, str]:
    import os

    return {**os.environ, "COLUMNS": "400"}


OPTIONS: dict[str, dict[str, Any]] = {
    "probe syntax": {"train": "embedded:sentences", "min_cases": 10},
    "probe coreference": {"train": "embedded:sentences"},
    "relations fit": {"train": "triples.jsonl", "dev": "more.jsonl"},
    "relations score": {"extractor": "fitted", "test": "more.jsonl"},
}


def options_of(verb: str) -> dict[str, Any]:
    """Options of a verb in the working folder, with the files that they name."""
    tiny("bert").save("m")
    if verb.startswith("relations"):
        rows = embedded_file("relations").read_text().splitlines(keepends=True)
        Path("triples.jsonl").write_text("".join(rows[:16]))
        Path("more.jsonl").write_text("".join(rows[16:24]))
    if verb == "relations score":
        attlas.run(attlas.FitRelations(**OPTIONS["relations fit"], model="m"), "fitted", progress=False)
    return {**OPTIONS[verb], "model": "m"}


@EACH
def test_the_verbs_folder_is_the_functions_and_the_other_way_round(
    verb: str, tmp_path: Path, attlas_command: Run
) -> None:
    options = options_of(verb)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    said = attlas_command(*verb.split(), *flags, "--out", "shell", "--no-report", "--json")
    assert said.returncode == 0, said.stderr
    printed = json.loads(said.stdout, parse_constant=_refuse)
    assert set(printed) >= KEYS[verb]
    experiment = VERBS[verb](**options)
    opened = attlas.run(experiment, "shell", progress=False)
    made = attlas.run(experiment, "python", progress=False)
    assert opened.manifest["seconds"] != made.manifest["seconds"] or opened.result == made.result
    assert opened.manifest["identity"] == made.manifest["identity"]
    assert {name: printed[name] for name in opened.result} == opened.result == made.result
    before = Path("python/manifest.json").read_bytes()
    again = attlas_command(*verb.split(), *flags, "--out", "python", "--no-report", "--json")
    assert json.loads(again.stdout)["study"] == "python"
    assert Path("python/manifest.json").read_bytes() == before
    assert Path("shell/log.txt").read_text().startswith("# what attlas did here")


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if "seed" in declared(VERBS[verb])])
def test_a_value_outside_its_domain_is_the_same_line_in_both(verb: str, attlas_command: Run) -> None:
    said = attlas_command(*verb.split(), "--train", "embedded:sentences", "--seed=-1")
    assert (said.returncode, said.stdout) == (2, "")
    with pytest.raises(attlas.support.errors.AttlasError) as caught:
        VERBS[verb](train="embedded:sentences", seed=-1)
    assert said.stderr == f"attlas: {caught.value}\n"
