"""attlas study and look; the other verbs have files of their own."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attlas import __version__
from attlas.cli.app import (
    FORCE_HELP,
    FRESH_HELP,
    JSON_HELP,
    REPORT_HELP,
    app,
    log_step,
    print_experiment,
    print_json,
    print_next,
    print_study,
    report_page,
    status,
)
from attlas.cli.verbs import add_command
from attlas.groups.experiment import check_groups
from attlas.models.sources import check_model
from attlas.support.errors import AttlasError
from attlas.support.fingerprint import fingerprint
from attlas.support.heads import layer_and_head
from attlas.support.options import (
    MODEL_HELP,
    check_fields,
    declared,
    device_opening,
    dtype_opening,
    given,
    global_tokens_opening,
    lens_opening,
    max_length_opening,
    option,
    pickle_opening,
    until_option,
    workers_option,
)
from attlas.support.outputs import CHARTS, PAGE, PICTURES, check_output

if TYPE_CHECKING:
    from attlas.corpora import Corpus
    from attlas.models import Model
    from attlas.studies.opened import Study


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _app(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@dataclass(frozen=True, kw_only=True)
class StudyCommand:
    """Run measures over a corpus: tables, a manifest and a report.

    Interrupted runs resume when the command is repeated.
    """

    data: str = given(
        "File (.csv, .tsv, .jsonl, .parquet, .conllu or .txt, also .gz), folder of .txt files, "
        "hub:NAME, synthetic:..., or embedded:NAME (all, acceptability, messages, reviews, ...)."
    )
    model: str | None = given(MODEL_HELP, None)
    measures: str = option(
        "all",
        "Comma-separated measures, or all (but those that need further forward passes); parameters "
        "in parentheses: topk(k=5,keep=words).",
    )
    by: str | None = option(
        None,
        "Compare groups of texts by label, by prediction (right and wrong) or by a column; only "
        "numbers with a standard error are compared (surface, entropy, ...).",
    )
    out: Path | None = option(None, "Folder for the results (default: runs/NAME).")
    text: str | None = option(None, "Column of the text.")
    label: str | None = option(None, "Column of the label.")
    id: str | None = option(None, "Column of the id (default: the row number).")
    split: str = option("train", "Split of a data set of the Hub.")
    engine: str = option("local", "Engine that runs the passes.", choices=("local",))
    workers: int | None = workers_option()
    until: float | None = until_option()
    max_length: int | None = max_length_opening()
    task: str = option(
        "auto",
        "Task of the model; auto: the one its weights were saved for.",
        choices=("auto", "base", "classify", "mlm", "lm"),
    )
    global_tokens: str | None = global_tokens_opening()
    long: str = option(
        "truncate",
        "Texts beyond the model's maximum length: truncate and count them, or stop (error).",
        choices=("truncate", "error"),
    )
    bad: str = option(
        "quarantine",
        "Invalid rows: skip them and log why (quarantine), or stop (error).",
        choices=("quarantine", "error"),
    )
    fresh: bool = option(False, FRESH_HELP)
    report: bool = option(True, REPORT_HELP)
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()
    as_json: bool = option(False, JSON_HELP, flags=("--json",))

    def __post_init__(self) -> None:
        check_fields(self)
        check_groups(self.by, self.until)

    def run(self) -> None:
        check_model(self.model)
        if self.by is not None:
            self._compare(self.by)
            return
        folder = self.out or Path("runs") / self._name
        result = self._finished(folder) or self._study(folder)
        page = report_page(result) if self.report else None
        print_study(result, page, self.as_json)

    def _finished(self, folder: Path) -> Study | None:
        """The finished result of the same files and options, found without loading a model."""
        from attlas.studies.named import COMMAND, finished_result, finished_study

        named = None if self.fresh else self._named()
        if named is None:
            return None
        if self.by is None:
            return finished_study(folder, named)
        from attlas.experiments.run import source_of
        from attlas.groups.experiment import Groups

        return finished_result(
            folder, Groups.name, {COMMAND: fingerprint(named)}, source_of(Groups)
        )

    def _study(self, folder: Path) -> Study:
        texts = self._texts()
        with status("loading the model"):
            from attlas.catalogue import measures_of
            from attlas.studies.run import study

            model = self._load()
        names = ("engine", "workers", "long", "bad", "fresh", "until")
        how = {name: getattr(self, name) for name in names}
        chosen = measures_of(self.measures)
        return study(model, texts, chosen, folder, named=self._named, **how)

    def _named(self) -> dict[str, str] | None:
        """What the command names; None for what is not made of local files, or of our own code."""
        from attlas.catalogue import has_plug_ins
        from attlas.corpora.sources import files_of
        from attlas.models.sources import folder_of
        from attlas.studies.named import named_files

        data, model = files_of(self.data), folder_of(self.model)
        if data is None or model is None or has_plug_ins() or not all(map(os.path.exists, data)):
            return None
        texts = {name: getattr(self, name) for name in ("text", "label", "id", "split")}
        opened = ("task", "max_length", "global_tokens", "allow_pickle", "device", "dtype", "lens")
        options = [getattr(self, name) for name in ("measures", "long", "bad", "until", "by")]
        return {
            "corpus": named_files(self.data, data, texts),
            "model": named_files(
                self.model, [model], {name: getattr(self, name) for name in opened}, is_model=True
            ),
            "options": fingerprint(options),
        }

    def _command(self) -> str | None:
        """The fingerprint of what the command names, if that can be known."""
        named = self._named()
        return None if named is None else fingerprint(named)

    def _compare(self, by: str) -> None:
        """Open or run the experiment that compares groups of texts."""
        folder = self.out or Path("runs") / f"{self._name}-by-{by}"
        result = self._finished(folder) or self._groups(folder)
        print_experiment(result, self.report, self.as_json)

    def _groups(self, folder: Path) -> Study:
        from attlas.experiments.run import run
        from attlas.groups.experiment import Groups

        names = [one for one in declared(Groups) if one not in ("measures", "column", "seed")]
        groups = Groups(**{name: getattr(self, name) for name in names})
        self._texts(groups.column)
        with status("reading the options"):
            from attlas.catalogue import measures_of

            groups = replace(groups, measures=measures_of(self.measures))
        how = {name: getattr(self, name) for name in ("engine", "workers", "fresh")}
        return run(groups, folder, **how, log=log_step, named=self._command)

    def _texts(self, column: str | None = None) -> Corpus:
        """Open the corpus; unknown measures and columns are refused before a model is loaded."""
        from attlas.catalogue import MEASURES
        from attlas.corpora.read import check_first_row, read
        from attlas.corpora.sources import SYNTHETIC
        from attlas.measures.parse import parse_names

        for name, _ in [] if self.measures.strip() == "all" else parse_names(self.measures):
            MEASURES.question(name)
        names = {name: getattr(self, name) for name in ("text", "label", "id", "split")}
        texts = read(self.data, column=column, **names)
        if not self.data.startswith(("hub:", SYNTHETIC)):
            check_first_row(texts)
        return texts

    def _load(self) -> Model:
        from attlas.models import load

        return load(
            self.model,
            task=self.task,
            max_length=self.max_length,
            allow_pickle=self.allow_pickle,
            global_tokens=self.global_tokens,
            device=self.device,
            dtype=self.dtype,
            lens=self.lens,
        )

    @property
    def _name(self) -> str:
        return Path(self.data.split(":")[-1]).name.strip(".").split(".")[0] or "study"


@dataclass(frozen=True, kw_only=True)
class LookCommand:
    """Show the attention of one text, short or long: tokens shaded by attention received."""

    text: str | None = option(None, "The text; or give --file.", flags=("TEXT",))
    file: Path | None = option(None, "File with the text; - for standard input.")
    model: str | None = given(MODEL_HELP, None)
    layer: int | None = option(
        None, "One layer, from 0 (default: the mean of all).", at_least=0, at_most=9_999
    )
    head: str | None = option(
        None, "One head, from 0 (default: the mean of all), or with its layer, such as L2H10."
    )
    importance: Path | None = option(
        None, "Result folder of a study with the measure importance: weight heads by it."
    )
    html: Path | None = option(
        None, "Also write an interactive page; .svg, .png or .pdf for a picture."
    )
    heads: Path | None = option(
        None, "Also write a picture of every head: .svg, .png, .pdf or .html."
    )
    matrix: str | None = option(
        None, "Heads whose weights the page shows as matrices, such as L2H8,L0H2."
    )
    matrix_tokens: int = option(
        1_024, "Tokens of a matrix: the first ones of the text.", at_least=1, at_most=4_096
    )
    open_page: bool = option(
        False, "Open the text in the browser, on the workbench.", flags=("--open",)
    )
    global_tokens: str | None = global_tokens_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()
    force: bool = option(False, FORCE_HELP)
    as_json: bool = option(False, JSON_HELP, flags=("--json",))

    def __post_init__(self) -> None:
        check_fields(self)

    def run(self) -> None:
        layer, head = layer_and_head(self.layer, self.head)
        check_model(self.model)
        text = _text_of(self.text, self.file)
        _check_outputs(self.html, self.heads, self.force)
        if self.matrix is not None and (self.html is None or self.html.suffix != PAGE):
            raise AttlasError("--matrix needs a page: give --html PAGE.html")
        if self.importance is not None and not self.importance.is_dir():
            raise AttlasError(
                f"there is no study folder {self.importance}; give one with the measure importance"
            )
        with status("loading the model"):
            from attlas.api import attention
            from attlas.models import load

            model = load(
                self.model,
                allow_pickle=self.allow_pickle,
                global_tokens=self.global_tokens,
                device=self.device,
                dtype=self.dtype,
                lens=self.lens,
            )
        with status("reading attention"):
            seen = attention(
                model,
                text,
                self.importance,
                matrix=self.matrix or (),
                matrix_tokens=self.matrix_tokens,
            )
        seen.numbers.check(layer, head)
        self._write(seen, layer, head)
        if self.open_page:
            from attlas.cli.serve import DEFAULT, Served, serve_folders

            served = Served(models=[model.name], opener=lambda _: model, text=text)
            folders = [DEFAULT] if DEFAULT.is_dir() else []
            serve_folders(folders, served, port=0, open_page=True)

    def _write(self, seen: Any, layer: int | None, head: int | None) -> None:
        from attlas.views import charts
        from attlas.views.terminal_text import print_look

        if self.html is not None:
            seen.write(self.html, layer, head, force=self.force)
        if self.heads is not None:
            charts.export(seen.pictures(), self.heads, force=self.force)
        written = {"html": self.html, "heads": self.heads}
        if self.as_json:
            paths = {name: str(path) if path else None for name, path in written.items()}
            print_json({**seen.to_dict(), **paths})
            return
        print_look(seen.numbers, layer, head, self.importance is not None)
        for name, path in (("page", self.html), ("heads", self.heads)):
            if path is not None:
                print(f"{name:9} {path}")
        if seen.matrices and len(seen.tokens) > self.matrix_tokens:
            print(
                f"matrix    the first {self.matrix_tokens:,} of {len(seen.tokens):,} tokens "
                "(--matrix-tokens, at most 4,096)"
            )
        print_next("attlas study --data TEXTS.csv --out runs/mine")


add_command(app, "study", StudyCommand)
add_command(app, "look", LookCommand)


def _text_of(text: str | None, file: Path | None) -> str:
    """Return the given text, or that of a file; it must not be empty."""
    if text is not None and file is not None:
        raise AttlasError("give a text or --file, not both")
    if file is not None:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AttlasError(f"{file} cannot be read as a text: {error}") from error
    if text is None or not text.strip():
        what = "no text was given" if text is None else f"{file or 'the text'} is empty"
        raise AttlasError(f"{what}; give a text to look at, or a file with --file")
    return text


def _check_outputs(html: Path | None, heads: Path | None, force: bool) -> None:
    """Refuse files that cannot be written, before a model is loaded."""
    if html is not None:
        check_output(html, (PAGE, *PICTURES), force)
    if heads is not None:
        check_output(heads, CHARTS, force)
    if html is not None and html == heads:
        raise AttlasError(f"--html and --heads both name {html}; give two files")
