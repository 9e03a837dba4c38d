"""attlas reproduce: tables and figures of the papers, published and reproduced values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from attlas.cli.app import (
    Fresh,
    Json,
    ModelOption,
    Workers,
    app,
    listed,
    log_step,
    print_json,
    print_next,
    status,
    whole,
)
from attlas.support.errors import AttlasError
from attlas.support.options import Option

SEEDS = Option("Number of seeds (default: three, one for imdb).", at_least=1, at_most=1_000)
verbs = typer.Typer(
    help="Tables and figures of a paper: published and reproduced values.", no_args_is_help=True
)
app.add_typer(verbs, name="reproduce")


def _data_root(help: str) -> Any:
    """Declare the folder of data sets, which is checked before anything is imported."""

    def check(folder: Path) -> Path:
        if not folder.expanduser().is_dir():
            raise AttlasError(
                f"there is no folder {folder}; give the folder of the data sets with --data-root"
            )
        return folder

    return typer.Option("--data-root", help=help, callback=check)


@verbs.command()
def betti(
    data_root: Annotated[Path, _data_root("Folder with cola, imdb and sms_spam.")],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for models, features and results.")
    ] = Path("runs/betti"),
    tasks: Annotated[
        str, typer.Option("--tasks", help="Some of cola, sms_spam, imdb.")
    ] = "cola,sms_spam,imdb",
    conventions: Annotated[
        str,
        typer.Option(
            "--convention",
            help="published: fit the classifier on the fine-tuning texts; "
            "corrected: on texts that were held out.",
        ),
    ] = "published,corrected",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Betti numbers of attention graphs: Table 1 and Figure 1.

    Takes about an hour on two cores; an interrupted run resumes.
    """
    with status("loading"):
        from attlas.papers.betti import reproduce

    _print_result(
        reproduce(
            data_root,
            out,
            model=model,
            tasks=listed(tasks),
            conventions=listed(conventions),
            workers=workers,
            fresh=fresh,
            say=log_step,
        ),
        out,
        as_json,
    )


@verbs.command()
def longformer(
    data_root: Annotated[Path, _data_root("Folder with arxiv_long, mock_notes and sst.")],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for models, studies and pictures.")
    ] = Path("runs/longformer"),
    tasks: Annotated[
        str, typer.Option("--tasks", help="Some of arxiv_long, mock_notes, sst.")
    ] = "arxiv_long,mock_notes,sst",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Interpreting Longformer: accuracy, Figures 4 to 11, and Tables 1 to 4 with chance.

    Takes about three hours on two cores; an interrupted run resumes.
    """
    with status("loading"):
        from attlas.papers.longformer import reproduce

    _print_result(
        reproduce(
            data_root,
            out,
            model=model,
            tasks=listed(tasks),
            workers=workers,
            fresh=fresh,
            say=log_step,
        ),
        out,
        as_json,
    )


@verbs.command()
def bert(
    data_root: Annotated[Path, _data_root("Folder with ud_ewt, ud_gum, litbank, gap and glove50.")],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for studies, tables and pictures.")
    ] = Path("runs/bert"),
    parts: Annotated[
        str, typer.Option("--parts", help="Some of figures, syntax, coreference, tree.")
    ] = "figures,syntax,coreference,tree",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """What does BERT look at: Figures 2 to 6 and Tables 1 to 3, with random weights.

    Takes about an hour on two cores; an interrupted run resumes.
    """
    with status("loading"):
        from attlas.papers.bert import reproduce

    _print_result(
        reproduce(
            data_root,
            out,
            model=model,
            parts=listed(parts),
            workers=workers,
            fresh=fresh,
            say=log_step,
        ),
        out,
        as_json,
    )


@verbs.command()
def relations(
    data_root: Annotated[
        Path, _data_root("Folder with trex95, redocred, fewrel and semeval2010_task8.")
    ],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for extractors, tables and pictures.")
    ] = Path("runs/relations"),
    parts: Annotated[
        str, typer.Option("--parts", help="Some of trex, published, redocred, fewrel, semeval.")
    ] = "trex,published,redocred,fewrel,semeval",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Attention understands semantic relations: tables and figures, controls, and other data.

    Takes more than half an hour on two cores; an interrupted run resumes.
    """
    with status("loading"):
        from attlas.papers.relations import reproduce

    _print_result(
        reproduce(
            data_root,
            out,
            model=model,
            parts=listed(parts),
            workers=workers,
            fresh=fresh,
            say=log_step,
        ),
        out,
        as_json,
    )


@verbs.command()
def dynamics(
    data_root: Annotated[Path, _data_root("Folder with sst, imdb, newsgroups5 and glove50.")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for studies, tables and pictures.")
    ] = Path("runs/dynamics-paper"),
    parts: Annotated[
        str,
        typer.Option(
            "--parts",
            help="Some of sst, news1, imdb, news2, differences, flow, penalty, frozen, synthetic.",
        ),
    ] = "sst,news1,imdb,news2,differences,flow,penalty,frozen,synthetic",
    seeds: Annotated[int | None, whole("--seeds", SEEDS)] = None,
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Understanding attention for text classification: Table 2 and Figures 2 to 5, with controls.

    Takes about an hour and a half on two cores; an interrupted run resumes.
    """
    with status("loading"):
        from attlas.papers.dynamics import reproduce

    _print_result(
        reproduce(
            data_root,
            out,
            parts=listed(parts),
            seeds=seeds,
            workers=workers,
            fresh=fresh,
            say=log_step,
        ),
        out,
        as_json,
    )


class _Result(Protocol):
    @property
    def pictures(self) -> list[Path]: ...

    def to_dict(self) -> dict[str, Any]: ...

    def markdown(self) -> str: ...


def _print_result(result: _Result, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    print(result.markdown())
    for path in result.pictures:
        print(path)
    print(f"folder    {out}")
    for part in sorted((out / "parts").glob("*/"))[:1]:
        print_next(f"attlas report {part}")
