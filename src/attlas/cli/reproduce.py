"""attlas reproduce: tables and figures of the papers, published and reproduced values."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

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
from attlas.papers import PAPERS, Paper, data_folder
from attlas.support.options import Option

SEEDS = Option(
    "Classifiers of each kind (default: three, one for imdb).", at_least=1, at_most=1_000
)
CONVENTION = (
    "sound: corrected, the classifier is fitted on texts that were held out of fine-tuning; "
    "published: on the fine-tuning texts, as in Kushnareva et al. 2022."
)
OWN: dict[str, dict[str, tuple[Any, Any]]] = {  # options of one paper only, with their defaults
    "betti": {
        "conventions": (
            Annotated[str, typer.Option("--convention", help=CONVENTION)],
            "published,sound",
        )
    },
    "dynamics": {"seeds": (Annotated[int | None, whole("--seeds", SEEDS)], None)},
}
LISTS = ("tasks", "parts", "conventions")
verbs = typer.Typer(
    help="Tables and figures of a paper: published and reproduced values.", no_args_is_help=True
)
app.add_typer(verbs, name="reproduce")


def _options(name: str, paper: Paper) -> dict[str, tuple[Any, Any]]:
    """The type and the default of each option; the folder of data is checked before any import."""
    chosen = f"{paper.kind}s"
    data = typer.Option("--data-root", help=f"Folder with {paper.data}.", callback=_existing)
    out = typer.Option("--out", help=f"Folder for {paper.writes}.")
    some = typer.Option(f"--{chosen}", help=f"Some of {', '.join(paper.parts)}.")
    return {
        "data_root": (Annotated[Path, data], Parameter.empty),
        **({"model": (ModelOption, None)} if paper.model else {}),
        "out": (Annotated[Path, out], Path(paper.out)),
        chosen: (Annotated[str, some], ",".join(paper.parts)),
        **OWN.get(name, {}),
        "workers": (Workers, None),
        "fresh": (Fresh, False),
        "as_json": (Json, False),
    }


def _existing(folder: Path) -> Path:
    data_folder(folder)
    return folder


def _verb(name: str, paper: Paper) -> Callable[..., None]:
    """The verb of a paper, with a signature that typer reads."""

    def verb(data_root: Path, out: Path, as_json: bool, **options: Any) -> None:
        with status("loading"):
            recipe = import_module(f"attlas.papers.{name}")
        given = {key: listed(one) if key in LISTS else one for key, one in options.items()}
        result = recipe.reproduce(data_root, out, **given, log=log_step)
        if as_json:
            print_json(result.to_dict())
            return
        print(result.markdown())
        for path in result.pictures:
            print(path)
        print(f"folder    {out}")
        for part in sorted((out / "parts").glob("*/"))[:1]:
            print_next(f"attlas report {part}")

    options = _options(name, paper)
    verb.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, (kind, default) in options.items()
        ]
    )
    verb.__annotations__ = {key: kind for key, (kind, _) in options.items()}
    return verb


for _name, _paper in PAPERS.items():
    _help = f"{_paper.title}\n\nTakes {_paper.takes} on two cores; an interrupted run resumes."
    verbs.command(_name, help=_help, short_help=_paper.title)(_verb(_name, _paper))
