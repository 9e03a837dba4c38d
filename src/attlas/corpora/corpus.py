"""Corpus: a lazy source of texts in a fixed order, that says which rows it could not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from attlas.core.annotations import WHERE
from attlas.core.text import Text
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import Put, feed


@dataclass(frozen=True)
class BadRow:
    """A row that is no text: where it stands, why, and perhaps its id."""

    where: str
    reason: str
    id: str | None = None

    def error(self) -> CorpusError:
        return CorpusError(f"{self.where}: {self.reason}")


@dataclass(frozen=True)
class Labelled:
    """Texts with labels, and the rows that are not: each with its place in the source."""

    texts: list[Text]
    excluded: list[tuple[int, BadRow]]


def no_label(column: str | None) -> str:
    """What is wrong with a row or text without a label."""
    return f"it has no label in {column or 'label'!r}; name another column with label=... (--label), or leave it out"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts that can be read again and again. `rows` yields bad rows too; iterating raises at the first one."""

    name: str
    source: Callable[[], Iterable[Text | BadRow]]

    def rows(self) -> Iterator[Text | BadRow]:
        """Every row in order: a text, or why it is none. An id that comes twice is a bad row."""
        seen: set[str] = set()
        for row in self.source():
            if isinstance(row, BadRow):
                yield row
                continue
            where = f"{self.name}, text {row.id!r}"
            defect = row.defect()
            if defect is None and row.id in seen:
                defect = "an earlier text has the same id; name another column with id=... (--id)"
            seen.add(row.id)
            yield (
                row if defect is None else BadRow(row.annotations.get(WHERE, where), defect, row.id)
            )

    def __iter__(self) -> Iterator[Text]:
        for row in self.rows():
            if isinstance(row, BadRow):
                raise row.error()
            yield row


@feed.register
def _(row: BadRow, put: Put) -> None:
    feed(("bad row", row.id, row.reason), put)


@feed.register
def _(corpus: Corpus, put: Put) -> None:
    """All rows in order, bad ones included; the name does not count."""
    for row in corpus.rows():
        feed(row, put)
