"""Corpus: a lazy source of texts in a fixed order that reports the rows it cannot read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from attlas.core.annotations import WHERE
from attlas.core.text import Text
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import Put, feed


@dataclass(frozen=True)
class BadRow:
    """A row without a usable text: its file and row, the reason, and its id if known."""

    where: str
    reason: str
    id: str | None = None

    def error(self) -> CorpusError:
        return CorpusError(f"{self.where}: {self.reason}")


@dataclass(frozen=True)
class Labelled:
    """Texts with labels, and the excluded rows with their index in the source."""

    texts: list[Text]
    excluded: list[tuple[int, BadRow]]


def no_label(column: str | None) -> str:
    """The reason why a row without a label is refused."""
    fix = "name another column with label=... (--label), or remove the row"
    return f"it has no label in {column or 'label'!r}; {fix}"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts that can be read repeatedly. `rows` yields bad rows too; iterating raises on them."""

    name: str
    source: Callable[[], Iterable[Text | BadRow]]

    def rows(self) -> Iterator[Text | BadRow]:
        """Every row in order: a text, or a BadRow; a text with a repeated id is a bad row too."""
        seen: set[str] = set()
        for row in self.source():
            if isinstance(row, BadRow):
                yield row
                continue
            problem = row.problem()
            if problem is None and row.id in seen:
                problem = "an earlier text has the same id; name another column with id=... (--id)"
            seen.add(row.id)
            if problem is None:
                yield row
            else:
                where = row.annotations.get(WHERE, f"{self.name}, text {row.id!r}")
                yield BadRow(where, problem, row.id)

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
