"""The app, the options that verbs share, and how results are printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attlas.support.options import MODEL_HELP, WORKERS, Option, checked, help_of

if TYPE_CHECKING:
    from attlas.studies import Study

app = typer.Typer(
    name="attlas",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="An atlas of attention: what the heads of a transformer do over a corpus, "
    "with a control for every number.",
)


def whole(flag: str, domain: Option) -> Any:
    """Declare an optional whole number.

    Its domain is in its help and is checked before anything is imported.
    """
    name = flag.removeprefix("--").replace("-", "_")

    def check(value: Any) -> Any:
        return checked(name, value, int | None, domain)

    return typer.Option(flag, help=help_of(domain), callback=check)


EXCLUDED = {"quarantined": "rows were excluded", "unexplained": "texts could not be explained"}
NEXT = {  # after an experiment, by its kind
    "finetune": "attlas explain --model {folder} --data TEXTS.csv",
    "lengthen": "attlas look --file TEXT.txt --model {folder} --html look.html",
    "relations": 'attlas relations extract --extractor {folder} "TEXT"',
}
JSON_HELP = "Print JSON instead of text."
FORCE_HELP = "Overwrite files that already exist."
FRESH_HELP = "Delete the results of an earlier run in this folder."
REPORT_HELP = "Also write report.html into the folder."
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
ModelOption = Annotated[str | None, typer.Option("--model", help=MODEL_HELP)]
Workers = Annotated[int | None, whole("--workers", WORKERS)]
Fresh = Annotated[bool, typer.Option("--fresh", help=FRESH_HELP)]


def listed(names: str) -> list[str]:
    """Split a comma-separated list."""
    return [name.strip() for name in names.split(",") if name.strip()]


def status(what: str) -> Any:
    """Show what is being done while it lasts; nothing where there is no terminal."""
    from attlas.support.progress import status as shown

    return shown(what)


def log_step(line: str) -> None:
    """Print the name of a step on standard error."""
    print(line, file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """Print JSON on standard output."""
    from attlas.support.json import to_json

    print(json.dumps(to_json(content), ensure_ascii=False, indent=2, allow_nan=False))


def print_next(command: str) -> None:
    """Print the last line of a verb: what to run next."""
    print(f"next      {command}")


def print_study(study: Study, page: Path | None, as_json: bool, next_command: str = "") -> None:
    """Print what a study found, its folder and its report, and what was excluded."""
    from attlas.cli.summary import summary_of

    summary = summary_of(study)
    if as_json:
        print_json(
            {
                "study": str(study.folder),
                "report": str(page) if page else None,
                "counts": study.manifest["counts"],
                "tables": study.manifest["tables"],
                "seconds": study.manifest["seconds"],
                "model": study.manifest["model"],
                "warnings": summary.warnings,
                "findings": summary.findings,
            }
        )
        return
    from attlas.views.terminal import print_findings

    for name, value in summary.facts:
        print(f"{name:9} {value}")
    print()
    print_findings(summary)
    _print_end(study, page, next_command)


def print_experiment(study: Study, report: bool, as_json: bool) -> None:
    """Print what an experiment found, write its report if wanted, and say where both are."""
    page = report_page(study) if report and study.tables else None
    model = {"model": str(study.folder)} if "config.json" in study.manifest["files"] else {}
    if as_json:
        where = {"study": str(study.folder), "report": str(page) if page else None}
        print_json({**model, **study.result, **where})
        return
    if study.tables:
        from attlas.cli.summary import summary_of
        from attlas.views.terminal import print_findings, print_table

        summary = summary_of(study)
        for table in summary.tables:
            print_table(table)
        print_findings(summary)
    _print_end(study, page, NEXT.get(study.manifest["kind"], ""))


def _print_end(study: Study, page: Path | None, next_command: str) -> None:
    """Print the folder, the page, the next command, and how many rows were excluded."""
    is_model = "config.json" in study.manifest.get("files", {})
    print(f"{'model' if is_model else 'folder':9} {study.folder}")
    if page:
        print(f"report    {page}")
    usual = "attlas report {folder}" + (" --charts pictures" if page else "")
    print_next((next_command or usual).replace("{folder}", str(study.folder)))
    counts = study.manifest["counts"]
    for name, what in EXCLUDED.items() if study.quarantine.is_file() else ():
        if counts.get(name):
            print(f"attlas: {counts[name]} {what}; see {study.quarantine}", file=sys.stderr)


def report_page(study: Study) -> Path:
    """Return the page of a result, which is written unless it is of this result and this code."""
    from attlas.catalogue import has_plug_ins
    from attlas.studies.folder import REPORT
    from attlas.support.outputs import is_our_page
    from attlas.views.summary import made_from

    page = study.folder / REPORT
    if not has_plug_ins() and is_our_page(page, made_from(study)):
        return page
    with status("writing the report"):
        return study.report(page)
