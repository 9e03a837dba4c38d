"""The command line's own: the app, the options that verbs share, how they print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attlas.support.options import MAX_LENGTH, WORKERS, Option, checked, help_of

if TYPE_CHECKING:
    from attlas.studies import Study

app = typer.Typer(
    name="attlas",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="An atlas of attention: what the heads of a transformer do over a corpus, always with a control beside the number.",
)


def _checking(flag: str, domain: Option, kind: Any) -> Any:
    """An option with its domain in help and error, which is checked before anything is imported."""
    name = flag.removeprefix("--").replace("-", "_")

    def check(value: Any) -> Any:
        return checked(name, value, kind, domain)

    return typer.Option(flag, help=help_of(domain), callback=check)


def whole(flag: str, domain: Option) -> Any:
    """An option that is a whole number, or not given."""
    return _checking(flag, domain, int | None)


def choice(flag: str, domain: Option) -> Any:
    """An option that is one of some words."""
    return _checking(flag, domain, str)


EXCLUDED = {"quarantined": "rows were left out", "unexplained": "texts could not be explained"}
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", help="A folder, a hub id, embedded:long, or nothing for the embedded model."
    ),
]
GlobalTokens = Annotated[
    str | None,
    typer.Option(
        "--global-tokens",
        help="Which tokens of a Longformer see all: first, special, none, or places such as 0,5.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder for the study.")]
Pickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Also read pickled weights, which can run code: only if you trust them.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that already exist.")]
Workers = Annotated[int | None, whole("--workers", WORKERS)]
TextColumn = Annotated[str | None, typer.Option("--text", help="The column of the text.")]
AnyLabelColumn = Annotated[str | None, typer.Option("--label", help="The column of the label.")]
LabelColumn = Annotated[str, typer.Option("--label", help="The column of the label.")]
MaxLength = Annotated[int | None, whole("--max-length", MAX_LENGTH)]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Also write report.html into the folder.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Throw away what another run left in the folder.")
]


def listed(names: str) -> list[str]:
    """Names from a list with commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def status(what: str) -> Any:
    """A line that says what is going on while it goes on; nothing where there is no terminal."""
    from attlas.support.progress import status as shown

    return shown(what)


def begun(line: str) -> None:
    """Say on standard error what is begun."""
    print(line, file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """JSON on standard output."""
    from attlas.support.json import to_json

    print(json.dumps(to_json(content), ensure_ascii=False, indent=2, allow_nan=False))


def say_study(done: Study, page: Path | None, as_json: bool) -> None:
    """What a study found, where its tables and its report are, and how many rows were left out."""
    from attlas.catalogue import sections
    from attlas.views.findings import facts, findings

    if as_json:
        print_json(
            {
                "study": str(done.folder),
                "report": str(page) if page else None,
                "counts": done.manifest["counts"],
                "tables": done.manifest["tables"],
                "seconds": done.manifest["seconds"],
                "model": done.manifest["model"],
                "findings": findings(done, sections()),
            }
        )
        return
    for name, value in facts(done, sections()):
        print(f"{name:9} {value}")
    print()
    for line in findings(done, sections()):
        print(f"- {line}")
    print()
    print(f"tables    {done.folder / 'tables'} ({', '.join(done.manifest['tables'])})")
    if page:
        print(f"report    {page}")
    _say_excluded(done)


def _say_excluded(done: Study) -> None:
    """How many rows and texts were excluded, and where each has its reason."""
    counts = done.manifest["counts"]
    for name, what in EXCLUDED.items() if done.quarantine.is_file() else ():
        if counts.get(name):
            print(f"attlas: {counts[name]} {what}; see {done.quarantine}", file=sys.stderr)


def say_experiment(done: Study, report: bool, as_json: bool) -> None:
    """What an experiment found, with its report if wanted, and where its tables and model are."""
    page = _report(done) if report and done.tables else None
    model = {"model": str(done.folder)} if "config.json" in done.manifest["files"] else {}
    if as_json:
        where = {"study": str(done.folder), "report": str(page) if page else None}
        print_json({**model, **done.result, **where})
        return
    if done.tables:
        _say_findings(done)
    if page:
        print(f"report    {page}")
    for name, folder in model.items():
        print(f"{name:9} {folder}")
    _say_excluded(done)


def _say_findings(done: Study) -> None:
    """What stands out in the tables of an experiment, and where they are."""
    from attlas.catalogue import sections
    from attlas.views.findings import findings
    from attlas.views.terminal import print_tables

    print_tables(done, sections())
    for line in findings(done, sections()):
        print(f"- {line}")
    print()
    print(f"tables    {done.folder / 'tables'} ({', '.join(done.tables)})")


def _report(done: Study) -> Path:
    """The page of a result in its folder; one that is newer than the result is taken as it is."""
    from attlas.studies.folder import MANIFEST, REPORT
    from attlas.support.outputs import is_our_page

    page, manifest = done.folder / REPORT, done.folder / MANIFEST
    if is_our_page(page) and page.stat().st_mtime_ns >= manifest.stat().st_mtime_ns:
        return page
    with status("writing the report"):
        return done.report(page)
