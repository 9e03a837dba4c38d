"""What reproductions read: published values, and data sets as their READMEs describe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.corpus import BadRow
from attlas.corpora.rows import Row, csv_rows, jsonl_rows
from attlas.papers import PAPERS, data_folder
from attlas.support.errors import AttlasError, CorpusError
from attlas.support.files import file_sha256

PUBLISHED = Path(__file__).parent / "published"
_RECORD: ContextVar[dict[str, str] | None] = ContextVar("_RECORD", default=None)


def published(name: str, *index: str) -> pd.DataFrame:
    """A table of published values, with some of its columns as the index."""
    frame = pd.read_csv(PUBLISHED / f"{name}.csv", float_precision="round_trip")
    return frame.set_index(list(index)) if index else frame


def check_inputs(paper: str, data_root: str | Path, chosen: Sequence[str]) -> Path:
    """The folder of the data sets, once the parts that were chosen are known to exist."""
    check_choice(PAPERS[paper].kind, chosen, PAPERS[paper].parts)
    return data_folder(data_root)


def check_choice(kind: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse an empty choice, and names that do not exist."""
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        named = f" {unknown[0]!r}" if unknown else ""
        raise AttlasError(f"there is no {kind}{named}; they are {', '.join(known)}")


def require_file(root: Path, *names: str) -> Path:
    """Return a file of a data set, gzip'ed or not; `recorded` notes which one."""
    path = _find(root, *names)
    record = _RECORD.get()
    if record is not None:
        record.setdefault("/".join(names), file_sha256(path))
    return path


@contextmanager
def recorded(root: Path) -> Iterator[dict[str, str]]:
    """Note every file that `require_file` returns: name below `root`, without .gz -> sha256.

    A file that has changed by the end is an error: nobody knows what was read.
    """
    record: dict[str, str] = {}
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)
    for name, sha256 in record.items():
        if present_sha256(root, name) != sha256:
            raise CorpusError(
                f"{name} in {root} changed while it was read; run the same command again"
            )


def present_sha256(root: Path, name: str) -> str | None:
    """Compute the sha256 of a file by the name that `recorded` gave it; None if it is missing."""
    try:
        return file_sha256(_find(root, *name.split("/")))
    except CorpusError:
        return None


def _find(root: Path, *names: str) -> Path:
    path = root.joinpath(*names)
    for candidate in (path, path.with_name(f"{path.name}.gz")):
        if candidate.is_file():
            return candidate
    raise CorpusError(
        f"there is no {path} (or .gz); give the folder of the data sets with --data-root"
    )


def labelled_tsv(
    root: Path, folder: str, name: str, prefix: str, label: str = "0", text: str = "1"
) -> list[Text]:
    """A file of a set with columns and no header, which `label` and `text` number."""
    path = require_file(root, folder, f"{name}.tsv")
    rows = fields_of(csv_rows(path, "\t", header=False), path, label, text)
    return [Text(f"{prefix}-{number}", row[text], row[label]) for number, row in rows]


def labelled_jsonl(root: Path, folder: str, name: str) -> list[Text]:
    """A file of a set with id, label and text in each row (IMDB, arXiv papers, notes)."""
    path = require_file(root, folder, f"{name}.jsonl")
    rows = fields_of(jsonl_rows(path), path, "id", "text", "label")
    return [Text(str(row["id"]), str(row["text"]), str(row["label"])) for _, row in rows]


def cola(root: Path, name: str) -> list[Text]:
    """A file of CoLA: source, label, mark, sentence."""
    return labelled_tsv(root, "cola", name, name, label="1", text="3")


def sst(root: Path, name: str) -> list[Text]:
    """A file of binary SST: label, sentence."""
    return labelled_tsv(root, "sst", f"{name}_binary", f"sst-{name}")


def exclude(texts: list[Text], others: list[Text]) -> list[Text]:
    """The texts that are not among the others."""
    known = {one.text for one in others}
    return [one for one in texts if one.text not in known]


def fields_of(
    rows: Iterator[Row], path: Path, *needed: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a file with their numbers, each with the fields that are needed."""
    number = -1
    for number, (where, row) in enumerate(rows):
        if isinstance(row, BadRow):
            raise row.error()
        if isinstance(row, Text):
            raise CorpusError(f"{path} holds texts, not rows of fields")
        missing = [name for name in needed if row.get(name) is None]
        if missing:
            raise CorpusError(
                f"{where}: it has no {missing[0]!r}; the file must be as its README says"
            )
        yield number, dict(row)
    if number < 0:
        raise CorpusError(f"{path} holds no texts; it is empty")
