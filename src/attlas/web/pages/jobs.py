"""Jobs: studies and explanations that run in the background."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict

from attlas.views.modules import View
from attlas.views.page import inline_json
from attlas.web.frame import library_of, page, render
from attlas.web.jobs import KINDS, Jobs, shown_name
from attlas.web.refusals import Refusal

router = APIRouter()
JOBS = View("jobs", "attlas.web")


class NewJob(BaseModel):
    """A job as a page asks for it: corpus and model by their numbers in the lists."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    kind: str
    data: int
    model: int
    options: dict[str, str] = {}


def jobs_of(request: Request) -> Jobs:
    """The jobs of the application."""
    jobs: Jobs | None = getattr(request.app.state, "jobs", None)
    if jobs is None:
        raise Refusal(404, "This server runs no jobs.")
    return jobs


@router.get("/jobs", include_in_schema=False)
def jobs_page(request: Request) -> HTMLResponse:
    """The list, and a form for a new one."""
    jobs = jobs_of(request)
    kinds = [
        {"name": name, "title": title, "options": {one: list(all) for one, all in options.items()}}
        for name, (title, options) in KINDS.items()
    ]
    data = {
        "kinds": kinds,
        "corpora": [shown_name(one) for one in jobs.corpora],
        "models": [shown_name(one) for one in jobs.models],
        "jobs": listed(request),
    }
    body = render("view.html", view=JOBS, data=inline_json({JOBS.module: [data]}))
    return page(request, "Jobs", body, tab="jobs")


@router.get("/api/jobs")
def listed(request: Request) -> list[dict[str, Any]]:
    """All jobs; a finished one with the id of its result."""
    folders = {one.folder: one.id for one in library_of(request).entries() if one.is_open}
    jobs = jobs_of(request)
    out = jobs.list()
    for about in out:
        about["study"] = folders.get((jobs.results / str(about["name"])).resolve(), "")
    return out


@router.post("/api/jobs")
def submit(request: Request, job: NewJob) -> dict[str, Any]:
    """Queue a job."""
    jobs = jobs_of(request)
    data, model = _numbered(jobs.corpora, job.data), _numbered(jobs.models, job.model)
    started = jobs.submit(job.name, job.kind, data, model, job.options)
    library_of(request).add(jobs.results)
    return jobs.about(started)


def _numbered(names: list[str], number: int) -> str:
    if not 0 <= number < len(names):
        raise Refusal(422, "This was not named at the start (--data, --model).")
    return names[number]


@router.post("/api/jobs/{name}/cancel")
def cancel(request: Request, name: str) -> list[dict[str, Any]]:
    """Interrupt a job; what it has done is kept."""
    jobs_of(request).cancel(name)
    return listed(request)


@router.post("/api/jobs/{name}/resume")
def resume(request: Request, name: str) -> list[dict[str, Any]]:
    """Continue a job that did not finish."""
    jobs_of(request).resume(name)
    return listed(request)
