"""attlas relations extract: the triples of a text, printed as texts are read; nothing is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attlas.cli.app import Force, Json, TextColumn, Workers, print_json, status
from attlas.cli.subjects import group_of

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.relations.extractor import RelationExtractor

Fitted = Annotated[
    Path, typer.Option("--extractor", help="Folder that `attlas relations fit` wrote.")
]
OtherModel = Annotated[
    str | None,
    typer.Option("--model", help="Where its model is now (default: where it was fitted from)."),
]


def add_extract() -> None:
    """Add the verb to its group, after those that are made from experiments."""
    group_of("relations").command("extract")(extract)


def extract(
    extractor: Fitted,
    text: Annotated[str | None, typer.Argument(help="The text; or give --data.")] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="File of texts: one line of JSON per text, as it is read."),
    ] = None,
    column: TextColumn = None,
    model: OtherModel = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a page with its phrases and the graph of triples."),
    ] = None,
    force: Force = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """The triples of a text, or of every text of a file, the likeliest first."""
    from attlas.corpora.sources import check_source
    from attlas.experiments.run import check_columns
    from attlas.support.errors import AttlasError
    from attlas.support.outputs import PAGE, check_output

    if (text is None) == (data is None):
        raise AttlasError("give a text to extract from, or a file of texts with --data")
    if text is not None and not text.strip():
        raise AttlasError("the text is empty; give a text to extract from, or a file with --data")
    if html is not None and text is None:
        raise AttlasError("--html draws one text; give it as the argument instead of --data")
    if html is not None:
        check_output(html, [PAGE], force)
    if not extractor.is_dir():
        raise AttlasError(
            f"there is no folder {extractor}; give one that `attlas relations fit` wrote"
        )
    if data is not None:
        check_source(data)
        check_columns(data, {"text": column})
    with status("loading the model"):
        from attlas.relations.extractor import RelationExtractor, read_saved

        names = read_saved(extractor).about.get("names", {})
        fitted = RelationExtractor.load(extractor, model, workers=workers)
    if data is not None:
        _each(fitted, data, column)
        return
    assert text is not None
    found = fitted.extract(text)
    _say_unseen(fitted)
    if html is not None:
        from attlas.relations.page import write_text_page

        write_text_page(fitted, text, found, names, html, force=force)
    if as_json:
        print_json([one.record(text) for one in found])
        return
    if not found:
        print("no triple is likely enough")
    for one in found:
        head, tail = text[slice(*one.head)], text[slice(*one.tail)]
        words = f" [{text[slice(*one.words)]}]" if one.words else ""
        name = names.get(one.relation) or one.relation
        print(f"{one.probability:.2f}  {head} - {name}{words} - {tail}")
    if html is not None:
        print(html)


def _each(fitted: RelationExtractor, data: str, column: str | None) -> None:
    """One line of JSON per text of a file, as it is read; a row that is not a text is reported."""
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
            triples = [one.record(text.text) for one in found]
            line = {"id": text.id, "text": text.text, "triples": triples}
            print(json.dumps(line, ensure_ascii=False), flush=True)
            report(number, read_rows)
    _say_unseen(fitted)


def _say_unseen(fitted: RelationExtractor) -> None:
    if fitted.unseen_:
        print(
            f"attlas: {fitted.unseen_} phrases lie behind the {fitted.model_.max_length} tokens that "
            "the model reads of a sentence; they were not looked at",
            file=sys.stderr,
        )
