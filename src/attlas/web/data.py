"""What pages show as data: JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from attlas.support.json import to_json
from attlas.web.frame import library_of
from attlas.web.library import Entry
from attlas.web.pages.atlas import check_head
from attlas.web.pages.studies import about
from attlas.web.pages.texts import Asked, text_list

if TYPE_CHECKING:
    from attlas.studies.opened import Study

PROBLEM = {"description": "One sentence: what is wrong."}
router = APIRouter(prefix="/api", responses={404: PROBLEM, 409: PROBLEM})


def _answer(request: Request, study: str, make: Callable[[Study], Any], *names: str) -> Response:
    """What is made of a study as JSON, from the cache if it was made before."""
    library = library_of(request)

    def content(opened: Study) -> bytes:
        return json.dumps(to_json(make(opened)), ensure_ascii=False, allow_nan=False).encode(
            "utf-8", "replace"
        )

    kept = library.cached(library.entry(study), ("api", *names), content)
    return Response(kept, media_type="application/json")


@router.get("/studies")
def studies(request: Request) -> list[dict[str, Any]]:
    """All results, the newest first."""
    return [about(one) for one in library_of(request).entries()]


@router.get("/studies/{study}/summary")
def summary(request: Request, study: str) -> Response:
    """How many sections have which verdict, and the first finding."""
    return _answer(request, study, _summary, "summary")


def _summary(study: Study) -> dict[str, Any]:
    from attlas.catalogue import sections
    from attlas.views.findings import findings, opening, section_findings, verdict_of
    from attlas.views.section import shown

    every = sections()
    verdicts = Counter(
        verdict_of(study, section, section_findings(study, name, section))
        for name, section in shown(study, every)
    )
    first = opening(findings(study, every))[:1]
    return {
        "verdicts": {name: n for name, n in verdicts.items() if name},
        "first": first[0].record() if first else None,
    }


@router.get("/studies/{study}/findings")
def all_findings(request: Request, study: str) -> Response:
    """All findings with their numbers, the strongest first, and the warnings."""
    return _answer(request, study, _findings, "findings")


def _findings(study: Study) -> dict[str, Any]:
    from attlas.catalogue import sections
    from attlas.views.findings import findings, warnings

    every = sections()
    return {
        "warnings": warnings(study, every),
        "findings": [one.record() for one in findings(study, every)],
    }


@router.get("/studies/{study}/heads/{head}")
def head(request: Request, study: str, head: str) -> Response:
    """What is known of one head, such as L2H10."""
    layer, index = check_head(library_of(request).entry(study), head)
    return _answer(request, study, lambda opened: opened.head(layer, index).to_dict(), "head", head)


@router.get("/studies/{study}/heads")
def heads(request: Request, study: str) -> Response:
    """Every number of every head."""
    return _answer(request, study, _heads, "heads")


def _heads(study: Study) -> list[dict[str, Any]]:
    return [
        {str(name): one for name, one in row.items()} for row in study.atlas().to_dict("records")
    ]


@router.get("/studies/{study}/texts")
def texts(request: Request, study: str, search: Asked) -> Response:
    """The texts that fit a search, a page at a time."""
    library = library_of(request)
    entry: Entry = library.entry(study)
    found = text_list(library, entry).found(search)
    content = to_json({"total": found.total, "pages": found.pages, "texts": list(found.rows)})
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, media_type="application/json")
