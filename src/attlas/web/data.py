"""What pages show as data: JSON, CSV and Parquet."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from attlas.web.frame import library_of
from attlas.web.pages.studies import about

router = APIRouter(prefix="/api")


@router.get("/studies")
def studies(request: Request) -> list[dict[str, Any]]:
    """All results, the newest first."""
    return [about(one) for one in library_of(request).entries()]
