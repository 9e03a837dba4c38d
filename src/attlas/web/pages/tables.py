"""The tables of a study: what each holds, its first rows, and files to take along."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse
from markupsafe import Markup

from attlas.web.body import page_body
from attlas.web.export import csv_parts
from attlas.web.frame import library_of, page, render, study_page
from attlas.web.library import Entry, UnknownStudyError
from attlas.web.pages.sections import head_base

if TYPE_CHECKING:
    from attlas.studies.opened import Study

router = APIRouter(include_in_schema=False)
ROWS = 100  # of a table on a page
MOST_PAGES = 1_000_000_000
KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
Number = Annotated[int, Query(alias="page", ge=1, le=MOST_PAGES)]
OF = {"head": "heads", "text": "texts", "token": "tokens"}  # what rows belong to


@router.get("/s/{study}/tables")
def tables(request: Request, study: str) -> HTMLResponse:
    """All tables."""
    return study_page(request, study, "tables", "Tables", tables_body)


def tables_body(study: Study, entry: Entry) -> Markup:
    """The list of tables."""
    rows = [{"name": name, **study.manifest_of(name)} for name in study.tables]
    html = render("tables.html", entry=entry, rows=rows, kinds=KINDS, of=OF)
    return page_body(html, None, {}, head_base(entry))


@router.get("/s/{study}/tables/{name}")
def table(request: Request, study: str, name: str, number: Number = 1) -> HTMLResponse:
    """Some rows of a table."""
    entry, opened, path = _with_table(request, study, name)
    import pyarrow.parquet as pq

    n_rows = opened.manifest_of(name)["rows"]
    pages = max(1, -(-n_rows // ROWS))
    at = min(number, pages)
    with pq.ParquetFile(path) as file:
        rows = _rows(file, (at - 1) * ROWS)
        titles = file.schema_arrow.names
    words = {
        "entry": entry,
        "name": name,
        "n_rows": n_rows,
        "titles": titles,
        "rows": [[_written(one) for one in row] for row in rows],
        "words": [all(isinstance(row[at], str) for row in rows) for at in range(len(titles))],
        "kinds": KINDS,
        "at": at,
        "pages": pages,
    }
    body = page_body(render("table.html", **words), None, {}, head_base(entry))
    return page(request, f"{name} · {entry.name}", body, entry=entry, tab="tables")


@router.get("/s/{study}/files/{name}.csv")
def table_csv(request: Request, study: str, name: str) -> StreamingResponse:
    """A table as comma-separated values; cells that look like formulas begin with an apostrophe."""
    *_, path = _with_table(request, study, name)
    headers = _as_file(name, "csv")
    return StreamingResponse(csv_parts(path), media_type=KINDS["csv"], headers=headers)


@router.get("/s/{study}/files/{name}.parquet")
def table_parquet(request: Request, study: str, name: str) -> FileResponse:
    """A table as it was written."""
    *_, path = _with_table(request, study, name)
    headers = _as_file(name, "parquet")
    return FileResponse(path, media_type=KINDS["parquet"], headers=headers)


def _as_file(name: str, kind: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return {"Content-Disposition": f'attachment; filename="{plain}.{kind}"'}


def _with_table(request: Request, study: str, name: str) -> tuple[Entry, Study, Path]:
    """A study and the file of one of its tables, which a link may have replaced meanwhile."""
    library = library_of(request)
    entry = library.entry(study)
    opened = library.study(entry)
    path = opened.table_file(name).resolve() if opened.has(name) else None
    if path is None or not path.is_relative_to(entry.folder):
        raise UnknownStudyError("this study has no table of this name")
    return entry, opened, path


def _rows(file: Any, start: int) -> list[tuple[Any, ...]]:
    """Some rows of a Parquet file; only the row groups that hold them are read."""
    out: list[tuple[Any, ...]] = []
    first = 0
    for group in range(file.metadata.num_row_groups):
        stop = first + file.metadata.row_group(group).num_rows
        if stop > start and len(out) < ROWS:
            rows = file.read_row_group(group)
            part = rows.slice(max(0, start - first), ROWS - len(out))
            out += zip(*(column.to_pylist() for column in part.columns), strict=True)
        first = stop
    return out


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)[:300]
