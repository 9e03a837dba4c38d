"""All heads of a study, and the page of one head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from attlas.support.heads import parse_head
from attlas.views.numbers import head_name
from attlas.web.body import drawn_sections, page_body
from attlas.web.frame import library_of, render, study_page
from attlas.web.library import Entry, Library, UnknownStudyError
from attlas.web.pages.sections import empty, head_base
from attlas.web.tabs import TAB, TABS, is_shown

if TYPE_CHECKING:
    from attlas.studies.opened import Study
    from attlas.views.all_heads import Drawn

router = APIRouter(include_in_schema=False)
ATLAS = TAB["atlas"]


@router.get("/s/{study}/atlas")
def atlas(request: Request, study: str) -> HTMLResponse:
    """The grid of all heads, the card of the chosen one, findings, and what heads attend to."""
    library = library_of(request)
    return study_page(
        request, study, "atlas", "Atlas", lambda opened, entry: atlas_body(opened, entry, library)
    )


@router.get("/s/{study}/head/{head}")
def head(request: Request, study: str, head: str) -> HTMLResponse:
    """The card of one head, with all heads next to it."""
    library = library_of(request)
    check_head(library.entry(study), head)
    return study_page(
        request,
        study,
        "atlas",
        head,
        lambda opened, entry: head_body(opened, entry, library),
        kind="head",
    )


def check_head(entry: Entry, name: str) -> tuple[int, int]:
    """The layer and the index of a head, which the model of the study has."""
    layer, index = parse_head(name)
    model = entry.manifest.get("model") or {}
    if not (layer < model.get("n_layers", 0) and index < model.get("n_heads", 0)):
        raise UnknownStudyError(f"the model of this study has no head {name}")
    if head_name({"layer": layer, "head": index}) != name:
        raise UnknownStudyError(f"there is no head {name}; write it as L2H10")
    return layer, index


def sections_of_heads(study: Study) -> list[Drawn]:
    """The sections that declare numbers of heads, and those on attention; others are not drawn."""
    return drawn_sections(study, lambda one: is_shown(one, ATLAS))


def atlas_body(study: Study, entry: Entry, library: Library) -> Markup:
    """All heads, and below them the sections on attention."""
    from attlas.catalogue import sections
    from attlas.views.dots import dot_svg
    from attlas.views.findings import findings, opening, origins, warnings
    from attlas.views.placed import PageData
    from attlas.views.report import finding_table, head_workbench, headline, section_parts

    every, page = sections(), PageData()
    found = opening(findings(study, every))
    drawn = library.kept(entry, sections_of_heads)
    heads, chosen = head_workbench(study, every, drawn, found, page)
    several = len(origins(study, every)) > 1
    own = [one for one in drawn if one[1].group in ATLAS.groups]
    words = {
        "title": entry.name,
        "headline": headline(study.manifest),
        "warnings": warnings(study, every),
        "heads": heads,
        "empty": empty(ATLAS, entry) if heads is None else "",
        "findings": found,
        "finding_table": Markup(finding_table(found).html()),
        "dots": dot_svg,
        "several": several,
        "where": {name: f"/s/{entry.id}/{_tab_of(one.group)}" for name, one in every.items()},
        "parts": section_parts(study, own, page, several=several),
        "own_page": head_base(entry),
    }
    return page_body(render("atlas.html", **words), page, {"head": chosen}, head_base(entry))


def _tab_of(group: str) -> str:
    """The page that shows the sections under a heading."""
    return next((one.name for one in TABS if group in one.groups), ATLAS.name)


def head_body(study: Study, entry: Entry, library: Library) -> Markup:
    """The card of the head in the address, wide, and a small grid of all heads."""
    from attlas.catalogue import sections
    from attlas.views.findings import findings, opening
    from attlas.views.placed import PageData
    from attlas.views.report import head_workbench

    page, every = PageData(), sections()
    found = opening(findings(study, every))
    heads, _ = head_workbench(study, every, library.kept(entry, sections_of_heads), found, page)
    words = {"heads": heads, "empty": empty(ATLAS, entry) if heads is None else ""}
    return page_body(render("head.html", **words), page, {}, head_base(entry))
