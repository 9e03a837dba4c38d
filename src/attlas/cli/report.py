"""attlas report and measures."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attlas.cli.app import FORCE_HELP, JSON_HELP, Json, app, print_json, print_next, status
from attlas.cli.verbs import add_command
from attlas.support.errors import AttlasError
from attlas.support.heads import parse_head
from attlas.support.options import check_fields, option
from attlas.support.outputs import FORMAT, PAGE, check_output

if TYPE_CHECKING:
    from attlas.studies.opened import Study

_FOLDERS = inspect.Parameter(
    "folders",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Result folders of one model, for one page."),
    ],
)


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Write the report of one or more results: one page that opens offline, charts and tables."""

    out: Path | None = option(None, "File for the page (default: DIR/report.html).")
    charts: Path | None = option(None, "Also write every chart into this folder.")
    format: str = option("svg", FORMAT.help, choices=FORMAT.choices)
    tables: Path | None = option(
        None, "Also write every table into this folder, as LaTeX (booktabs) and CSV."
    )
    head: str | None = option(None, "Only print what is known of one head, such as L2H10.")
    methods: bool = option(False, "Only print a methods paragraph and its BibTeX.")
    force: bool = option(False, FORCE_HELP)
    as_json: bool = option(False, JSON_HELP, flags=("--json",))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.head is not None:
            parse_head(self.head)  # refused before a folder is read
        prints = [name for name in ("head", "methods") if getattr(self, name)]
        writes = [name for name in ("out", "charts", "tables") if getattr(self, name) is not None]
        if prints and len(prints + writes) > 1:
            others = ", ".join(f"--{name}" for name in (prints + writes)[1:])
            raise AttlasError(f"--{prints[0]} prints and writes no page; omit {others}")

    def run(self, folders: list[Path]) -> None:
        if self.head is not None:
            self._print_head(folders, self.head)
        elif self.methods:
            self._print_methods(folders)
        else:
            self._write(folders)

    def _write(self, folders: list[Path]) -> None:
        for path in (self.charts, self.tables):
            if path is not None:
                _refuse_parts_of_results(path, folders)
        if self.out is not None and not self.out.is_dir():
            check_output(self.out, [PAGE], self.force)
        with status("writing the report"):
            opened = _opened(folders)
            from attlas.catalogue import sections
            from attlas.views.report import write_charts, write_tables

            page = opened.report(self.out or folders[0] / "report.html", force=self.force)
            charts, tables = [], []
            if self.charts is not None:
                charts = write_charts(
                    opened, sections(), self.charts, self.format, force=self.force
                )
            if self.tables is not None:
                tables = write_tables(opened, sections(), self.tables, force=self.force)
        if self.as_json:
            files = {"charts": charts, "tables": tables}
            paths = {name: [str(path) for path in some] for name, some in files.items()}
            print_json({"report": str(page), **paths})
            return
        for path in [page, *charts, *tables]:
            print(path)
        more = "" if charts else f" (charts: attlas report {folders[0]} --charts pictures)"
        print_next(f"open {page} in a browser{more}")

    def _print_head(self, folders: list[Path], name: str) -> None:
        with status("reading the results"):
            card = _opened(folders).head(name)
        if self.as_json:
            print_json(card.to_dict())
            return
        from attlas.views.terminal import print_card

        print_card(card)
        print_next(f"attlas report {folders[0]}")

    def _print_methods(self, folders: list[Path]) -> None:
        from attlas.studies.opened import Study

        texts = [Study.open(folder).methods() for folder in folders]
        if self.as_json:
            print_json({"methods": texts})
        else:
            print("\n".join(texts), end="")


def _refuse_parts_of_results(path: Path, folders: list[Path]) -> None:
    """Refuse to export to where a result has its own files: `fresh` would not clear what is new."""
    from attlas.studies.folder import FILES, PARTS, STATES, TABLES

    for folder in folders:
        for name in (TABLES, STATES, FILES, PARTS):
            if path.resolve().is_relative_to((folder / name).resolve()):
                raise AttlasError(
                    f"{path} is where {folder} has its own files; choose another folder, "
                    f"such as {folder.with_name(f'{folder.name}-exported')}"
                )


def _opened(folders: list[Path]) -> Study:
    """The results in these folders, with the parts of the first, for one report."""
    from attlas.studies.opened import Study

    return Study.open(folders[0]).with_parts().combined_with(*map(Study.open, folders[1:]))


add_command(app, "report", ReportCommand, _FOLDERS)


@app.command()
def measures(as_json: Json = False) -> None:
    """List the measures and the question each answers."""
    from attlas.catalogue import MEASURES

    if as_json:
        print_json([{"name": name, "question": MEASURES.question(name)} for name in MEASURES])
        return
    width = max(map(len, MEASURES))
    for name in MEASURES:
        print(f"{name:{width}}  {MEASURES.question(name)}")
    print_next("attlas study --data TEXTS.csv --measures surface,entropy --out runs/mine")
