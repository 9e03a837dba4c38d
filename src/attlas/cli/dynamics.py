"""attlas dynamics: small attention classifiers from scratch, over scales, encoders and kinds of attention: how attention comes to be interpretable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attlas.cli.app import (
    Fresh,
    Json,
    LabelColumn,
    Report,
    Seed,
    TextColumn,
    Workers,
    app,
    begun,
    listed,
    say_experiment,
    status,
)


@app.command()
def dynamics(
    train: Annotated[
        str | None,
        typer.Option("--train", "--data", help="Texts with labels to learn from (.csv, .tsv, .jsonl, .parquet), or synthetic:texts=2000,noise=0.1."),
    ] = None,
    dev: Annotated[str | None, typer.Option("--dev", help="Texts to choose the epoch by; a tenth of --train if not given.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="Texts to score on; a fifth of --train if not given.")] = None,
    scales: Annotated[str, typer.Option("--scales", help="What attention scores are divided by (the paper's lambda), with commas.")] = "1,10,100",
    encoders: Annotated[
        str, typer.Option("--encoders", help="Some of none, affine, lstm, vectors (static, frozen), model (a frozen Hugging Face model).")
    ] = "none",
    attention: Annotated[str, typer.Option("--attention", help="Some of dot, additive.")] = "dot",
    out: Annotated[Path, typer.Option("--out", help="The folder for tables and report.")] = Path("runs/dynamics"),
    text: TextColumn = None,
    label: LabelColumn = "label",
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="For encoder vectors: a file of GloVe's layout, or a model whose input embeddings are taken; the embedded model if not given."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="For encoder model: a folder or a hub id; the embedded model if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="How many classifiers of each kind, from --seed on.")] = 1,
    seed: Seed = 0,
    epochs: Annotated[int, typer.Option("--epochs", help="How often all texts are read.")] = 20,
    dim: Annotated[int, typer.Option("--dim", help="The size of a word's vector.")] = 100,
    dropout: Annotated[float, typer.Option("--dropout", help="The share of numbers dropped in training.")] = 0.5,
    l2: Annotated[float, typer.Option("--l2", help="Penalty on the matrices of encoder layers and of additive attention.")] = 0.01,
    vw_penalty: Annotated[float, typer.Option("--vw-penalty", help="Penalty on |V.W|, which keeps the scores of classes together.")] = 0.0,
    optimizer: Annotated[str, typer.Option("--optimizer", help="adagrad, sgd or adam.")] = "adagrad",
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="The optimizer's usual one if not given.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", help="How many texts make a step.")] = 100,
    patience: Annotated[int | None, typer.Option("--patience", help="Stop after so many epochs that are no better on dev.")] = None,
    min_count: Annotated[int, typer.Option("--min-count", help="Tokens that occur less often are not known.")] = 1,
    tokens: Annotated[str, typer.Option("--tokens", help="words, or blanks if tokens are set apart by blanks already; lower-cased.")] = "words",
    rule: Annotated[str, typer.Option("--rule", help="Which words are polarity tokens: code (words of one class are in), paper (they are out), balanced (classes of unequal size).")] = "code",
    workers: Workers = None,
    fresh: Fresh = False,
    report: Report = True,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train attention classifiers over a grid of scales, encoders and kinds of attention, in parallel: accuracy, each word's polarity and attention score, what moves them, and whether attention marks the words that matter."""
    from attlas.support.errors import AttlasError

    if train is None:
        raise AttlasError("give texts with labels: --data F, or --train F with --dev F and --test F")
    numbers = [_number(one) for one in listed(scales)]
    with status("loading"):
        from attlas.dynamics.pipeline import run_dynamics

    done = run_dynamics(
        train, dev, test, out, scales=numbers, encoders=listed(encoders), attention=listed(attention), seeds=seeds, seed=seed, text=text, label=label, vectors=vectors, model=model, tokenize=tokens,
        workers=workers, fresh=fresh, say=begun, epochs=epochs, dim=dim, dropout=dropout, l2=l2, vw_penalty=vw_penalty, optimizer=optimizer, learning_rate=learning_rate, batch_size=batch_size,
        patience=patience, min_count=min_count, rule=rule,
    )  # fmt: skip
    say_experiment(done.study, report, as_json)


def _number(value: str) -> float:
    from attlas.support.errors import AttlasError

    try:
        return float(value)
    except ValueError as error:
        problem = f"--scales has {value!r}, which is not a number; give numbers above 0: 1,10,100"
        raise AttlasError(problem) from error
