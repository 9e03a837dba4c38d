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
from attlas.views.tables import TextTable

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
    table, picture = "<p>No triples above the threshold.</p>", ""
    if one.triples:
        table, picture = _triples_table(one).html(), graph_svg(one)
    return (
        f'<div class="phrases"><p dir="auto">{"".join(parts)}</p></div>'
        '<p class="says id" role="status" aria-live="polite"></p>'
        f'<div class="side"><div>{table}</div><div class="graph">{picture}</div></div>'
    )


def _triples_table(one: TripleText) -> TextTable:
    """The triples of a text, each with a button that chooses it."""
    titles = ("triple", "relation", "probability", *([""] if one.judged else []))
    rows = tuple(_cells(one, index) for index in range(len(one.triples)))
    return TextTable(titles, rows, (True, True, False, True))


def _cells(one: TripleText, index: int) -> tuple[str, ...]:
    triple = one.triples[index]
    phrases = Markup(" ").join(
        Markup('<b class="{}" dir="auto">{}</b>').format(role, one.phrase(triple.spans[role]))
        for role in ("h", "r", "t")
        if role in triple.spans
    )
    button = Markup('<button type="button" data-triple="{}" aria-pressed="{}">{}</button>')
    status = Markup('<span class="{}">{}</span>').format(triple.status, STATUS[triple.status])
    return (
        button.format(index, "false" if index else "true", phrases),
        Markup("<bdi>{}</bdi>").format(triple.relation),
        number(triple.probability),
        *([status] if one.judged else []),
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
