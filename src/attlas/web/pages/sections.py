"""The pages that show sections of the report by group: topology, explanations, probes, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from attlas.web.body import drawn_sections, page_body
from attlas.web.frame import library_of, render, study_page
from attlas.web.library import Entry
from attlas.web.tabs import TAB, TABS, Tab, command, filled_tabs, is_shown

if TYPE_CHECKING:
    from attlas.studies.opened import Study

router = APIRouter(include_in_schema=False)


@router.get("/s/{study}")
def first_page(request: Request, study: str) -> RedirectResponse:
    """The address of a study leads to the first of its pages that has something to show."""
    library = library_of(request)
    entry = library.entry(study)
    filled = library.kept(entry, filled_tabs) if entry.is_open else ()
    first = next((one for one in TABS if one.name in filled), TABS[0])
    return RedirectResponse(f"/s/{entry.id}/{first.name}", 307)


@router.get("/s/{study}/{tab}")
def sections_page(request: Request, study: str, tab: str) -> HTMLResponse:
    """The sections of a study under the headings of a page."""
    if tab not in TAB:
        raise HTTPException(404, "there is no such page")
    about = TAB[tab]
    return study_page(
        request, study, tab, about.title, lambda opened, entry: sections_body(opened, entry, about)
    )


def sections_body(study: Study, entry: Entry, tab: Tab) -> Markup:
    """The sections of a page, or which command makes them."""
    from attlas.catalogue import sections
    from attlas.views.findings import origins
    from attlas.views.placed import PageData
    from attlas.views.report import section_parts

    drawn = drawn_sections(study, lambda one: is_shown(one, tab))
    if not drawn:
        return page_body(empty(tab, entry), None, {}, head_base(entry))
    page = PageData()
    several = len(origins(study, sections())) > 1
    parts = section_parts(study, drawn, page, several=several)
    html = render("sections_page.html", title=tab.title, about=tab.about, parts=parts)
    return page_body(html, page, {}, head_base(entry))


def empty(tab: Tab, entry: Entry) -> Markup:
    """What a page would show, and the command that makes it."""
    made = command(tab, entry)
    return render("empty.html", title=tab.lacks, about=tab.about, command=made, after=tab.after)


def head_base(entry: Entry) -> str:
    """What the address of a head begins with: its own page, or its changes in a comparison."""
    return f"/s/{entry.id}/{'head/' if entry.has_heads else 'compare?head='}"
