"""Rows of csv, tsv, jsonl, Parquet and text files, also gzipped.

Files are read lazily and as bytes, so that a bad row does not affect the others.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from attlas.core.text import Text
from attlas.corpora.corpus import BadRow
from attlas.support.errors import CorpusError

# file and row; its fields, or a whole text, or why it is invalid
Row = tuple[str, Mapping[str, Any] | Text | BadRow]

MIB = 2**20
MOST_BYTES = 32 * MIB  # of a line, of a cell, of a file that is one text
MOST_CHUNK = 1024 * MIB  # of a column in a row group of Parquet, decompressed
MOST_VALUES = 100_000_000  # in a column of a row group
BATCH = 1024  # rows of Parquet that are read together
WIDE = {  # first bytes of files that are not UTF-8
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
SHOWN_NAMES = 20
NOT_UTF8 = "it is not valid UTF-8; convert the file to UTF-8"

csv.field_size_limit(MOST_BYTES)


def bad_row(where: str, reason: str) -> tuple[str, BadRow]:
    """A row that is invalid for this reason."""
    return where, BadRow(where, reason)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its name ends in .gz; failures become CorpusErrors."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            _check_encoding(path, file.peek(256)[:256])
            yield file  # type: ignore[misc]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} is a truncated or corrupt gzip file: {error}") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error


def _check_encoding(path: Path, start: bytes) -> None:
    """Refuse UTF-16 and UTF-32, detected by byte-order mark or by NULs in every other byte."""
    wide = next((name for mark, name in WIDE.items() if start.startswith(mark)), None)
    halves = start[::2], start[1::2]
    if wide is None and len(start) > 3 and any(not half.strip(b"\0") for half in halves):
        wide = "UTF-16"
    if wide is not None:
        raise CorpusError(f"{path} is in {wide}; convert it to UTF-8")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, with line ends, without byte-order mark.

    Bytes that are not UTF-8 become lone surrogates. Overlong lines are refused.
    """
    with open_bytes(path) as file:
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if len(line) > MOST_BYTES:
                raise CorpusError(
                    f"{path}, line {number}: it is longer than {MOST_BYTES // MIB} MiB; "
                    "split it into texts, one per line"
                )
            text = line.decode("utf-8", "surrogateescape")
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def csv_rows(path: Path, delimiter: str = ",", header: bool = True) -> Iterator[Row]:
    """Rows of a delimited text file; rows are numbered from 1, the header not counted."""
    lines = (line for _, line in lines_of(path))
    if delimiter == ",":
        reader = csv.reader(lines, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    names: list[str] | None = None
    number = 0
    for line, cells in _cells(reader):
        if not cells:
            continue
        if names is None:
            if isinstance(cells, str):
                raise CorpusError(f"{path}, line {line}: {cells}")
            if header:
                names = [cell.strip() for cell in cells]
                _check_names(path, names, delimiter)
                continue
            names = [str(index) for index in range(len(cells))]
        number += 1
        where = f"{path}, row {number} (line {line})"
        if isinstance(cells, str):
            if "never closed" in cells:  # the rest of the file is inside the quote
                raise CorpusError(f"{where}: {cells}")
            yield bad_row(where, cells)
        elif len(cells) != len(names):
            expected = f"the header has {len(names)}; quote cells that contain the delimiter"
            yield bad_row(where, f"it has {len(cells)} cells, but {expected}")
        else:
            cells = cells if delimiter == "," else list(map(_unquoted, cells))
            yield where, dict(zip(names, cells, strict=True))


def _unquoted(cell: str) -> str:
    """Unwrap a cell of a .tsv that is quoted as a whole; stray quotes are kept as characters."""
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell


_TOO_LARGE = f"a cell is larger than {MOST_BYTES // MIB} MiB"
_PROBLEMS = {
    "unexpected end of data": "a quote is never closed",
    "field larger than field limit": f"a quote is never closed, or {_TOO_LARGE}",
}


def _cells(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """The first line of each row and its cells, or what is wrong with it; later rows follow."""
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _PROBLEMS.get(str(error).partition(" (")[0], str(error).partition(" - ")[0])
            fix = "quote cells that contain quotes, commas or line breaks, and double their quotes"
            yield line, f"it cannot be split into cells ({problem}); {fix}"


def jsonl_rows(path: Path) -> Iterator[Row]:
    """One JSON object per line."""
    for number, text in lines_of(path):
        where = f"{path}, line {number}"
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            problem = str(error) or type(error).__name__
            yield bad_row(where, f"it is not JSON ({problem}); each line must be one JSON object")
            continue
        if isinstance(row, dict):
            yield where, row
        else:
            got = f"it is a JSON {type(row).__name__}, not an object"
            yield bad_row(where, f'{got}; each line must be like {{"text": ...}}')


def parquet_rows(path: Path) -> Iterator[Row]:
    """Rows of a Parquet file, a batch at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            strings = _check_parquet(path, file)
        with pq.ParquetFile(path, read_dictionary=strings) as file:
            batches = file.iter_batches(batch_size=BATCH)
            rows = (row for batch in batches for row in _rows_of(batch))
            for number, row in enumerate(rows, 1):
                where = f"{path}, row {number}"
                yield bad_row(where, NOT_UTF8) if row is None else (where, row)
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from error


def _check_parquet(path: Path, file: Any) -> list[str]:
    """Refuse a file too large for memory; return the names of its string columns."""
    import pyarrow as pa

    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group)
        for index in range(rows.num_columns):
            column = rows.column(index)
            size, values = column.total_uncompressed_size, column.num_values
            if size > MOST_CHUNK or values > MOST_VALUES or size > MOST_BYTES * max(1, values):
                raise CorpusError(
                    f"{path}: column {column.path_in_schema!r} of row group {group} decompresses "
                    f"to {size:,} bytes in {values:,} values; write it with smaller row groups "
                    f"(at most {MOST_CHUNK // MIB} MiB) and texts"
                )
    kinds = (pa.string(), pa.large_string())
    return [field.name for field in file.schema_arrow if field.type in kinds]


def _rows_of(batch: Any) -> Iterator[dict[str, Any] | None]:
    """The rows of an Arrow batch; one by one where repeated texts would fill memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    longest = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            longest = max(longest, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
    if longest * len(batch) <= MOST_BYTES:
        yield from _records(batch)
        return
    for index in range(len(batch)):
        yield from _records(batch.slice(index, 1))


def _records(batch: Any) -> list[dict[str, Any] | None]:
    """The rows of an Arrow batch, None for one that is not valid UTF-8."""
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        if len(batch) == 1:
            return [None]
        return [row for index in range(len(batch)) for row in _records(batch.slice(index, 1))]


def line_rows(path: Path) -> Iterator[Row]:
    """One text per line; empty lines are skipped."""
    for number, line in lines_of(path):
        text = line.rstrip("\r\n")
        if text.strip():
            yield f"{path}, line {number}", {"text": text}


def folder_rows(path: Path) -> Iterator[Row]:
    """One text per file: every .txt or .txt.gz below the folder, sorted by name."""
    try:
        files = sorted(path.rglob("*.txt")) + sorted(path.rglob("*.txt.gz"))
    except OSError as error:  # a folder in it was removed meanwhile, as in /proc
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
    for file in files:
        if not file.is_file():
            continue
        with open_bytes(file) as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            limit = f"{MOST_BYTES // MIB} MiB"
            yield bad_row(str(file), f"it is larger than {limit}; split it into texts")
            continue
        text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff").strip()
        yield str(file), {"text": text, "id": file.relative_to(path).as_posix()}


_SEPARATORS = {  # name and fix
    ";": ("';'", "save it with commas"),
    "\t": ("tabs", "rename it to .tsv"),
    "|": ("'|'", "save it with commas"),
    ",": ("','", "rename it to .csv"),
}


def _check_names(path: Path, names: list[str], delimiter: str) -> None:
    """Refuse a header with repeated names, with another delimiter, or that is not UTF-8."""
    for separator, (name, fix) in _SEPARATORS.items():
        if len(names) == 1 and separator != delimiter and separator in names[0]:
            raise CorpusError(
                f"{path}: the header looks separated by {name} ({names[0][:60]!r}); {fix}"
            )
    if any("\udc80" <= letter <= "\udcff" for name in names for letter in name):
        raise CorpusError(
            f"{path} is not UTF-8; it looks like Latin-1 or Windows-1252: convert it to UTF-8"
        )
    refuse_repeated(str(path), names)


def refuse_repeated(source: str, names: list[str]) -> None:
    """Refuse a table in which two columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise CorpusError(
            f"{source} has more than one column named {listed_names(twice)}; rename them"
        )


def listed_names(names: Iterable[Any]) -> str:
    """Names of columns in one line, shortened if there are many.

    >>> listed_names(["text", "label"]), listed_names(range(30))[-14:]
    ('text, label', '19 and 10 more')
    """
    every = [str(name)[:100] for name in names]
    more = f" and {len(every) - SHOWN_NAMES:,} more" if len(every) > SHOWN_NAMES else ""
    return ", ".join(every[:SHOWN_NAMES]) + more
