"""attlas: study, look, report, tour, measures; the other verbs stand beside."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from attlas import __version__
from attlas.cli.app import (
    AnyLabelColumn,
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
    print_json,
    say_study,
    status,
)
from attlas.support.errors import AttlasError

if TYPE_CHECKING:
    from attlas.studies import Study

INTERRUPTED = 130


def main() -> None:
    """Run the command line: 0 on success, 2 on a user's mistake with one clear line, 130 if interrupted."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        code = app(standalone_mode=False)
    except AttlasError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail(error.format_message())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    if code == INTERRUPTED:
        print("attlas: interrupted; run the same command again to resume", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> NoReturn:
    print("attlas: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


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
        str, typer.Option("--measures", help="Names with commas, or all; parameters in brackets: topk(k=5,keep=words).")
    ] = "all",
    out: Out = None,
    text: TextColumn = None,
    label: AnyLabelColumn = None,
    id: Annotated[
        str | None, typer.Option("--id", help="The column of the id; the row number if there is none.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="The split of a data set of the hub.")] = "train",
    engine: Annotated[str, typer.Option("--engine", help="local")] = "local",
    workers: Workers = None,
    max_length: MaxLength = None,
    task: Annotated[
        str, typer.Option("--task", help="base, classify, mlm or lm; auto is what the weights were saved for.")
    ] = "auto",
    global_tokens: GlobalTokens = None,
    long: Annotated[
        str, typer.Option("--long", help="truncate: cut a text longer than the model and count it; error: refuse it.")
    ] = "truncate",
    bad: Annotated[
        str, typer.Option("--bad", help="quarantine: leave out a row that is no text and say why; error: refuse it.")
    ] = "quarantine",
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away what another study left in the folder.")] = False,
    report: Report = True,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Run measures over a corpus: tables, a manifest and a report. Stopped half way, the same command goes on."""
    from attlas.catalogue import MEASURES
    from attlas.corpora import read
    from attlas.measures.parse import asked

    for name, _ in [] if measures.strip() == "all" else asked(measures):
        MEASURES.question(name)
    texts = read(data, text=text, label=label, id=id, split=split)
    folder = out or Path("runs") / (Path(data.split(":")[-1]).name.strip(".").split(".")[0] or "study")
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

        loaded = load(model, task=task, max_length=max_length, allow_pickle=allow_pickle, global_tokens=global_tokens)
    done = run(loaded, texts, measures, out, **options)
    page = None
    if report:
        with status("writing the report"):
            page = done.report(out / "report.html")
    say_study(done, page, as_json)
    return done


@app.command()
def look(
    text: Annotated[str, typer.Argument(help="The text to look at.")] = "",
    file: Annotated[
        Path | None, typer.Option("--file", help="A file with the text, instead; - for standard input.")
    ] = None,
    model: ModelOption = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="One layer, from 0; the mean of all if not given.")
    ] = None,
    head: Annotated[int | None, typer.Option("--head", help="One head, from 0; the mean of all if not given.")] = None,
    importance: Annotated[
        Path | None, typer.Option("--importance", help="A study with the measure importance: heads are weighed by it.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a page where words can be clicked; .svg, .png or .pdf for a picture."),
    ] = None,
    heads: Annotated[
        Path | None, typer.Option("--heads", help="Also write a picture of every head: .svg, .png, .pdf or .html.")
    ] = None,
    global_tokens: GlobalTokens = None,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Look at the attention of one text, short or long: tokens tinted by the attention they receive."""
    if file is not None:
        text = _text_of(file)
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
        seen.write(html, layer, head)
    if heads is not None:
        charts.export(seen.pictures(), heads)
    if as_json:
        written = {"html": str(html) if html else None, "heads": str(heads) if heads else None}
        print_json({**seen.to_dict(), **written})
        return
    print_look(seen.numbers, layer, head, importance is not None)
    for name, path in (("page", html), ("heads", heads)):
        if path is not None:
            print(f"{name:9} {path}")


def _text_of(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AttlasError(f"{file} cannot be read as a text: {error}") from error


@app.command()
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="A study folder; more of the same model go into the same page."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write the page; DIR/report.html if not given.")
    ] = None,
    charts: Annotated[Path | None, typer.Option("--charts", help="Also write every chart into this folder.")] = None,
    kind: Annotated[str, typer.Option("--format", help="svg, pdf, png, html or json, for --charts.")] = "svg",
    as_json: Json = False,
) -> None:
    """Write the report of a study: one page that opens offline; and its charts as pictures."""
    with status("writing the report"):
        from attlas.catalogue import sections
        from attlas.studies.opened import Study
        from attlas.views.report import write_charts

        opened = Study.open(folders[0]).beside_parts().beside(*map(Study.open, folders[1:]))
        page = opened.report(out or folders[0] / "report.html")
        pictures = write_charts(opened, sections(), charts, kind) if charts else []
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
