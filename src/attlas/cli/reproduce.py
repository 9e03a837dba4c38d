"""attlas reproduce: the tables and figures of the papers, published next to ours."""

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
    begun,
    listed,
    print_json,
    status,
    whole,
)
from attlas.support.errors import AttlasError
from attlas.support.options import Option

SEEDS = Option(
    "Classifiers of each kind (default: three, one for imdb).", at_least=1, at_most=1_000
)
verbs = typer.Typer(
    help="The tables and figures of a paper, published next to ours.", no_args_is_help=True
)
app.add_typer(verbs, name="reproduce")


def _data_root(help: str) -> Any:
    """The option of the folder of data sets, refused before anything is imported."""

    def check(folder: Path) -> Path:
        if not folder.expanduser().is_dir():
            raise AttlasError(
                f"there is no folder {folder}; give the folder of the data sets with --data-root"
            )
        return folder

    return typer.Option("--data-root", help=help, callback=check)


@verbs.command()
def betti(
    data_root: Annotated[Path, _data_root("The folder with cola, imdb and sms_spam.")],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for models, features and results.")
    ] = Path("runs/betti"),
    tasks: Annotated[
        str, typer.Option("--tasks", help="Some of cola, sms_spam, imdb.")
    ] = "cola,sms_spam,imdb",
    conventions: Annotated[
        str,
        typer.Option(
            "--convention",
            help="published: fit the classifier on the texts the model was fine-tuned on; corrected: on texts it has not seen.",
        ),
    ] = "published,corrected",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Betti numbers of attention graphs: Table 1 and Figure 1. Takes about an hour on two cores; interrupted, it resumes."""
    with status("loading"):
        from attlas.papers.betti import reproduce

    _say(
        reproduce(
            data_root,
            out,
            model=model,
            tasks=listed(tasks),
            conventions=listed(conventions),
            workers=workers,
            fresh=fresh,
            say=begun,
        ),
        as_json,
    )


@verbs.command()
def longformer(
    data_root: Annotated[Path, _data_root("The folder with arxiv_long, mock_notes and sst.")],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for models, studies and pictures.")
    ] = Path("runs/longformer"),
    tasks: Annotated[
        str, typer.Option("--tasks", help="Some of arxiv_long, mock_notes, sst.")
    ] = "arxiv_long,mock_notes,sst",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Interpreting Longformer: accuracy, Figures 4 to 11, and Tables 1 to 4 with chance. Takes about three hours on two cores; interrupted, it resumes."""
    with status("loading"):
        from attlas.papers.longformer import reproduce

    _say(
        reproduce(
            data_root,
            out,
            model=model,
            tasks=listed(tasks),
            workers=workers,
            fresh=fresh,
            say=begun,
        ),
        as_json,
    )


@verbs.command()
def bert(
    data_root: Annotated[
        Path, _data_root("The folder with ud_ewt, ud_gum, litbank, gap and glove50.")
    ],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for studies, tables and pictures.")
    ] = Path("runs/bert"),
    parts: Annotated[
        str, typer.Option("--parts", help="Some of figures, syntax, coreference, tree.")
    ] = "figures,syntax,coreference,tree",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """What does BERT look at: Figures 2 to 6 and Tables 1 to 3, with random weights. Takes about an hour on two cores; interrupted, it resumes."""
    with status("loading"):
        from attlas.papers.bert import reproduce

    _say(
        reproduce(
            data_root,
            out,
            model=model,
            parts=listed(parts),
            workers=workers,
            fresh=fresh,
            say=begun,
        ),
        as_json,
    )


@verbs.command()
def relations(
    data_root: Annotated[
        Path, _data_root("The folder with trex95, redocred, fewrel and semeval2010_task8.")
    ],
    model: ModelOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for extractors, tables and pictures.")
    ] = Path("runs/relations"),
    parts: Annotated[
        str, typer.Option("--parts", help="Some of trex, published, redocred, fewrel, semeval.")
    ] = "trex,published,redocred,fewrel,semeval",
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Attention understands semantic relations: the poster's tables and figures with every control, and other data. Takes about half an hour on two cores; interrupted, it resumes."""
    with status("loading"):
        from attlas.papers.relations import reproduce

    _say(
        reproduce(
            data_root,
            out,
            model=model,
            parts=listed(parts),
            workers=workers,
            fresh=fresh,
            say=begun,
        ),
        as_json,
    )


@verbs.command()
def dynamics(
    data_root: Annotated[Path, _data_root("The folder with sst, imdb, newsgroups5 and glove50.")],
    out: Annotated[
        Path, typer.Option("--out", help="The folder for studies, tables and pictures.")
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
    """Understanding attention for text classification: Table 2 in full and Figures 2 to 5, with controls. Takes about an hour and a half on two cores; interrupted, it resumes."""
    with status("loading"):
        from attlas.papers.dynamics import reproduce

    _say(
        reproduce(
            data_root,
            out,
            parts=listed(parts),
            seeds=seeds,
            workers=workers,
            fresh=fresh,
            say=begun,
        ),
        as_json,
    )


class _Result(Protocol):
    @property
    def pictures(self) -> list[Path]: ...

    def to_dict(self) -> dict[str, Any]: ...

    def markdown(self) -> str: ...


def _say(result: _Result, as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    print(result.markdown())
    for path in result.pictures:
        print(path)
