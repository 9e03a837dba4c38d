"""File formats of corpora, by file extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from attlas.corpora.layouts.conllu import conllu_rows
from attlas.corpora.layouts.gap import gap_rows, is_gap
from attlas.corpora.layouts.litbank import litbank_rows
from attlas.corpora.rows import Row, csv_rows, folder_rows, jsonl_rows, line_rows, parquet_rows
from attlas.support.errors import CorpusError

READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": csv_rows,
    ".tsv": partial(csv_rows, delimiter="\t"),
    ".jsonl": jsonl_rows,
    ".ndjson": jsonl_rows,
    ".parquet": parquet_rows,
    ".conllu": conllu_rows,
    ".conll": litbank_rows,
    ".txt": line_rows,
    ".text": line_rows,
}


def ending_of(path: Path) -> str:
    """The extension of a file, without .gz.

    >>> ending_of(Path("gum.conllu.gz"))
    '.conllu'
    """
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def rows_of(path: Path, *, named_columns: bool = False) -> Iterator[Row]:
    """Rows of a file or folder; GAP's .tsv is detected by its header, unless columns are named."""
    if path.is_dir():
        return folder_rows(path)
    ending = ending_of(path)
    if ending not in READERS:
        raise CorpusError(
            f"{path} ends in {ending or 'nothing'!r}; "
            f"a corpus is one of {', '.join(READERS)} (also .gz), or a folder of .txt files"
        )
    if ending == ".tsv" and not named_columns and is_gap(path):
        return gap_rows(path)
    return READERS[ending](path)
