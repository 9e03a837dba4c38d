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
from collections.abc import Callable, Iterator, Mapping
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
import sys, time
from attlas.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code or 0
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(code, round(time.process_time(), 2), *heavy, file=sys.stderr)
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


def command(folder: Path, *arguments: str) -> CommandResult:
    """Run the command line in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "400", "HF_HUB_OFFLINE": "1"},
    )
    *lines, last = process.stderr.rstrip("\n").split("\n")
    code, seconds, *heavy = last.split()
    error = "".join(f"{line}\n" for line in lines)
    return CommandResult(int(code), process.stdout, error, float(seconds), tuple(heavy))


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
        result = command(Path(folder), *case.verb.split(), "--help")
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
        for option, value in case.wrong.items():
            words = [*case.verb.split(), *flags(case, **{option: value}), "--out", "out"]
            result = command(folder, *words)
            assert (result.code, result.out) == (2, ""), result
            assert not result.heavy, result.heavy
            assert result.error == f"attlas: {refusal(case, **{option: value})}\n"
        files = [one for one in case.options if _is_file(case, one)]
        for one in files:
            words = [*case.verb.split(), *flags(case, **{one: "no/such.file"}), "--out", "out"]
            result = command(folder, *words)
            assert (result.code, result.out) == (2, ""), result
            assert "no/such.file" in result.error
            assert result.error.count("\n") == 1, result.error
            assert not result.heavy, result.heavy
            assert result.seconds < 1.5


def check_wrong_columns_are_light_and_one_line(case: VerbCase) -> None:
    """Law 16: a column that is not there is refused before a model library is imported."""
    columns = [name for name in ("text", "label") if name in declared(case.experiment)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts.csv").write_text("text,label\na cat,1\na dog,0\n")
        texts = [one for one, about in declared(case.experiment).items() if _is_texts(about)]
        for column in columns:
            files = {one: "texts.csv" for one in texts if one in case.options}
            words = flags(case, **files, **{column: "nothing"})
            result = command(folder, *case.verb.split(), *words, "--out", "out")
            assert (result.code, result.out) == (2, ""), result
            assert "has no column 'nothing'; its columns are text, label" in result.error
            assert result.error.count("\n") == 1, result.error
            assert not {*result.heavy} - {"numpy"}, result.heavy
            assert result.seconds < 1.5


def check_the_verbs_folder_is_the_functions(case: VerbCase) -> None:
    """Laws 15, 18: one opens what the other made; `--json` is strict and agrees with the result."""
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


def flags(case: VerbCase, **changes: Any) -> list[str]:
    """Options as a user types them."""
    out = []
    for name, value in {**case.options, **changes}.items():
        first = (declared(case.experiment)[name].flags or (f"--{name.replace('_', '-')}",))[0]
        flag, _, negated = first.partition("/")
        if isinstance(value, bool):
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
