"""attlas study, look, report and measures; the other verbs have files of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attlas import __version__
from attlas.cli.app import (
    AnyLabelColumn,
    Force,
    GlobalTokens,
    Json,
    MaxLength,
    ModelOption,
    Out,
    Pickle,
    Report,
    TextColumn,
    Workers,
    app,
    choice,
    print_json,
    say_study,
    status,
    whole,
)
from attlas.support.errors import AttlasError
from attlas.support.options import Option
from attlas.support.outputs import CHARTS, FORMAT, PAGE, PICTURES, check_output

if TYPE_CHECKING:
    from attlas.studies import Study

ENGINE = Option("Where the work is done.", choices=("local",))
TASK = Option(
    "What the model does; auto is what its weights were saved for.",
    choices=("auto", "base", "classify", "mlm", "lm"),
)
LONG = Option(
    "Texts longer than the model: truncate and count them, or refuse them.",
    choices=("truncate", "error"),
)
BAD = Option(
    "Rows that are not texts: leave them out and say why, or refuse them.",
    choices=("quarantine", "error"),
)
LAYER = Option("One layer, from 0 (default: the mean of all).", at_least=0, at_most=9_999)
HEAD = Option("One head, from 0 (default: the mean of all).", at_least=0, at_most=9_999)


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


@app.command()
def study(
    data: Annotated[
        str,
        typer.Option(
            "--data",
            help="A .csv, .tsv, .jsonl, .parquet or .txt file (also .gz), a folder of .txt files, hub:NAME, or embedded:all.",
        ),
    ],
    model: ModelOption = None,
    measures: Annotated[
        str,
        typer.Option(
            "--measures",
            help="Names with commas, or all; parameters in brackets: topk(k=5,keep=words).",
        ),
    ] = "all",
    out: Out = None,
    text: TextColumn = None,
    label: AnyLabelColumn = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="The column of the id; the row number if there is none."),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="The split of a data set of the hub.")
    ] = "train",
    engine: Annotated[str, choice("--engine", ENGINE)] = "local",
    workers: Workers = None,
    max_length: MaxLength = None,
    task: Annotated[str, choice("--task", TASK)] = "auto",
    global_tokens: GlobalTokens = None,
    long: Annotated[str, choice("--long", LONG)] = "truncate",
    bad: Annotated[str, choice("--bad", BAD)] = "quarantine",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Throw away what another study left in the folder.")
    ] = False,
    report: Report = True,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Run measures over a corpus: tables, a manifest and a report. Stopped half way, the same command goes on."""
    from attlas.catalogue import MEASURES
    from attlas.corpora.read import check_first_row, read
    from attlas.corpora.sources import SYNTHETIC
    from attlas.measures.parse import parse_names

    for name, _ in [] if measures.strip() == "all" else parse_names(measures):
        MEASURES.question(name)
    texts = read(data, text=text, label=label, id=id, split=split)
    if not data.startswith(("hub:", SYNTHETIC)):
        check_first_row(texts)
    folder = out or Path("runs") / (
        Path(data.split(":")[-1]).name.strip(".").split(".")[0] or "study"
    )
    _run(
        model,
        texts,
        measures,
        folder,
        report,
        as_json,
        max_length=max_length,
        task=task,
        global_tokens=global_tokens,
        allow_pickle=allow_pickle,
        engine=engine,
        workers=workers,
        long=long,
        bad=bad,
        fresh=fresh,
    )


def _run(
    model: str | None,
    texts: Any,
    measures: str,
    out: Path,
    report: bool,
    as_json: bool,
    *,
    max_length: int | None = None,
    task: str = "base",
    global_tokens: str | None = None,
    allow_pickle: bool = False,
    **options: Any,
) -> Study:
    with status("loading the model"):
        from attlas.api import study as run
        from attlas.models import load

        loaded = load(
            model,
            task=task,
            max_length=max_length,
            allow_pickle=allow_pickle,
            global_tokens=global_tokens,
        )
    done = run(loaded, texts, measures, out, **options)
    page = None
    if report:
        with status("writing the report"):
            page = done.report(out / "report.html")
    say_study(done, page, as_json)
    return done


@app.command()
def look(
    text: Annotated[
        str | None, typer.Argument(help="The text to look at; or give --file.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="A file with the text, instead; - for standard input."),
    ] = None,
    model: ModelOption = None,
    layer: Annotated[int | None, whole("--layer", LAYER)] = None,
    head: Annotated[int | None, whole("--head", HEAD)] = None,
    importance: Annotated[
        Path | None,
        typer.Option(
            "--importance", help="A study with the measure importance: heads are weighed by it."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="Also write a page where words can be clicked; .svg, .png or .pdf for a picture.",
        ),
    ] = None,
    heads: Annotated[
        Path | None,
        typer.Option(
            "--heads", help="Also write a picture of every head: .svg, .png, .pdf or .html."
        ),
    ] = None,
    global_tokens: GlobalTokens = None,
    allow_pickle: Pickle = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Look at the attention of one text, short or long: tokens tinted by the attention they receive."""
    text = _text_of(text, file)
    _check_outputs(html, heads, force)
    if importance is not None and not importance.is_dir():
        raise AttlasError(
            f"there is no study folder {importance}; give one with the measure importance"
        )
    with status("loading the model"):
        from attlas.api import attention
        from attlas.models import load
        from attlas.views import charts
        from attlas.views.terminal import print_look

        loaded = load(model, allow_pickle=allow_pickle, global_tokens=global_tokens)
    with status("reading attention"):
        seen = attention(loaded, text, importance)
    for name, chosen, size in (("layer", layer, seen.n_layers), ("head", head, seen.n_heads)):
        if chosen is not None and not 0 <= chosen < size:
            raise AttlasError(f"there is no {name} {chosen}; the model has {name}s 0 to {size - 1}")
    if html is not None:
        seen.write(html, layer, head, force=force)
    if heads is not None:
        charts.export(seen.pictures(), heads, force=force)
    if as_json:
        written = {"html": str(html) if html else None, "heads": str(heads) if heads else None}
        print_json({**seen.to_dict(), **written})
        return
    print_look(seen.numbers, layer, head, importance is not None)
    for name, path in (("page", html), ("heads", heads)):
        if path is not None:
            print(f"{name:9} {path}")


def _text_of(text: str | None, file: Path | None) -> str:
    """The text that was given, or that of a file; one of the two, and not empty."""
    if text is not None and file is not None:
        raise AttlasError("give a text or --file, not both")
    if file is not None:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AttlasError(f"{file} cannot be read as a text: {error}") from error
    if text is None or not text.strip():
        what = (
            "there is no text"
            if text is None
            else "the text is empty"
            if file is None
            else f"{file} is empty"
        )
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


@app.command()
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="A study folder; more of the same model go into the same page."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write the page; DIR/report.html if not given."),
    ] = None,
    charts: Annotated[
        Path | None, typer.Option("--charts", help="Also write every chart into this folder.")
    ] = None,
    kind: Annotated[str, choice("--format", FORMAT)] = "svg",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the report of a study: one page that opens offline; and its charts as pictures."""
    if out is not None and not out.is_dir():
        check_output(out, [PAGE], force)
    with status("writing the report"):
        from attlas.studies.opened import Study

        opened = Study.open(folders[0]).beside_parts().beside(*map(Study.open, folders[1:]))
        from attlas.catalogue import sections
        from attlas.views.report import write_charts

        page = opened.report(out or folders[0] / "report.html", force=force)
        pictures = write_charts(opened, sections(), charts, kind, force=force) if charts else []
    if as_json:
        print_json({"report": str(page), "charts": [str(path) for path in pictures]})
        return
    for path in [page, *pictures]:
        print(path)


@app.command()
def measures(as_json: Json = False) -> None:
    """List the measures and what each answers."""
    from attlas.catalogue import MEASURES

    if as_json:
        print_json([{"name": name, "question": MEASURES.question(name)} for name in MEASURES])
        return
    width = max(map(len, MEASURES))
    for name in MEASURES:
        print(f"{name:{width}}  {MEASURES.question(name)}")
