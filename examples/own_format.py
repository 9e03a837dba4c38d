"""A format of one's own: reviews whose reasons are marked with asterisks, as in "A *dull* film".

In Attlas it would be a file in `src/attlas/corpora/layouts/` and a name in `LAYOUTS` of
`src/attlas/corpora/read.py`. Run it: python examples/own_format.py
"""

from __future__ import annotations

import importlib

import attlas
from attlas.core.annotations import RATIONALE
from attlas.corpora.layouts.base import Fields, Layout, Spans, string_of
from attlas.support.errors import CorpusError


def marked(row: Fields) -> tuple[str, Spans]:
    """Return the text without asterisks, and the character spans that stood between them.

    >>> marked({"marked": "A *dull* film"})
    ('A dull film', ((2, 6),))
    """
    pieces = string_of(row, "marked").split("*")
    if len(pieces) % 2 == 0:
        raise CorpusError(f"its 'marked' has {len(pieces) - 1} asterisks; they must come in pairs")
    text, spans = "", []
    for number, piece in enumerate(pieces):
        if number % 2:
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, tuple(spans)


MARKED = Layout(RATIONALE, "marked", lambda row: "*" in str(row["marked"]), marked)


if __name__ == "__main__":
    reading = importlib.import_module("attlas.corpora.read")
    reading.LAYOUTS = (*reading.LAYOUTS, MARKED)  # type: ignore[attr-defined]
    for one in attlas.read([{"marked": "A *dull* film", "label": "negative"}]):
        print(one.text, one.label, one.annotations[RATIONALE])
