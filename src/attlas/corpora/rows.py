"""Rows from files: csv, tsv, jsonl, parquet, plain text; gzip'ed too; read lazily and as bytes, so that a bad row is one bad row."""

from __future__ import annotations

import csv
import gzip
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from attlas.core.text import Text
from attlas.corpora.corpus import BadRow
from attlas.support.errors import CorpusError

Row = tuple[str, Mapping[str, Any] | Text | BadRow]  # where it stands; its fields, or a whole text, or why it is none

csv.field_size_limit(sys.maxsize)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked if its name ends in .gz; what goes wrong is one clear line."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error


def csv_rows(path: Path, delimiter: str = ",", header: bool = True) -> Iterator[Row]:
    """Rows of a table in text; rows are numbered from 1, the header not counted."""
    with opened(path) as file:
        lines = (line.decode("utf-8", "surrogateescape") for line in file)
        if delimiter == ",":
            reader = csv.reader(_without_mark(lines), strict=True)
        else:
            reader = csv.reader(_without_mark(lines), delimiter=delimiter, quoting=csv.QUOTE_NONE)
        names: list[str] | None = None
        number = 0
        for line, cells in _cells(reader):
            if not cells:
                continue
            if names is None:
                if isinstance(cells, str):
                    raise CorpusError(f"{path}, line {line}: {cells}")
                names = [cell.strip() for cell in cells] if header else [str(index) for index in range(len(cells))]
                _distinct(path, names)
                if header:
                    continue
            number += 1
            where = f"{path}, row {number} (line {line})"
            if isinstance(cells, str):
                if "never closed" in cells:  # all that follows stands inside it
                    raise CorpusError(f"{where}: {cells}")
                yield where, BadRow(where, cells)
            elif len(cells) != len(names):
                yield (
                    where,
                    BadRow(
                        where,
                        f"it has {len(cells)} cells, but the header has {len(names)}; quote cells that hold the delimiter",
                    ),
                )
            else:
                yield where, dict(zip(names, map(_unquoted, cells) if delimiter != "," else cells, strict=True))


def _unquoted(cell: str) -> str:
    """A cell of a .tsv: stray quotes are letters there, but a cell that is quoted as a whole is unwrapped."""
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")
    return cell[1:-1].replace('""', '"') if quoted else cell


def _cells(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """The line a row begins at and its cells, or what is wrong with it; the rows after it are read all the same."""
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = "a quote is never closed" if "end of data" in str(error) else str(error).partition(" - ")[0]
            yield (
                line,
                f"it cannot be cut into cells ({problem}); quote cells that hold quotes, commas or line breaks, and double the quotes in them",
            )


def jsonl_rows(path: Path) -> Iterator[Row]:
    """One JSON object a line."""
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            text = line.decode("utf-8", "surrogateescape")
            if number == 1:
                text = text.removeprefix("\ufeff")
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield (
                    where,
                    BadRow(
                        where,
                        f"it is not JSON ({str(error) or type(error).__name__}); each line must be one JSON object",
                    ),
                )
                continue
            if not isinstance(row, dict):
                yield (
                    where,
                    BadRow(
                        where,
                        f'it is a JSON {type(row).__name__}, not an object; each line must be like {{"text": ...}}',
                    ),
                )
                continue
            yield where, row


def parquet_rows(path: Path) -> Iterator[Row]:
    """Rows of a Parquet file, a batch at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=1024):
                for row in _records(batch):
                    number += 1
                    where = f"{path}, row {number}"
                    yield (
                        where,
                        BadRow(where, "it is not valid UTF-8; convert the file to UTF-8") if row is None else row,
                    )
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from error


def _records(batch: Any) -> list[dict[str, Any] | None]:
    """The rows of an Arrow batch, None for one that is not valid UTF-8."""
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        return (
            [row for index in range(len(batch)) for row in _records(batch.slice(index, 1))]
            if len(batch) > 1
            else [None]
        )


def line_rows(path: Path) -> Iterator[Row]:
    """A line, a text; empty lines are skipped."""
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            text = line.decode("utf-8", "surrogateescape")
            text = (text.removeprefix("\ufeff") if number == 1 else text).rstrip("\r\n")
            if text.strip():
                yield f"{path}, line {number}", {"text": text}


def folder_rows(path: Path) -> Iterator[Row]:
    """A file, a text: every .txt or .txt.gz below the folder, in order of name."""
    for file in sorted(path.rglob("*.txt")) + sorted(path.rglob("*.txt.gz")):
        if not file.is_file():
            continue
        with opened(file) as content:
            text = content.read().decode("utf-8", "surrogateescape").removeprefix("\ufeff").strip()
        yield str(file), {"text": text, "id": file.relative_to(path).as_posix()}


def _without_mark(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield line.removeprefix("\ufeff") if number == 0 else line


def _distinct(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CorpusError(f"{path} has more than one column named {', '.join(twice)}; rename them")
