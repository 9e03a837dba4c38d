"""read: texts from files, folders, DataFrames, lists, Hub datasets and the embedded corpora."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attlas.core.annotations import COLUMNS, RATIONALE, WHERE
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow, Corpus, no_label
from attlas.corpora.formats import rows_of
from attlas.corpora.layouts.base import Layout, character_spans, detect_layout
from attlas.corpora.layouts.docred import DOCRED
from attlas.corpora.layouts.eraser import ERASER
from attlas.corpora.layouts.fewrel import FEWREL
from attlas.corpora.layouts.hatexplain import HATEXPLAIN
from attlas.corpora.layouts.semeval import SEMEVAL
from attlas.corpora.layouts.triples import TREX
from attlas.corpora.rows import Row, bad_row, listed_names, refuse_repeated
from attlas.corpora.sources import (
    EMBEDDED,
    RELATIONS,
    SENTENCES,
    SYNTHETIC,
    embedded_file,
    no_embedded,
)
from attlas.corpora.synthetic import synthetic_named
from attlas.support.errors import CorpusError

if TYPE_CHECKING:
    import pandas as pd

TEXT_COLUMNS = ("text", "sentence", "content", "review", "message", "document")
FIRST_ROWS = 100  # checked before the whole corpus is read
LAYOUTS = (ERASER, HATEXPLAIN, TREX, FEWREL, SEMEVAL, DOCRED)


def read(
    source: str | Path | Iterable[Any] | pd.DataFrame | Corpus,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    column: str | None = None,
    split: str = "train",
) -> Corpus:
    """Texts from almost anything, read lazily and again each time they are iterated.

    `source` is a path (csv, tsv, jsonl, parquet, conllu, conll, txt, each also .gz; or a folder of
    .txt files), a DataFrame, a list of strings, Texts or mappings, a `datasets` dataset,
    `"hub:NAME"` for a Hub dataset (with `split`), `"embedded:NAME"` for an embedded corpus, or
    `"synthetic:texts=600,noise=0.1"` (see `attlas.corpora.synthetic`).

    `text`, `label` and `id` name the columns; by default the text column is the first of a few
    usual names. `column` is another one, whose value each text has in the annotation `columns`, by
    its name. Some formats add annotations:

    - `dependencies`: CoNLL-U, one text per sentence (also `"embedded:sentences"`); for whole
      documents with coreference see `attlas.corpora.annotated.documents`
    - `coreference`: CoNLL-2012 as in LitBank (.conll), and GAP (.tsv, detected by its header unless
      columns are named)
    - `rationale`: ERASER and HateXplain, detected by the fields of the first row
    - `relations`: rows with `text` and `triples` (also `"embedded:relations"`), FewRel,
      SemEval-2010 Task 8 and DocRED, detected in the same way
    """
    if isinstance(source, Corpus):
        return source
    columns = _Columns(text, label, id, column)
    if isinstance(source, str) and source.startswith("embedded:"):
        return embedded(source.removeprefix("embedded:"), columns)
    if isinstance(source, str) and (source == SYNTHETIC or source.startswith(f"{SYNTHETIC}:")):
        texts = synthetic_named(source.removeprefix(SYNTHETIC).removeprefix(":"))
        return Corpus(source, lambda: texts)
    if isinstance(source, str) and source.startswith("hub:"):
        return _hub(source.removeprefix("hub:"), split, columns)
    if isinstance(source, str | Path):
        if not str(source).strip():
            raise CorpusError("the path is empty; give the path of a corpus")
        return _path(Path(source).expanduser(), columns)
    if hasattr(source, "iterrows") and hasattr(source, "columns"):
        return Corpus("DataFrame", lambda: columns.texts("DataFrame", _frame_rows(source)))
    if isinstance(source, Iterator):
        raise CorpusError(
            "the texts are an iterator, which can be read only once; pass a list, or a file's path"
        )
    if isinstance(source, Mapping):
        raise CorpusError(
            f"a mapping of {', '.join(map(str, source))} is not a corpus; "
            "pass one of its values, or a list of mappings"
        )
    if not isinstance(source, Iterable):
        raise CorpusError(
            f"cannot read a corpus from {type(source).__name__}; "
            "pass a list, a DataFrame, or a file's path"
        )
    return _iterable(source, columns)


def check_first_row(corpus: Corpus) -> None:
    """Refuse an empty corpus or a missing column, by reading the first rows only."""
    for row in islice(corpus.rows(), FIRST_ROWS):
        if isinstance(row, Text):
            return


def embedded(name: str, columns: _Columns | None = None) -> Corpus:
    """One of the embedded corpora, or `all` those for classification.

    The labels of `relations` are the relations.

    >>> next(iter(embedded("reviews"))).label in ("positive", "negative")
    True
    """
    if name not in (*EMBEDDED, SENTENCES, RELATIONS, "all"):
        raise no_embedded(name)
    given = columns or _Columns(None, None, None)
    label = "relation" if name == RELATIONS else "label"
    columns = replace(
        given, text=given.text or "text", label=given.label or label, id=given.id or "id"
    )

    def texts() -> Iterator[Text | BadRow]:
        for part in EMBEDDED if name == "all" else (name,):
            yield from columns.texts(f"embedded:{part}", rows_of(embedded_file(part)))

    return Corpus(f"embedded:{name}", texts)


@dataclass(frozen=True)
class _Columns:
    """The columns of text, label and id; without a text column it is guessed from the first row."""

    text: str | None
    label: str | None
    id: str | None
    other: str | None = None

    @property
    def are_named(self) -> bool:
        """Whether the caller named any column."""
        return any(name is not None for name in self.named)

    @property
    def named(self) -> tuple[str | None, ...]:
        """The names that the caller gave."""
        return self.text, self.label, self.id, self.other

    def texts(self, name: str, rows: Iterable[Row]) -> Iterator[Text | BadRow]:
        """Texts from rows of fields; the first row must have the columns."""
        text: str | None = None
        layout: Layout | None = None
        for number, (where, row) in enumerate(rows):
            if isinstance(row, BadRow | Text):
                yield row
                continue
            if text is None:
                layout = detect_layout(row, LAYOUTS, self.text)
                text = self._text_column(name, row, layout)
            yield self._text(where, number, row, text, layout)

    def _text_column(self, name: str, row: Mapping[str, Any], layout: Layout | None) -> str:
        columns = listed_names(row) or "none"
        derived = () if layout is None else layout.derived_fields
        for column in self.named:
            if column is not None and column not in row and column not in derived:
                raise CorpusError(f"{name} has no column {column!r}; its columns are {columns}")
        if self.text is not None:
            return self.text
        if layout is not None:
            return layout.text
        guess = next((column for column in TEXT_COLUMNS if column in row), None)
        if guess is None:
            raise CorpusError(
                f"{name} has no column named {', '.join(TEXT_COLUMNS)}; "
                f"name the text column with text=... (--text); its columns are {columns}"
            )
        return guess

    def _text(
        self, where: str, number: int, row: Mapping[str, Any], column: str, layout: Layout | None
    ) -> Text | BadRow:
        id_ = self._id(row, number, layout)
        notes: dict[str, Any] = {WHERE: where}
        if self.other is not None:
            notes[COLUMNS] = {self.other: _cell(row.get(self.other))}
        try:
            if layout is not None:
                given, notes[layout.annotation] = layout.read(row)
                whole, words = (given, None) if isinstance(given, str) else ("", given)
                return Text(id_, whole, self._label(row, layout), words, notes)
            content = row.get(column)
            if content is None:
                return BadRow(where, f"it has no {column!r}", id_)
            if not isinstance(content, str):
                got = f"its {column!r} is a {type(content).__name__}, not a string"
                return BadRow(where, got, id_)
            spans = character_spans(row, content)
            if spans is not None:
                notes[RATIONALE] = spans
            return Text(id_, content, self._label(row, None), annotations=notes)
        except CorpusError as error:
            return BadRow(where, str(error), id_)

    def _id(self, row: Mapping[str, Any], number: int, layout: Layout | None) -> str:
        names = (self.id,) if self.id else layout.ids if layout else ("id",)
        ids = (row.get(name) for name in names)
        return next((str(id_) for id_ in ids if id_ is not None and str(id_)), str(number))

    def _label(self, row: Mapping[str, Any], layout: Layout | None) -> str | None:
        if layout is not None and self.label in (None, "label"):
            value = layout.label(row)
        else:
            value = None if self.label is None else row.get(self.label)
        if (name := _cell(value)) is not None:
            return name
        if self.label is not None:
            raise CorpusError(no_label(self.label))
        return None


def _cell(value: Any) -> str | None:
    """A value as a string; None if there is none.

    >>> _cell(1), _cell(" "), _cell(float("nan"))
    ('1', None, None)
    """
    is_nan = isinstance(value, float) and value != value
    return str(value) if value is not None and not is_nan and str(value).strip() else None


def _path(path: Path, columns: _Columns) -> Corpus:
    if not os.path.exists(path):  # unlike Path.exists, no error if a whole text was given
        raise CorpusError(f"there is no file {str(path)[:200]}")
    named = columns.are_named
    rows_of(path, named_columns=named)  # refuses an unknown ending at once
    name = str(path)
    return file_corpus(name, path, lambda: columns.texts(name, rows_of(path, named_columns=named)))


def file_corpus(name: str, path: Path, rows: Callable[[], Iterable[Text | BadRow]]) -> Corpus:
    """The texts of a file; an empty one is an error."""

    def texts() -> Iterator[Text | BadRow]:
        empty = True
        for row in rows():
            empty = False
            yield row
        if empty:
            raise CorpusError(f"{path} holds no texts; it is empty")

    return Corpus(name, texts)


def _frame_rows(frame: Any) -> Iterator[Row]:
    import pandas as pd

    names = [str(name) for name in frame.columns]
    refuse_repeated("the DataFrame", names)
    for number, values in enumerate(frame.itertuples(index=False, name=None)):
        cells = (None if pd.isna(value) is True else value for value in values)
        yield f"DataFrame, row {number}", dict(zip(names, cells, strict=True))


def _iterable(source: Iterable[Any], columns: _Columns) -> Corpus:
    def rows() -> Iterator[Row]:
        for number, item in enumerate(source):
            where = f"list, item {number}"
            if isinstance(item, str):
                yield where, {"text": item}
            elif isinstance(item, Text | Mapping):
                yield where, item
            else:
                expected = "a corpus is made of strings, Texts or mappings"
                yield bad_row(where, f"it is a {type(item).__name__}; {expected}")

    return Corpus("list", lambda: columns.texts("list", rows()))


def _hub(name: str, split: str, columns: _Columns) -> Corpus:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise CorpusError(
            "Hub datasets need an extra; install it with: pip install 'attlas[hub]'"
        ) from error
    fetch: Callable[[], Iterable[Mapping[str, Any]]]
    fetch = cache(partial(load_dataset, name, split=split))

    def rows() -> Iterator[Row]:
        try:
            for number, row in enumerate(fetch()):
                yield f"hub:{name}, row {number}", row
        except CorpusError:
            raise
        except Exception as error:  # datasets raises many kinds of errors
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CorpusError(
                f"hub:{name} cannot be fetched ({reason[:200]}); "
                "check the name and the network, or download it and give the file"
            ) from error

    return Corpus(f"hub:{name}", lambda: columns.texts(f"hub:{name}", rows()))
