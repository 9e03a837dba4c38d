"""attlas relations: which relations a text states, from attention alone; fitted, scored beside all controls, extracted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attlas.cli.app import (
    Fresh,
    Json,
    MaxLength,
    ModelOption,
    Pickle,
    Report,
    Seed,
    TextColumn,
    Workers,
    app,
    begun,
    listed,
    print_json,
    say_experiment,
    status,
)

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.relations.extractor import RelationExtractor

verbs = typer.Typer(
    help="Relations between the phrases of a text, read from attention by linear readers.", no_args_is_help=True
)
app.add_typer(verbs, name="relations")

Fitted = Annotated[Path, typer.Option("--extractor", help="The folder that `attlas relations fit` wrote.")]
OtherModel = Annotated[
    str | None, typer.Option("--model", help="Where the model lies now, if not where it was fitted from.")
]


@verbs.command()
def fit(
    train: Annotated[
        str,
        typer.Option(
            "--train",
            help="Texts with triples to learn from: text and triples (.jsonl), FewRel, SemEval-2010 Task 8, DocRED.",
        ),
    ],
    dev: Annotated[
        str | None,
        typer.Option("--dev", help="Texts to tune penalties and thresholds on; a fifth of --train if not given."),
    ] = None,
    model: ModelOption = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for the extractor, its tables and its report.")] = Path(
        "runs/relations"
    ),
    names: Annotated[
        Path | None, typer.Option("--names", help="A file of what relations are called (relation, title).")
    ] = None,
    directions: Annotated[
        str | None, typer.Option("--directions", help="Some of h-r,r-t,h-t,r-h,t-r,t-h; all if not given.")
    ] = None,
    convention: Annotated[
        str, typer.Option("--convention", help="sound, or published: the paper's own way.")
    ] = "sound",
    parser: Annotated[
        str, typer.Option("--parser", help="What finds candidate phrases: rules, or spacy if installed.")
    ] = "rules",
    interpret: Annotated[
        bool,
        typer.Option(
            "--interpret/--no-interpret", help="Also ask which directions, layers and heads hold relations: slower."
        ),
    ] = False,
    max_length: MaxLength = None,
    seed: Seed = 0,
    workers: Workers = None,
    fresh: Fresh = False,
    report: Report = True,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Fit an extractor of relations and, beside it, every control: random weights, the words alone, distances, parts of speech, word vectors."""
    with status("loading the model"):
        from attlas.models import load
        from attlas.relations.pipeline import fit_relations

        loaded = load(model, max_length=max_length, allow_pickle=allow_pickle)
    done = fit_relations(
        loaded, train, dev, out, names=names, directions=listed(directions) if directions else None, convention=convention, parser=parser,
        interpret=interpret, seed=seed, workers=workers, fresh=fresh, say=begun,
    )  # fmt: skip
    say_experiment(done.study, report, as_json)


@verbs.command()
def score(
    extractor: Fitted,
    test: Annotated[str, typer.Option("--test", help="Texts with triples that the extractor has not seen.")],
    model: OtherModel = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The folder for tables and report; `scored` in the extractor's if not given."),
    ] = None,
    workers: Workers = None,
    fresh: Fresh = False,
    report: Report = True,
    as_json: Json = False,
) -> None:
    """Score an extractor on other texts, beside every control: related or not, which relation, and triples from plain text."""
    with status("loading"):
        from attlas.relations.pipeline import score_relations

    done = score_relations(extractor, test, out, model=model, workers=workers, fresh=fresh, say=begun)
    say_experiment(done.study, report, as_json)


@verbs.command()
def extract(
    extractor: Fitted,
    text: Annotated[str | None, typer.Argument(help="The text; or give --data.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="A file of texts: a line of JSON for each is printed as it is read.")
    ] = None,
    column: TextColumn = None,
    model: OtherModel = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a page: the text with its phrases, and the graph of its triples."),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """The triples of a text, or of every text of a file, the likeliest first."""
    from attlas.support.errors import AttlasError

    if (text is None) == (data is None):
        raise AttlasError("give a text to extract from, or a file of texts with --data")
    if html is not None and text is None:
        raise AttlasError("--html draws one text; give it as the argument instead of --data")
    with status("loading the model"):
        from attlas.relations.extractor import RelationExtractor, load_readers

        names = load_readers(extractor)[0].get("names", {})
        fitted = RelationExtractor.load(extractor, model, workers=workers)
    if data is not None:
        _each(fitted, data, column)
        return
    assert text is not None
    found = fitted.extract(text)
    _say_unseen(fitted)
    if html is not None:
        from attlas.relations.page import write_text_page

        write_text_page(fitted, text, found, names, html)
    if as_json:
        print_json([one.record(text) for one in found])
        return
    if not found:
        print("no triple is likely enough")
    for one in found:
        head, tail = text[slice(*one.head)], text[slice(*one.tail)]
        words = f" [{text[slice(*one.words)]}]" if one.words else ""
        print(f"{one.probability:.2f}  {head} - {names.get(one.relation) or one.relation}{words} - {tail}")
    if html is not None:
        print(html)


def _each(fitted: RelationExtractor, data: str, column: str | None) -> None:
    """A line of JSON for each text of a file, in order, as it is read; a row that is no text is left out and said."""
    import json

    from attlas.corpora import BadRow, read
    from attlas.support.progress import progress_bar

    read_rows = 0

    def good() -> Iterator[Text]:
        nonlocal read_rows
        for row in read(data, text=column).rows():
            read_rows += 1
            if isinstance(row, BadRow):
                print(f"attlas: {row.where}: {row.reason}; left out", file=sys.stderr)
            else:
                yield row

    with progress_bar("extracting triples") as report:
        for number, (text, found) in enumerate(fitted.predict_iter(good()), 1):
            line = {"id": text.id, "text": text.text, "triples": [one.record(text.text) for one in found]}
            print(json.dumps(line, ensure_ascii=False), flush=True)
            report(number, read_rows)
    _say_unseen(fitted)


def _say_unseen(fitted: RelationExtractor) -> None:
    if fitted.unseen_:
        print(f"attlas: {fitted.unseen_} phrases lie behind the {fitted.model_.max_length} tokens that the model reads of a sentence; they were not looked at", file=sys.stderr)  # fmt: skip
