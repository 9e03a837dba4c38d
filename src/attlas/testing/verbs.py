"""The laws that every verb keeps: it is its experiment, result on a command line."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attlas.cli import main
from attlas.cli.verbs import HOW, verb_of
from attlas.experiments.experiment import Experiment
from attlas.experiments.run import run
from attlas.support.errors import AttlasError
from attlas.support.options import TEXTS, Given, Opening, Option, declared, help_of

HEAVY = ("torch", "transformers", "numpy", "pandas")
RUN = f"""
import contextlib, io, json, sys, time
printed, before = [], 0.0
from attlas.cli import main
for words in json.loads(sys.argv[1]):
    out, error, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["attlas", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    seconds = time.process_time() - before
    printed.append([code, out.getvalue(), error.getvalue(), seconds, heavy])
    before += seconds
print(json.dumps(printed))
"""


@dataclass(frozen=True)
class VerbCase:
    """A verb with cheap options, as a user types them, and the JSON keys that others rely on."""

    verb: str
    experiment: type[Experiment]
    options: Mapping[str, Any]  # by field; files are relative to the folder that `prepare` fills
    prepare: Callable[[Path], object] = lambda folder: None
    keys: frozenset[str] = field(default_factory=frozenset)
    wrong: Mapping[str, Any] = field(default_factory=dict)  # one option outside its domain


@dataclass(frozen=True)
class CommandResult:
    """What a command printed and did."""

    code: int
    out: str
    error: str
    seconds: float  # of processor time
    heavy: tuple[str, ...]  # heavy modules that it imported


def commands(folder: Path, *lines: Sequence[str]) -> list[CommandResult]:
    """Run command lines one after the other, in a process of their own.

    What is heavy in one counts for those after it; the first pays for the imports.
    """
    if not lines:
        return []
    process = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(lines)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "400", "HF_HUB_OFFLINE": "1"},
    )
    assert process.returncode == 0, process.stderr
    return [
        CommandResult(code, out, error, seconds, tuple(heavy))
        for code, out, error, seconds, heavy in json.loads(process.stdout)
    ]


def verb_checks(case: VerbCase) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each law with its name, to be run one by one."""
    laws = (
        check_options_are_the_fields,
        check_help_is_light_and_says_every_domain,
        check_mistakes_are_light_and_one_line,
        check_wrong_columns_are_light_and_one_line,
        check_the_verbs_folder_is_the_functions,
    )
    for law in laws:
        yield law.__name__.removeprefix("check_"), partial(law, case)


def check_options_are_the_fields(case: VerbCase) -> None:
    """Law 15: the same names, defaults and help."""
    signature = inspect.signature(verb_of(case.experiment))
    fields = {one.name: one for one in dataclasses.fields(case.experiment)}
    assert set(signature.parameters) == {*fields, *HOW, "out"}
    for name, one in fields.items():
        parameter = signature.parameters[name]
        required = one.default is dataclasses.MISSING
        assert (parameter.default is inspect.Parameter.empty) == required, name
        if not required:
            given = one.default
            typed = ",".join(map(str, given)) if isinstance(given, tuple) else given
            assert parameter.default == typed, name
        about = declared(case.experiment)[name]
        assert parameter.annotation.__metadata__[0].help == help_of(about), name


def check_help_is_light_and_says_every_domain(case: VerbCase) -> None:
    """Law 16: without torch, numpy or pandas; every option with its help and its domain."""
    with TemporaryDirectory() as folder:
        (result,) = commands(Path(folder), [*case.verb.split(), "--help"])
    assert result.code == 0, result.error
    assert not result.heavy, result.heavy
    words = " ".join(result.out.split())
    for name, about in declared(case.experiment).items():
        for flag in about.flags or (f"--{name.replace('_', '-')}",):
            assert flag.split("/")[0] in words, flag
        assert " ".join(help_of(about).split()) in words, name


def check_mistakes_are_light_and_one_line(case: VerbCase) -> None:
    """Laws 16, 17: exit code 2 and one line, before anything heavy; Python says the same."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        case.prepare(folder)
        wrong = [{option: value} for option, value in case.wrong.items()]
        missing = [{one: "no/such.file"} for one in case.options if _is_file(case, one)]
        verb = case.verb.split()
        lines = [[*verb, *flags(case, **one), "--out", "out"] for one in [*wrong, *missing]]
        results = commands(folder, *lines)
        for result in results:
            assert (result.code, result.out) == (2, ""), result
            assert not result.heavy, result.heavy
            assert result.seconds < 1.5
        for one, result in zip(wrong, results, strict=False):
            assert result.error == f"attlas: {refusal(case, **one)}\n"
        for result in results[len(wrong) :]:
            assert "no/such.file" in result.error
            assert result.error.count("\n") == 1, result.error
        none = [
            [*verb, *flags(case, **{one: "./no/model"}), "--out", "out"] for one in _models(case)
        ]
        for result in commands(folder, *none):
            assert (result.code, result.out) == (2, ""), result
            assert result.error.startswith("attlas: there is no folder no/model"), result.error
            assert result.error.count("\n") == 1, result.error
            assert not {*result.heavy} & {"torch", "transformers"}, result.heavy
            assert result.seconds < 1.5


def check_wrong_columns_are_light_and_one_line(case: VerbCase) -> None:
    """Law 16: a column that is not there is refused before a model library is imported."""
    columns = [name for name in ("text", "label") if name in declared(case.experiment)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        case.prepare(folder)
        (folder / "texts.csv").write_text("text,label\na cat,1\na dog,0\n")
        texts = [one for one, about in declared(case.experiment).items() if _is_texts(about)]
        files = {one: "texts.csv" for one in texts if one in case.options}
        lines = [flags(case, **files, **{column: "nothing"}) for column in columns]
        for result in commands(
            folder, *([*case.verb.split(), *one, "--out", "out"] for one in lines)
        ):
            assert (result.code, result.out) == (2, ""), result
            assert "has no column 'nothing'; its columns are text, label" in result.error
            assert result.error.count("\n") == 1, result.error
            assert not {*result.heavy} - {"numpy"}, result.heavy
            assert result.seconds < 1.5


def check_the_verbs_folder_is_the_functions(case: VerbCase) -> None:
    """Laws 6, 15, 18: one opens what the other made; `--json` is strict and agrees with the result.

    A new process opens it in a second of processor time, without a library of models.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        case.prepare(folder)
        words = [*case.verb.split(), *flags(case), "--no-report", "--json", "--out", "shell"]
        with contextlib.chdir(folder):
            printed = json.loads(_printed(*words), parse_constant=_refuse)
            assert set(printed) >= case.keys, case.keys - set(printed)
            manifest = Path("shell/manifest.json").read_bytes()
            opened = run(case.experiment(**case.options), "shell", progress=False)
            assert Path("shell/manifest.json").read_bytes() == manifest, "it was run again"
            assert {key: printed.get(key) for key in opened.result} == opened.result
            assert json.loads(_printed(*words)) == printed
            assert Path("shell/manifest.json").read_bytes() == manifest
        (opened_again,) = commands(folder, words)
        assert json.loads(opened_again.out) == printed
        assert not {*opened_again.heavy} & {"torch", "transformers"}, opened_again.heavy
        assert opened_again.seconds < 1


def _printed(*arguments: str) -> str:
    """What a command prints, run in this process, where everything is imported already."""
    out, error, before, code = io.StringIO(), io.StringIO(), sys.argv, None
    sys.argv = ["attlas", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    assert not code, error.getvalue()
    return out.getvalue()


def _models(case: VerbCase) -> list[str]:
    """The fields that are a model and nothing else."""
    every = declared(case.experiment).items()
    return [name for name, about in every if isinstance(about, Given) and about.is_model]


def flags(case: VerbCase, **changes: Any) -> list[str]:
    """Options as a user types them."""
    out = []
    for name, value in {**case.options, **changes}.items():
        first = (declared(case.experiment)[name].flags or (f"--{name.replace('_', '-')}",))[0]
        flag, _, negated = first.partition("/")
        if flag == name.upper():  # arguments
            out += value if isinstance(value, list) else [value]
        elif isinstance(value, bool):
            out.append(flag if value else negated or f"--no-{flag[2:]}")
        elif isinstance(value, tuple | list):
            out.append(f"{flag}={','.join(map(str, value))}")
        else:
            out.append(f"{flag}={value}")
    return out


def refusal(case: VerbCase, **changes: Any) -> str:
    """The error of Python for the same mistake."""
    try:
        case.experiment(**{**case.options, **changes})
    except AttlasError as error:
        return str(error)
    raise AssertionError(f"{changes} is not refused")


def _is_file(case: VerbCase, name: str) -> bool:
    about = declared(case.experiment)[name]
    return not isinstance(about, Option | Opening) and not about.is_model


def _is_texts(about: Given | Option) -> bool:
    return isinstance(about, Given) and about.of == TEXTS


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
