"""What all pages have around them: the studies, the pages of the chosen one, and its scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from attlas.views.page import templates
from attlas.web import assets
from attlas.web.library import Entry, Library
from attlas.web.tabs import TABS, filled_tabs

if TYPE_CHECKING:
    from attlas.studies.opened import Study

PACKAGE = "attlas.web"


def library_of(request: Request) -> Library:
    """The library of the application."""
    library: Library = request.app.state.library
    return library


def render(template: str, **words: Any) -> Markup:
    """A part of a page."""
    return Markup(templates(PACKAGE).get_template(template).render(**words))


def page(
    request: Request,
    title: str,
    body: Markup,
    *,
    entry: Entry | None = None,
    tab: str = "",
    kind: str = "",
    status: int = 200,
) -> HTMLResponse:
    """A page around its body. `kind` is what the frame's script knows it by."""
    library = library_of(request)
    words = {
        "title": title,
        "body": body,
        "entry": entry,
        "entries": [one for one in library.entries() if one.is_open],
        "tabs": TABS if entry else (),
        "filled": library.kept(entry, filled_tabs) if entry and entry.is_open else (),
        "tab": tab,
        "kind": kind,
        "static": assets.address(),
        "preloads": assets.preloads(),
    }
    return HTMLResponse(render("frame.html", **words), status)


def study_page(
    request: Request,
    study: str,
    tab: str,
    title: str,
    make: Callable[[Study, Entry], Markup],
    *names: str,
    kind: str = "",
) -> HTMLResponse:
    """A page of a study, whose body is made once and kept as long as the study stays as it is.

    `names` are what the body depends on besides the page itself.
    """
    library = library_of(request)
    entry = library.entry(study)
    if not entry.is_open:
        body = render("closed.html", entry=entry)
        return page(request, entry.name, body, entry=entry, tab=tab)
    kept = library.cached(
        entry, (tab, kind, *names), lambda opened: make(opened, entry).encode("utf-8", "replace")
    )
    heading = f"{title} · {entry.name}"
    return page(request, heading, Markup(kept.decode()), entry=entry, tab=tab, kind=kind)


def problem_page(request: Request, words: str, status: int) -> HTMLResponse:
    """One sentence in place of a page."""
    body = render("problem.html", words=words[:1].upper() + words[1:], status=status)
    return page(request, "Not available", body, status=status)
