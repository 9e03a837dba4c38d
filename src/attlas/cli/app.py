"""The command line's own: the app, the options that verbs share, how they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="attlas",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="An atlas of attention: what the heads of a transformer do over a corpus, always with a control beside the number.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="A folder, a hub id, embedded:long, or nothing for the embedded model."),
]
GlobalTokens = Annotated[
    str | None,
    typer.Option(
        "--global-tokens", help="Which tokens of a Longformer see all: first, special, none, or places such as 0,5."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder for the study.")]
Pickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Also read pickled weights, which can run code: only if you trust them.")
]
Workers = Annotated[int | None, typer.Option("--workers", help="How many workers; as many as cores if not given.")]
TextColumn = Annotated[str | None, typer.Option("--text", help="The column of the text.")]
LabelColumn = Annotated[str, typer.Option("--label", help="The column of the label.")]
Seed = Annotated[int, typer.Option("--seed", help="What randomness is drawn from.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Throw away what another run left in the folder.")]


def listed(names: str) -> list[str]:
    """Names from a list with commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def status(what: str) -> Any:
    """A line that says what is going on while it goes on; nothing where there is no terminal."""
    from rich.console import Console

    return Console(stderr=True).status(what)


def print_json(content: Any) -> None:
    """JSON on standard output."""
    print(json.dumps(content, ensure_ascii=False, indent=2))
