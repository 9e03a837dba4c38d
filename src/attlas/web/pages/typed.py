"""Try: a text that is typed, read by a model that was named at the start."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from attlas.views.modules import View
from attlas.views.page import inline_json
from attlas.web.frame import library_of, page, render
from attlas.web.library import Entry
from attlas.web.passes import looks_of

router = APIRouter(include_in_schema=False)
TRY = View("try", "attlas.web")
EXAMPLE = "The cat that chased the mice was tired, so it slept by the fire."


@router.get("/try")
def try_page(request: Request) -> HTMLResponse:
    """The page without a study."""
    return _page(request, None)


@router.get("/s/{study}/try")
def try_page_of_study(request: Request, study: str) -> HTMLResponse:
    """The page next to those of a study, whose model is chosen at first."""
    return _page(request, library_of(request).entry(study))


def _page(request: Request, entry: Entry | None) -> HTMLResponse:
    looks = looks_of(request)
    own = "" if entry is None else looks.matching(entry.manifest)
    data = {"models": models(request), "model": own, "example": EXAMPLE}
    body = render("view.html", view=TRY, data=inline_json({TRY.module: [data]}))
    return page(request, "Try", body, entry=entry, tab="try")


def models(request: Request) -> list[dict[str, Any]]:
    """The models of the server as menus show them."""
    return [{"id": one.id, "name": one.name} for one in looks_of(request).models.values()]
