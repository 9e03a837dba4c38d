"""A verb is made from the fields of its experiment: names, types, help, domains and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from attlas.cli.app import FRESH_HELP, JSON_HELP, REPORT_HELP, log_step, print_experiment
from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    STUDIES,
    WORKERS,
    Given,
    Option,
    declared,
    help_of,
    kinds_of,
    types_of,
)

HOW: dict[str, tuple[Any, Any, str, tuple[str, ...]]] = {  # the same for every verb
    "workers": (int | None, None, help_of(WORKERS), ("--workers",)),
    "fresh": (bool, False, FRESH_HELP, ("--fresh",)),
    "cache": (
        Path | None,
        None,
        "Folder for cached results, shared between experiments.",
        ("--cache",),
    ),
    "report": (bool, True, REPORT_HELP, ("--report/--no-report",)),
    "as_json": (bool, False, JSON_HELP, ("--json",)),
}


def add_verb(group: typer.Typer, name: str, experiment: type[Experiment]) -> None:
    """Add the verb of an experiment to a group of verbs."""
    group.command(name, help=inspect.getdoc(experiment))(verb_of(experiment))


def add_command(group: typer.Typer, name: str, record: type, *arguments: inspect.Parameter) -> None:
    """Add the verb of a dataclass of options; its method `run` does the work on the arguments."""

    def verb(**values: Any) -> None:
        given = [values.pop(one.name) for one in arguments]
        record(**values).run(*given)

    parameters = [*arguments, *_of_fields(record)]
    group.command(name, help=inspect.getdoc(record))(_with_options(verb, parameters))


def verb_of(experiment: type[Experiment]) -> Callable[..., None]:
    """Return the function behind a verb, with a signature that typer reads."""

    def verb(out: Path | None, **values: Any) -> None:
        from attlas.experiments.run import run

        how = {name: values.pop(name) for name in HOW}
        report, as_json = how.pop("report"), how.pop("as_json")
        made = experiment(**values)
        study = run(made, made.out_folder if out is None else out, **how, log=log_step)
        print_experiment(study, report, as_json)

    parameters = [*_of_fields(experiment), _out_of(experiment)]
    for name, (kind, default, help, flags) in HOW.items():
        option = typer.Option(*flags, help=help)
        parameters.append(_parameter(name, Annotated[kind, option], default))
    return _with_options(verb, parameters)


def _with_options(
    verb: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Give a function a signature, what is required first."""
    ordered = sorted(parameters, key=lambda one: one.default is not inspect.Parameter.empty)
    verb.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    verb.__annotations__ = {one.name: one.annotation for one in ordered}
    return verb


def _out_of(experiment: type[Experiment]) -> inspect.Parameter:
    """Declare the folder to write to; its default may name an input: `EXTRACTOR/scored`."""
    if not experiment.default_out:
        required = typer.Option("--out", help="Folder for the result.")
        return _parameter("out", Annotated[Path, required], inspect.Parameter.empty)
    named = {one.name: one.name.upper() for one in fields(experiment)}
    folder = experiment.default_out.format(**{**named, "name": experiment.name})
    help = f"Folder for the results (default: {folder})."
    option = typer.Option("--out", help=help, show_default=False)
    return _parameter("out", Annotated[Path | None, option], None)


def _of_fields(record: type) -> list[inspect.Parameter]:
    hints, out = types_of(record), []
    for one, about in zip(fields(record), declared(record).values(), strict=True):
        kind = _shell_type(about, hints[one.name], one.default)
        default = inspect.Parameter.empty if one.default is MISSING else shell_value(one.default)
        out.append(_parameter(one.name, Annotated[kind, _shell_option(one, about)], default))
    return out


def _shell_option(one: Field[Any], about: Given | Option) -> Any:
    """Declare an option, or an argument: a field whose flag is its name in capitals."""
    if about.flags == (one.name.upper(),):
        return typer.Argument(metavar=_metavar(about), help=help_of(about), show_default=False)
    flags = about.flags or (_flag(one.name, one.default),)
    return typer.Option(*flags, help=help_of(about))


def _metavar(about: Given | Option) -> str:
    """What an argument is called in the help; `...` if there may be several."""
    several = isinstance(about, Given) and about.of == STUDIES
    return about.flags[0] + ("..." if several else "")


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)


def _flag(name: str, default: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    return f"{flag}/--no-{flag[2:]}" if default is True else flag


def _shell_type(about: Given | Option, hint: Any, default: Any) -> Any:
    """Return the type on the command line: inputs, lists and unions are strings."""
    if isinstance(about, Given):
        one = list[str] if about.of == STUDIES else str
        return one if default is MISSING else one | None
    kinds = kinds_of(hint)
    plain = len(kinds) == 1 and get_origin(kinds[0]) is not tuple
    return hint if plain else str | None if default is None else str


def shell_value(default: Any) -> Any:
    """Write a default as on the command line: a list is one string."""
    return ",".join(map(str, default)) if isinstance(default, tuple) else default
