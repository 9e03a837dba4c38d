"""read: texts from a file, a folder, a DataFrame, a list, a data set of the hub, or the embedded corpora."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attlas.core.annotations import RATIONALE, WHERE
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow, Corpus, no_label
from attlas.corpora.formats import rows_of
from attlas.corpora.layouts.base import Layout, character_spans, recognised
from attlas.corpora.layouts.docred import DOCRED
from attlas.corpora.layouts.eraser import ERASER
from attlas.corpora.layouts.fewrel import FEWREL
from attlas.corpora.layouts.hatexplain import HATEXPLAIN
from attlas.corpora.layouts.semeval import SEMEVAL
from attlas.corpora.layouts.triples import TREX
from attlas.corpora.rows import Row, listed_names, refuse_repeated
from attlas.corpora.sources import EMBEDDED, RELATIONS, SENTENCES, SYNTHETIC, embedded_file
from attlas.corpora.synthetic import synthetic_named
from attlas.support.errors import CorpusError

if TYPE_CHECKING:
    import pandas as pd

TEXT_COLUMNS = ("text", "sentence", "content", "review", "message", "document")
LOOKED_AT = 100  # rows before a corpus is read as a whole
LAYOUTS = (ERASER, HATEXPLAIN, TREX, FEWREL, SEMEVAL, DOCRED)


def read(
    source: str | Path | Iterable[Any] | pd.DataFrame | Corpus,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    split: str = "train",
) -> Corpus:
    """Texts from almost anything, read lazily and again each time they are iterated.

    `source` is a path (csv, tsv, jsonl, parquet, conllu, conll, txt, each also .gz; or a folder of .txt files), a DataFrame, a list of strings, of
    Texts or of mappings, a `datasets` data set, `"hub:NAME"` for one of the hub's (with `split`), `"embedded:NAME"` for one of ours, or `"synthetic:texts=600,noise=0.1"` for one
    made to order (see `attlas.corpora.synthetic`).
    A sentence of CoNLL-U (also `"embedded:sentences"`) is a text with its words and the annotation `dependencies`; whole documents with their
    coreference are `attlas.corpora.annotated.documents`. A document of CoNLL-2012 (.conll, as LitBank's) and a row of GAP (.tsv, known by its header
    unless columns are named) have the annotation `coreference`.
    `text`, `label` and `id` name the columns; without `text` the first of a few usual names is taken. Rows of ERASER and of HateXplain are
    known by the fields of the first: they keep the data set's words, their label and the annotation `rationale`. So are rows with `text` and
    `triples` (also `"embedded:relations"`), of FewRel, of SemEval-2010 Task 8 and of DocRED: they have the annotation `relations`.
    """
    if isinstance(source, Corpus):
        return source
    columns = _Columns(text, label, id)
    if isinstance(source, str) and source.startswith("embedded:"):
        return embedded(source.removeprefix("embedded:"), columns)
    if isinstance(source, str) and (source == SYNTHETIC or source.startswith(f"{SYNTHETIC}:")):
        made = synthetic_named(source.removeprefix(SYNTHETIC).removeprefix(":"))
        return Corpus(source, lambda: made)
    if isinstance(source, str) and source.startswith("hub:"):
        return _hub(source.removeprefix("hub:"), split, columns)
    if isinstance(source, str | Path):
        if not str(source).strip():
            raise CorpusError("there is no file without a name; give the path of a corpus")
        return _path(Path(source).expanduser(), columns)
    if hasattr(source, "iterrows") and hasattr(source, "columns"):
        return Corpus("DataFrame", lambda: columns.texts("DataFrame", _frame_rows(source)))
    if isinstance(source, Iterator):
        raise CorpusError(
            "the texts are an iterator, which can be read only once; pass a list, or a file's path"
        )
    if isinstance(source, Mapping):
        raise CorpusError(
            f"a mapping of {', '.join(map(str, source))} is not a corpus; pass one of its values, or a list of mappings"
        )
    if not isinstance(source, Iterable):
        raise CorpusError(
            f"a corpus cannot be made of a {type(source).__name__}; pass a list, a DataFrame, or a file's path"
        )
    return _iterable(source, columns)


def check_first_row(corpus: Corpus) -> None:
    """Refuse a corpus that is empty or lacks a column: its first rows are read, and no more."""
    for row in islice(corpus.rows(), LOOKED_AT):
        if isinstance(row, Text):
            return


def embedded(name: str, columns: _Columns | None = None) -> Corpus:
    """One of the embedded corpora, or `all` that were made for their labels; labels of `all` are as in each, those of `relations` the relations.

    >>> next(iter(embedded("reviews"))).label in ("positive", "negative")
    True
    """
    if name not in (*EMBEDDED, SENTENCES, RELATIONS, "all"):
        raise CorpusError(
            f"there is no embedded corpus {name!r}; they are {', '.join(EMBEDDED)} and all of these, and {SENTENCES} and {RELATIONS}"
        )
    label = "relation" if name == RELATIONS else "label"
    columns = _Columns(
        (columns and columns.text) or "text",
        (columns and columns.label) or label,
        (columns and columns.id) or "id",
    )

    def texts() -> Iterator[Text | BadRow]:
        for part in EMBEDDED if name == "all" else (name,):
            yield from columns.texts(f"embedded:{part}", rows_of(embedded_file(part)))

    return Corpus(f"embedded:{name}", texts)


class _Columns:
    """Which columns hold text, label and id; the text's is guessed once from the first row."""

    def __init__(self, text: str | None, label: str | None, id: str | None) -> None:
        self.text, self.label, self.id = text, label, id

    @property
    def are_named(self) -> bool:
        """Whether a caller named any column."""
        return any(name is not None for name in (self.text, self.label, self.id))

    def texts(self, name: str, rows: Iterable[Row]) -> Iterator[Text | BadRow]:
        """Texts from rows of fields; the first row must have the columns."""
        text: str | None = None
        layout: Layout | None = None
        for number, (where, row) in enumerate(rows):
            if isinstance(row, BadRow | Text):
                yield row
                continue
            if text is None:
                layout = recognised(row, LAYOUTS, self.text)
                text = self._text_column(name, row, layout)
            yield self._one(where, number, row, text, layout)

    def _text_column(self, name: str, row: Mapping[str, Any], layout: Layout | None) -> str:
        have = listed_names(row) or "none"
        for kind in (self.text, self.label, self.id):
            if (
                kind is not None
                and kind not in row
                and not (layout is not None and kind in layout.made)
            ):
                raise CorpusError(f"{name} has no column {kind!r}; its columns are {have}")
        if self.text is not None:
            return self.text
        if layout is not None:
            return layout.text
        guess = next((column for column in TEXT_COLUMNS if column in row), None)
        if guess is None:
            raise CorpusError(
                f"{name} has no column named {', '.join(TEXT_COLUMNS)}; say which holds the text with text=... (--text); its columns are {have}"
            )
        return guess

    def _one(
        self, where: str, number: int, row: Mapping[str, Any], column: str, layout: Layout | None
    ) -> Text | BadRow:
        id_ = self._id(row, number, layout)
        notes: dict[str, Any] = {WHERE: where}
        try:
            if layout is not None:
                given, notes[layout.annotation] = layout.read(row)
                whole, words = (given, None) if isinstance(given, str) else ("", given)
                return Text(id_, whole, self._label(row, layout), words, notes)
            content = row.get(column)
            if content is None:
                return BadRow(where, f"it has no {column!r}", id_)
            if not isinstance(content, str):
                return BadRow(
                    where, f"its {column!r} is a {type(content).__name__}, not a string", id_
                )
            spans = character_spans(row, content)
            if spans is not None:
                notes[RATIONALE] = spans
            return Text(id_, content, self._label(row, None), annotations=notes)
        except CorpusError as error:
            return BadRow(where, str(error), id_)

    def _id(self, row: Mapping[str, Any], number: int, layout: Layout | None) -> str:
        names = (self.id,) if self.id else layout.ids if layout else ("id",)
        given = (row.get(name) for name in names)
        return next((str(one) for one in given if one is not None and str(one)), str(number))

    def _label(self, row: Mapping[str, Any], layout: Layout | None) -> str | None:
        if layout is not None and self.label in (None, "label"):
            value = layout.label(row)
        else:
            value = None if self.label is None else row.get(self.label)
        if not (
            value is None or (isinstance(value, float) and value != value) or not str(value).strip()
        ):
            return str(value)
        if self.label is not None:
            raise CorpusError(no_label(self.label))
        return None


def _path(path: Path, columns: _Columns) -> Corpus:
    if not os.path.exists(path):  # unlike Path.exists, no error if a whole text was given
        raise CorpusError(f"there is no file {str(path)[:200]}")
    named = columns.are_named
    rows_of(path, named_columns=named)  # an unknown ending is said at once
    return file_corpus(
        str(path), path, lambda: columns.texts(str(path), rows_of(path, named_columns=named))
    )


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
        yield (
            f"DataFrame, row {number}",
            {
                name: (None if pd.isna(value) is True else value)
                for name, value in zip(names, values, strict=True)
            },
        )


def _iterable(source: Iterable[Any], columns: _Columns) -> Corpus:
    def rows() -> Iterator[Row]:
        for number, item in enumerate(source):
            where = f"list, item {number}"
            if isinstance(item, str):
                yield where, {"text": item}
            elif isinstance(item, Text | Mapping):
                yield where, item
            else:
                yield (
                    where,
                    BadRow(
                        where,
                        f"it is a {type(item).__name__}; a corpus is made of strings, Texts or mappings",
                    ),
                )

    return Corpus("list", lambda: columns.texts("list", rows()))


def _hub(name: str, split: str, columns: _Columns) -> Corpus:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise CorpusError(
            "data sets of the hub need an extra; install it with: pip install 'attlas[hub]'"
        ) from error
    fetch: Callable[[], Iterable[Mapping[str, Any]]] = cache(
        partial(load_dataset, name, split=split)
    )

    def rows() -> Iterator[Row]:
        try:
            for number, row in enumerate(fetch()):
                yield f"hub:{name}, row {number}", row
        except CorpusError:
            raise
        except (
            Exception
        ) as error:  # datasets raises many kinds; all mean that this data set cannot be had
            reason = (
                str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            )
            raise CorpusError(
                f"hub:{name} cannot be fetched ({reason[:200]}); check the name and the network, or download it and give the file"
            ) from error

    return Corpus(f"hub:{name}", lambda: columns.texts(f"hub:{name}", rows()))
