"""The body of a page of a study: its parts, their data, and links from names of heads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from attlas.views.page import inline_json
from attlas.web.frame import render

if TYPE_CHECKING:
    from attlas.studies.opened import Study
    from attlas.views.all_heads import Drawn
    from attlas.views.placed import PageData
    from attlas.views.section import Section

HEAD = re.compile(r"(?<![\w./-])L\d+H\d+(?![\w-])")
TAG = re.compile(r"(<[^>]*>)")
NAMED = re.compile(r"</?([a-z0-9]+)")
CLOSED = ("a", "button", "option", "script", "svg", "title")  # elements without links in them


def linked_heads(html: str, base: str) -> Markup:
    """A page in which names of heads lead to the page of the head.

    >>> linked_heads("<p>L2H7 and <a>L2H8</a></p>", "/s/x/head/")
    Markup('<p><a href="/s/x/head/L2H7">L2H7</a> and <a>L2H8</a></p>')
    """
    depth, out = 0, []
    for piece in TAG.split(html):
        found = NAMED.match(piece)
        if found is None:
            link = rf'<a href="{base}\g<0>">\g<0></a>'
            out.append(piece if depth else HEAD.sub(link, piece))
            continue
        if found[1] in CLOSED and not piece.endswith("/>"):
            depth += -1 if piece.startswith("</") else 1
        out.append(piece)
    return Markup("".join(out))


def page_body(
    html: Markup, data: PageData | None, chosen: Mapping[str, Any], base: str, styles: str = ""
) -> Markup:
    """The elements of a page, with the data that its views and charts need after them."""
    scripts: dict[str, Any] = {"views": "{}", "values": inline_json(dict(chosen)), "charts": ""}
    if data is not None:
        from attlas.views.report import chart_data

        by_module = {one.module: items for one, items in data.views.items()}
        scripts["views"] = inline_json(by_module)
        scripts["charts"] = chart_data(data) if data.specs else ""
    return linked_heads(html, base) + render("scripts.html", **scripts)


def drawn_sections(study: Study, wanted: Callable[[Section], bool]) -> list[Drawn]:
    """Those sections that the tables of a study are enough for."""
    from attlas.catalogue import sections
    from attlas.views.section import shown

    able = [(name, one) for name, one in shown(study, sections()) if wanted(one)]
    return [(name, one, one.figures(study)) for name, one in able]
