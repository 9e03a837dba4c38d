"""attlas topology."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attlas.cli.app import (
    Fresh,
    Json,
    LabelColumn,
    ModelOption,
    Seed,
    TextColumn,
    Workers,
    app,
    listed,
    print_json,
    status,
)

_DATA = "A .csv, .tsv, .jsonl or .parquet file (also .gz), or embedded:NAME"


@app.command()
def topology(
    train: Annotated[str, typer.Option("--train", help=f"{_DATA}: texts to fit the classifier on.")],
    test: Annotated[str, typer.Option("--test", help="Texts to score it on.")],
    dev: Annotated[
        str | None, typer.Option("--dev", help="Texts to choose its settings on; a tenth of --train if not given.")
    ] = None,
    model: ModelOption = None,
    frozen: Annotated[
        str | None,
        typer.Option("--frozen", help="What the model was fine-tuned from, as a control; known after attlas finetune."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for features, classifier and report.")] = Path(
        "runs/topology"
    ),
    text: TextColumn = None,
    label: LabelColumn = "label",
    features: Annotated[str, typer.Option("--features", help="Some of betti, digraph, barcode, templates.")] = "betti",
    thresholds: Annotated[
        str, typer.Option("--thresholds", help="Weights from which a graph has an edge, with commas.")
    ] = "0.025,0.05,0.1,0.25,0.5,0.75",
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="Also the frozen and the random model, and length alone.")
    ] = True,
    seed: Seed = 0,
    workers: Workers = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Tell labels apart by the shape of attention graphs: a classifier on Betti numbers, its best heads, its controls."""
    with status("loading the model"):
        from attlas.topology import experiment

    done = experiment(
        model, train, dev, test, out, text=text, label=label, frozen=frozen, features=listed(features),
        thresholds=_numbers(thresholds), controls=controls, seed=seed, workers=workers, fresh=fresh,
    )  # fmt: skip
    with status("writing the report"):
        page = done.study.report(out / "report.html")
    if as_json:
        print_json({**done.result, "study": str(done.study.folder), "report": str(page)})
        return
    from attlas.views.findings import findings
    from attlas.views.terminal import print_scores

    print_scores(done.study)
    for line in findings(done.study):
        print(f"- {line}")
    print()
    print(f"classifier {done.result['classifier']}")
    print(f"report     {page}")


def _numbers(thresholds: str) -> list[Any]:
    from attlas.support.errors import AttlasError

    try:
        return [float(part) for part in listed(thresholds)]
    except ValueError as error:
        raise AttlasError(f"--thresholds is {thresholds!r}; give numbers with commas, such as 0.05,0.1") from error
