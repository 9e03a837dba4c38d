"""attlas explain: which tokens answers rest on, and whether attention says so too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attlas.cli.app import (
    AnyLabelColumn,
    Fresh,
    GlobalTokens,
    Json,
    MaxLength,
    ModelOption,
    Pickle,
    Report,
    Seed,
    TextColumn,
    Workers,
    app,
    listed,
    print_json,
    say_study,
    status,
)


@app.command()
def explain(
    data: Annotated[
        str,
        typer.Option(
            "--data", help="Texts: a file as for attlas study, also ERASER's and HateXplain's with rationales."
        ),
    ],
    model: ModelOption = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for the study.")] = Path("runs/explain"),
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Methods with commas, or all; the others are compared with the first. Some usual ones if not given.",
        ),
    ] = "",
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="A class, or label for the text's own, or a token; what the model gives if not given."
        ),
    ] = None,
    of: Annotated[str, typer.Option("--of", help="probability or logit.")] = "probability",
    position: Annotated[
        int | None, typer.Option("--position", help="Of a language model: at which token; the mask, or the last one.")
    ] = None,
    baseline: Annotated[
        str, typer.Option("--baseline", help="What stands for a word taken away: padding, mask, zero or mean.")
    ] = "padding",
    at: Annotated[
        str, typer.Option("--at", help="embeddings: what enters the first layer; words: word vectors.")
    ] = "embeddings",
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="The gap at which integrated gradients end: 0.01 is 1 %.")
    ] = 0.01,
    max_evaluations: Annotated[
        int, typer.Option("--max-evaluations", help="Gradients a text at most; what has not converged is counted.")
    ] = 500,
    keep: Annotated[
        str, typer.Option("--keep", help="Which tokens are compared: some of all, ordinary, words, keywords.")
    ] = "all,ordinary,keywords",
    p: Annotated[
        float, typer.Option("--p", help="Persistence of rank-biased overlap: lower looks at the top only.")
    ] = 0.9,
    faithfulness: Annotated[
        str, typer.Option("--faithfulness", help="Also take tokens away: remove, mask, both with a comma, or none.")
    ] = "remove",
    importance: Annotated[
        Path | None,
        typer.Option("--importance", help="A study with importance, for scaled attention; measured if needed."),
    ] = None,
    text: TextColumn = None,
    label: AnyLabelColumn = None,
    task: Annotated[
        str, typer.Option("--task", help="classify, mlm or lm; auto is what the weights were saved for.")
    ] = "auto",
    max_length: MaxLength = None,
    global_tokens: GlobalTokens = None,
    workers: Workers = None,
    seed: Seed = 0,
    fresh: Fresh = False,
    report: Report = True,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Explain what a model says of texts: scores of tokens with their gap, agreement with attention beside chance, faithfulness. Stopped, it goes on."""
    with status("loading the model"):
        from attlas.corpora import read
        from attlas.explain.corpus import explain_corpus, summary
        from attlas.explain.measure import USUAL
        from attlas.models import load

        texts = read(data, text=text, label=label)
        loaded = load(model, task=task, max_length=max_length, allow_pickle=allow_pickle, global_tokens=global_tokens)
    done = explain_corpus(
        loaded, texts, out, "all" if method == "all" else listed(method) or USUAL, importance=importance, target=target, of=of, position=position, baseline=baseline, at=at,
        tolerance=tolerance, max_evaluations=max_evaluations, keep=listed(keep), p=p, faithfulness=[] if faithfulness == "none" else listed(faithfulness), workers=workers, seed=seed, fresh=fresh,
    )  # fmt: skip
    page = None
    if report:
        with status("writing the report"):
            page = done.report(out / "report.html")
    if as_json:
        from attlas.catalogue import sections
        from attlas.views.findings import findings

        print_json(
            {
                **summary(done),
                "findings": findings(done, sections()),
                "study": str(done.folder),
                "report": str(page) if page else None,
            }
        )
        return
    say_study(done, page, False)
