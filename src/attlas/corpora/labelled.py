"""Texts with labels: those that an experiment uses, and the rows that it excludes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attlas.core.annotations import WHERE
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow, Labelled, no_label
from attlas.corpora.read import read
from attlas.support.errors import CorpusError


def labelled(texts: Any, text: str | None = None, label: str | None = "label") -> list[Text]:
    """Texts from anything that `read` takes, each with a label; the first without one is an error.

    >>> [one.label for one in labelled([{"text": "a cat", "label": 1}])]
    ['1']
    """
    return list(map(_good, _rows(texts, text, label)))


def read_labelled(source: Any, text: str | None = None, label: str | None = "label") -> Labelled:
    """The same, but bad rows and rows without a label are excluded, as in a study.

    >>> rows = read_labelled([{"text": "a cat", "label": 1}, {"text": "a dog", "label": ""}])
    >>> len(rows.texts), [index for index, _ in rows.excluded]
    (1, [1])
    """
    texts, excluded = list[Text](), list[tuple[int, BadRow]]()
    for index, row in enumerate(_rows(source, text, label)):
        if isinstance(row, BadRow):
            excluded.append((index, row))
        else:
            texts.append(row)
    if excluded and not texts:
        first = excluded[0][1]
        raise CorpusError(f"no row can be used: {first.where}: {first.reason}")
    return Labelled(texts, excluded)


def _rows(source: Any, text: str | None, label: str | None) -> Iterator[Text | BadRow]:
    """Every row: a text with a label, or a BadRow."""
    corpus = read(source, text=text, label=label)
    for row in corpus.rows():
        if isinstance(row, BadRow) or row.label is not None:
            yield row
        else:
            where = row.annotations.get(WHERE, f"{corpus.name}, text {row.id!r}")
            yield BadRow(where, no_label(label), row.id)


def _good(row: Text | BadRow) -> Text:
    if isinstance(row, BadRow):
        raise row.error()
    return row
