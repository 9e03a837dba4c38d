"""attlas finetune, attlas topology."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attlas.cli.app import (
    Fresh,
    Json,
    LabelColumn,
    MaxLength,
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
def finetune(
    data: Annotated[str, typer.Option("--data", help=f"{_DATA}: texts with labels.")],
    model: ModelOption = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for the fine-tuned model.")] = Path("runs/finetuned"),
    dev: Annotated[
        str | None,
        typer.Option("--dev", help="Texts to score each epoch on; a tenth of --data if not given."),
    ] = None,
    text: TextColumn = None,
    label: LabelColumn = "label",
    epochs: Annotated[int, typer.Option("--epochs", help="At most so many passes over the texts.")] = 4,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Texts a step.")] = 32,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", help="The highest one; it warms up and falls.")
    ] = 5e-5,
    patience: Annotated[int, typer.Option("--patience", help="End after so many epochs without a better one.")] = 2,
    max_length: MaxLength = None,
    hold_out: Annotated[
        float, typer.Option("--hold-out", help="A share of the texts to keep out and write to held_out.jsonl.")
    ] = 0.0,
    head_only: Annotated[
        bool, typer.Option("--head-only", help="Fit the classification head alone, in seconds.")
    ] = False,
    seed: Seed = 0,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Fine-tune a model to tell labels apart. Interrupted, the same command resumes."""
    with status("loading"):
        from attlas.finetune.training import finetune as run

    done = run(
        data, model, out, dev=dev, text=text, label=label, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
        patience=patience, max_length=max_length, hold_out=hold_out, head_only=head_only, seed=seed, fresh=fresh,
    )  # fmt: skip
    if as_json:
        print_json({"model": str(done.folder), **done.record})
        return
    counts = done.record["counts"]
    for row in done.record["history"]:
        step = f"C {row['C']:g}" if head_only else f"epoch {row['epoch']:.0f}"
        print(f"{step:9} MCC {row['mcc']:.3f}  accuracy {row['accuracy']:.3f}")
    print(
        f"dev       MCC {done.scores['mcc']:.3f}  accuracy {done.scores['accuracy']:.3f} of the one kept, on {counts['dev']:,} texts"
    )
    held = f", {counts['held_out']:,} held out in {done.folder / 'held_out.jsonl'}" if counts["held_out"] else ""
    print(f"texts     {counts['fitted']:,} fitted, {counts['truncated']:,} of them and of dev cut{held}")
    print(f"labels    {', '.join(done.record['labels'])}")
    print(f"model     {done.folder}")


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
    from attlas.catalogue import sections
    from attlas.views.findings import findings
    from attlas.views.terminal import print_tables

    print_tables(done.study, sections())
    for line in findings(done.study, sections()):
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
