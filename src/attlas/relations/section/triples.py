"""Texts with their triples in a page: phrases marked, attention as lines, the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attlas.relations.section.graph import graph_svg
from attlas.relations.section.picture import text_picture
from attlas.relations.section.texts import MEAN, STATUS, STRONGEST, TripleText, texts_of
from attlas.support.files import write_bytes
from attlas.support.outputs import PAGE, check_output
from attlas.views.modules import View, page_scripts
from attlas.views.numbers import number
from attlas.views.page import templates

__all__ = [
    "TRIPLES",
    "TripleTexts",
    "text_html",
    "text_page",
    "texts_of",
    "triples_html",
    "write_page",
]
PACKAGE = __name__.rpartition(".")[0]
BEGIN = 110  # characters of a text that its line shows
TRIPLES = View("triples", PACKAGE)


def text_html(one: TripleText) -> str:
    """A text with the phrases of its first triple marked, its triples to choose from, their graph.

    Lines are drawn by triples.js.
    """
    parts = []
    for (start, stop), roles in one.pieces:
        string = escape(one.string[start:stop])
        first = next((role for index, role in roles if index == 0), "")
        parts.append(f'<mark class="{first}">{string}</mark>' if roles else string)
    status = "<th></th>" if one.judged else ""
    rows = "".join(_row_html(one, index) for index in range(len(one.triples)))
    head = f"<tr><th>triple</th><th>relation</th><th>probability</th>{status}</tr>"
    table = f'<table class="lists">{head}{rows}</table>'
    if not rows:
        table = "<p>No triples above the threshold.</p>"
    picture = graph_svg(one) if one.triples else ""
    return (
        f'<div class="phrases"><p dir="auto">{"".join(parts)}</p></div>'
        '<p class="says id" role="status" aria-live="polite"></p>'
        f'<div class="side"><div>{table}</div><div class="graph">{picture}</div></div>'
    )


def _row_html(one: TripleText, index: int) -> str:
    triple = one.triples[index]
    parts = " ".join(
        f'<b class="{role}" dir="auto">{escape(one.phrase(triple.spans[role]))}</b>'
        for role in ("h", "r", "t")
        if role in triple.spans
    )
    status = f'<td class="{triple.status}">{STATUS[triple.status]}</td>' if one.judged else ""
    pressed = "true" if index == 0 else "false"
    return (
        f'<tr><td><button type="button" data-triple="{index}" aria-pressed="{pressed}">{parts}'
        f'</button></td><td dir="auto">{escape(triple.relation)}</td>'
        f"<td>{number(triple.probability)}</td>{status}</tr>"
    )


def triples_html(texts: Sequence[TripleText], first: int = 1) -> str:
    """Texts with their triples, the first ones open; triples.js draws the lines."""
    shown = [
        {
            "title": one.title,
            "begins": one.string[:BEGIN] + ("..." if len(one.string) > BEGIN else ""),
            "summary": one.summary,
            "html": Markup(text_html(one)),
            "open": index < first,
        }
        for index, one in enumerate(texts)
    ]
    page = templates(PACKAGE).get_template("triples_part.html")
    judged = any(one.judged for one in texts)
    return page.render(texts=shown, judged=judged, strongest=STRONGEST, mean=MEAN)


@dataclass(frozen=True, eq=False)
class TripleTexts:
    """Texts with their triples, as a part of a figure."""

    texts: tuple[TripleText, ...]
    view: View = TRIPLES

    @property
    def data(self) -> Any:
        return [{"text": one.title, "triples": one.data} for one in self.texts]

    def html(self, number: int) -> str:
        return self.view.html(number, triples_html(self.texts), "attlas-triples")

    def pictures(self) -> list[str]:
        return [text_picture(one) for one in self.texts]


def text_page(one: TripleText, model: str) -> str:
    """A page that needs nothing else."""
    page = templates(PACKAGE).get_template("triples.html")
    shown = TripleTexts((one,))
    scripts = page_scripts({TRIPLES: [shown.data]})
    return page.render(content=Markup(shown.html(0)), model=model, **scripts)


def write_page(one: TripleText, model: str, path: str | Path, *, force: bool = False) -> Path:
    """Write the page of one text."""
    path = check_output(path, [PAGE], force)
    write_bytes(path, text_page(one, model).encode("utf-8", "replace"))
    return path
