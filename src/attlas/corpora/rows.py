"""Rows from files: csv, tsv, jsonl, parquet, plain text; gzip'ed too; read lazily and as bytes, so that a bad row is one bad row."""

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

Row = tuple[
    str, Mapping[str, Any] | Text | BadRow
]  # where it stands; its fields, or a whole text, or why it is none

MIB = 2**20
MOST_BYTES = 32 * MIB  # of a line, of a cell, of a file that is one text
MOST_CHUNK = 1024 * MIB  # of a column in a row group of Parquet, unpacked
MOST_VALUES = 100_000_000  # in a column of a row group
BATCH = 1024  # rows of Parquet that are read together
WIDE = {  # how a file begins that is not UTF-8
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
SHOWN_NAMES = 20

csv.field_size_limit(MOST_BYTES)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked if its name ends in .gz; what goes wrong is one clear line."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            _check_encoding(path, file.peek(256)[:256])
            yield file  # type: ignore[misc]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error


def _check_encoding(path: Path, start: bytes) -> None:
    """Refuse UTF-16 and UTF-32, known by their mark or, without one, by NULs in every other byte."""
    wide = next((name for mark, name in WIDE.items() if start.startswith(mark)), None)
    if (
        wide is None
        and len(start) > 3
        and b"" in (start[::2].strip(b"\0"), start[1::2].strip(b"\0"))
    ):
        wide = "UTF-16"
    if wide is not None:
        raise CorpusError(f"{path} is in {wide}; convert it to UTF-8")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, with line ends, without byte-order mark.

    Bytes that are not UTF-8 become lone surrogates. A line without end is refused, not read.
    """
    with opened(path) as file:
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
    """Rows of a table in text; rows are numbered from 1, the header not counted."""
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
            names = (
                [cell.strip() for cell in cells]
                if header
                else [str(index) for index in range(len(cells))]
            )
            if header:
                _check_names(path, names, delimiter)
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
            yield (
                where,
                dict(zip(names, map(_unquoted, cells) if delimiter != "," else cells, strict=True)),
            )


def _unquoted(cell: str) -> str:
    """A cell of a .tsv: stray quotes are letters there, but a cell that is quoted as a whole is unwrapped."""
    quoted = (
        len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")
    )
    return cell[1:-1].replace('""', '"') if quoted else cell


_PROBLEMS = {
    "unexpected end of data": "a quote is never closed",
    "field larger than field limit": f"a quote is never closed, or a cell is larger than {MOST_BYTES // MIB} MiB",
}


def _cells(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """The line a row begins at and its cells, or what is wrong with it; the rows after it are read all the same."""
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _PROBLEMS.get(str(error).partition(" (")[0], str(error).partition(" - ")[0])
            yield (
                line,
                f"it cannot be cut into cells ({problem}); quote cells that hold quotes, commas or line breaks, and double the quotes in them",
            )


def jsonl_rows(path: Path) -> Iterator[Row]:
    """One JSON object a line."""
    for number, text in lines_of(path):
        where = f"{path}, line {number}"
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
            strings = _check_parquet(path, file)
        with pq.ParquetFile(path, read_dictionary=strings) as file:
            number = 0
            for batch in file.iter_batches(batch_size=BATCH):
                for row in _rows_of(batch):
                    number += 1
                    where = f"{path}, row {number}"
                    yield (
                        where,
                        BadRow(where, "it is not valid UTF-8; convert the file to UTF-8")
                        if row is None
                        else row,
                    )
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from error


def _check_parquet(path: Path, file: Any) -> list[str]:
    """Refuse a file that unpacks to more than memory holds; the names of its columns of strings."""
    import pyarrow as pa

    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group)
        for index in range(rows.num_columns):
            column = rows.column(index)
            size, values = column.total_uncompressed_size, column.num_values
            if size > MOST_CHUNK or values > MOST_VALUES or size > MOST_BYTES * max(1, values):
                raise CorpusError(
                    f"{path}: column {column.path_in_schema!r} of row group {group} unpacks to {size:,} bytes in "
                    f"{values:,} values; write it with smaller row groups (at most {MOST_CHUNK // MIB} MiB) and texts"
                )
    kinds = (pa.string(), pa.large_string())
    return [field.name for field in file.schema_arrow if field.type in kinds]


def _rows_of(batch: Any) -> Iterator[dict[str, Any] | None]:
    """The rows of an Arrow batch; one by one where a text that repeats would fill memory."""
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
        return (
            [row for index in range(len(batch)) for row in _records(batch.slice(index, 1))]
            if len(batch) > 1
            else [None]
        )


def line_rows(path: Path) -> Iterator[Row]:
    """A line, a text; empty lines are skipped."""
    for number, line in lines_of(path):
        text = line.rstrip("\r\n")
        if text.strip():
            yield f"{path}, line {number}", {"text": text}


def folder_rows(path: Path) -> Iterator[Row]:
    """A file, a text: every .txt or .txt.gz below the folder, in order of name."""
    for file in sorted(path.rglob("*.txt")) + sorted(path.rglob("*.txt.gz")):
        if not file.is_file():
            continue
        with opened(file) as content:
            whole = content.read(MOST_BYTES + 1)
        if len(whole) > MOST_BYTES:
            yield (
                str(file),
                BadRow(
                    str(file), f"it is larger than {MOST_BYTES // MIB} MiB; split it into texts"
                ),
            )
            continue
        text = whole.decode("utf-8", "surrogateescape").removeprefix("\ufeff").strip()
        yield str(file), {"text": text, "id": file.relative_to(path).as_posix()}


_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'", ",": "','"}


def _check_names(path: Path, names: list[str], delimiter: str) -> None:
    """Refuse a header that has a name twice, that another character separates, or that is not UTF-8."""
    for separator, called in _SEPARATORS.items():
        if len(names) == 1 and separator != delimiter and separator in names[0]:
            ending = {"\t": "rename it to .tsv", ",": "rename it to .csv"}.get(
                separator, "save it with commas"
            )
            raise CorpusError(
                f"{path}: the header looks separated by {called} ({names[0][:60]!r}); {ending}"
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
    """Names of columns in one line, the first of very many.

    >>> listed_names(["text", "label"]), listed_names(range(30))[-14:]
    ('text, label', '19 and 10 more')
    """
    every = [str(name)[:100] for name in names]
    more = f" and {len(every) - SHOWN_NAMES:,} more" if len(every) > SHOWN_NAMES else ""
    return ", ".join(every[:SHOWN_NAMES]) + more
