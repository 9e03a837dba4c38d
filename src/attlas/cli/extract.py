"""attlas relations extract: the triples of a text, printed as texts are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attlas.cli.app import FORCE_HELP, JSON_HELP, print_json, print_next, status
from attlas.cli.subjects import group_of
from attlas.cli.verbs import add_command
from attlas.support.errors import AttlasError
from attlas.support.options import check_fields, option, workers_option
from attlas.support.outputs import PAGE, check_output
from attlas.views.numbers import decimal

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.relations.extractor import RelationExtractor


@dataclass(frozen=True, kw_only=True)
class ExtractCommand:
    """Extract the triples of a text, or of every text of a file, most probable first."""

    extractor: Path = option(MISSING, "Folder that `attlas relations fit` wrote.")
    text: str | None = option(None, "The text; or give --data.", flags=("TEXT",))
    data: str | None = option(None, "File of texts; prints one line of JSON for each text.")
    column: str | None = option(None, "Column of the text.", flags=("--text",))
    model: str | None = option(None, "Model of the extractor, if it has moved since the fit.")
    html: Path | None = option(None, "Also write a page with phrases and the graph of triples.")
    force: bool = option(False, FORCE_HELP)
    workers: int | None = workers_option()
    as_json: bool = option(False, JSON_HELP, flags=("--json",))

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self) -> None:
        """Refuse wrong inputs before a model is loaded."""
        from attlas.corpora.sources import check_source
        from attlas.experiments.run import check_columns

        text, extractor = self.text, self.extractor
        if (text is None) == (self.data is None):
            raise AttlasError("give a text to extract from, or a file of texts with --data")
        if text is not None and not text.strip():
            raise AttlasError(
                "the text is empty; give a text to extract from, or a file with --data"
            )
        if self.html is not None:
            if text is None:
                raise AttlasError(
                    "--html draws one text; give it as the argument instead of --data"
                )
            check_output(self.html, [PAGE], self.force)
        if not extractor.is_dir():
            raise AttlasError(
                f"there is no folder {extractor}; give one that `attlas relations fit` wrote"
            )
        if self.data is not None:
            check_source(self.data)
            check_columns(self.data, {"text": self.column})

    def run(self) -> None:
        self.check()
        with status("loading the model"):
            from attlas.relations.extractor import RelationExtractor, read_saved

            names = read_saved(self.extractor).about.get("names", {})
            extractor = RelationExtractor.load(self.extractor, self.model, workers=self.workers)
        if self.data is not None:
            _each(extractor, self.data, self.column)
            return
        assert self.text is not None
        self._extract(extractor, self.text, names)

    def _extract(self, extractor: RelationExtractor, text: str, names: dict[str, str]) -> None:
        triples = extractor.extract(text)
        _report_unseen(extractor)
        if self.html is not None:
            from attlas.relations.page import write_text_page

            write_text_page(extractor, text, triples, names, self.html, force=self.force)
        if self.as_json:
            print_json([one.record(text) for one in triples])
            return
        if not triples:
            print("no triples above the threshold")
        for one in triples:
            head, tail = text[slice(*one.head)], text[slice(*one.tail)]
            words = f" [{text[slice(*one.words)]}]" if one.words else ""
            name = names.get(one.relation) or one.relation
            print(f"{decimal(one.probability)}  {head} - {name}{words} - {tail}")
        if self.html is not None:
            print(self.html)
        print_next(f"attlas relations score --extractor {self.extractor} --test TRIPLES.jsonl")


def add_extract() -> None:
    """Add the verb to its group, after those that are made from experiments."""
    add_command(group_of("relations"), "extract", ExtractCommand)


def _each(fitted: RelationExtractor, data: str, column: str | None) -> None:
    """Print one line of JSON per text of a file, as it is read; invalid rows are reported."""
    import json

    from attlas.corpora import BadRow, read
    from attlas.support.progress import progress_bar

    read_rows = 0

    def good() -> Iterator[Text]:
        nonlocal read_rows
        for row in read(data, text=column).rows():
            read_rows += 1
            if isinstance(row, BadRow):
                print(f"attlas: {row.where}: {row.reason}; skipped", file=sys.stderr)
            else:
                yield row

    with progress_bar("extracting triples") as report:
        for number, (text, found) in enumerate(fitted.predict_iter(good()), 1):
            triples = [one.record(text.text) for one in found]
            line = {"id": text.id, "text": text.text, "triples": triples}
            print(json.dumps(line, ensure_ascii=False), flush=True)
            report(number, read_rows)
    _report_unseen(fitted)


def _report_unseen(fitted: RelationExtractor) -> None:
    if fitted.unseen_:
        print(
            f"attlas: {fitted.unseen_} phrases beyond the model's maximum length "
            f"({fitted.model_.max_length} tokens) were skipped",
            file=sys.stderr,
        )
