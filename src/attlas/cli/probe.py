"""attlas probe: what syntax and coreference the heads hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attlas.cli.app import (
    Fresh,
    Json,
    MaxLength,
    ModelOption,
    Pickle,
    Report,
    Seed,
    Workers,
    app,
    begun,
    say_experiment,
    status,
)

verbs = typer.Typer(help="What syntax and coreference the heads of a model hold.", no_args_is_help=True)
app.add_typer(verbs, name="probe")

Data = Annotated[
    str | None, typer.Option("--data", help="One file for both: heads are chosen on four fifths, scored on one.")
]
Train = Annotated[str | None, typer.Option("--train", help="What heads are chosen, or probes fitted, on.")]
Test = Annotated[str | None, typer.Option("--test", help="What they are scored on.")]


@verbs.command()
def tree(
    data: Data = None,
    train: Train = None,
    test: Test = None,
    model: ModelOption = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for tables and report.")] = Path("runs/tree"),
    vectors: Annotated[
        Path | None,
        typer.Option("--vectors", help="Word vectors in GloVe's text format; the model's own table if not given."),
    ] = None,
    convention: Annotated[
        str, typer.Option("--convention", help="sound, or published: word vectors shifted by one, as the paper's code.")
    ] = "sound",
    max_length: MaxLength = None,
    seed: Seed = 0,
    workers: Workers = None,
    fresh: Fresh = False,
    report: Report = True,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """How much of dependency trees attention holds: probes fitted and scored, beside word order, words and random weights. Files are CoNLL-U."""
    first, second = _files(data, train, test, "a treebank (.conllu)")
    with status("loading the model"):
        from attlas.models import load
        from attlas.tree.pipeline import probe_tree

        loaded = load(model, max_length=max_length, allow_pickle=allow_pickle)
    done = probe_tree(
        loaded, first, second, out, vectors=vectors, convention=convention, seed=seed, workers=workers, fresh=fresh, say=begun
    )  # fmt: skip
    say_experiment(done.study, report, as_json)


def _files(data: str | None, train: str | None, test: str | None, what: str) -> tuple[str, str | None]:
    """What to choose on and what to score on; None if the first is to be cut in two."""
    from attlas.support.errors import AttlasError

    if data is not None and train is None and test is None:
        return data, None
    if data is None and train is not None and test is not None:
        return train, test
    raise AttlasError(f"give {what} to cut in two with --data, or one to choose on and one to score on with --train and --test")  # fmt: skip
