"""All studies: what each is of, and what it found."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from attlas.web.frame import library_of, page, render
from attlas.web.library import Entry

router = APIRouter(include_in_schema=False)


@router.get("/")
def studies(request: Request) -> HTMLResponse:
    """The list, from manifests alone; findings follow when they are computed."""
    rows = [about(one) for one in library_of(request).entries()]
    return page(request, "Studies", render("studies.html", rows=rows))


def about(entry: Entry) -> dict[str, Any]:
    """A row of the list."""
    manifest = entry.manifest
    model = manifest.get("model") or {}
    size = f"{model['n_layers']} layers × {model['n_heads']} heads" if "n_layers" in model else ""
    return {
        "id": entry.id,
        "name": entry.name,
        "kind": manifest.get("kind", "study"),
        "status": entry.status,
        "note": entry.note,
        "is_open": entry.is_open,
        "model": entry.model,
        "size": size,
        "corpus": entry.corpus,
        "texts": (manifest.get("counts") or {}).get("analysed"),
        "date": datetime.fromtimestamp(entry.time).astimezone().isoformat(" ", "minutes")[:16],
    }
