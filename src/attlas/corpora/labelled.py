"""Texts with labels: the first without one is an error."""

from __future__ import annotations

from typing import Any

from attlas.core.annotations import WHERE
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow, no_label
from attlas.corpora.read import read


def labelled(texts: Any, text: str | None = None, label: str | None = "label") -> list[Text]:
    """Texts from anything that `read` takes, each with a label; the first without one is an error.

    >>> [one.label for one in labelled([{"text": "a cat", "label": 1}])]
    ['1']
    """
    corpus = read(texts, text=text, label=label)
    out = list(corpus)
    for one in out:
        if one.label is None:
            where = one.annotations.get(WHERE, f"{corpus.name}, text {one.id!r}")
            raise BadRow(where, no_label(label), one.id).error()
    return out
