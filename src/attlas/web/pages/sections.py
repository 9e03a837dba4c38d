"""The pages that show sections of the report by group: topology, explanations, probes, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from attlas.web.body import drawn_sections, page_body
from attlas.web.frame import render, study_page
from attlas.web.library import Entry
from attlas.web.tabs import TAB, TABS, Tab, command

if TYPE_CHECKING:
    from attlas.studies.opened import Study

router = APIRouter(include_in_schema=False)


@router.get("/s/{study}")
def first_page(study: str) -> RedirectResponse:
    """The address of a study leads to its heads."""
    return RedirectResponse(f"/s/{study}/{TABS[0].name}", 307)


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

    drawn = drawn_sections(study, tab.groups)
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
    """What the address of a head begins with."""
    return f"/s/{entry.id}/head/"
