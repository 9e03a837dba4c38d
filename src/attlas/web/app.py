"""The application: pages, data and static files of a library."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from attlas.support.errors import AttlasError
from attlas.web.frame import problem_page
from attlas.web.jobs import Jobs
from attlas.web.library import Library, UnknownStudyError
from attlas.web.looks import Looks
from attlas.web.refusals import Refusal, without_paths

ROUTERS = (  # modules that have a `router`
    "attlas.web.assets",
    "attlas.web.data",
    "attlas.web.pages.studies",
    "attlas.web.pages.atlas",
    "attlas.web.pages.texts",
    "attlas.web.pages.tables",
    "attlas.web.pages.typed",
    "attlas.web.pages.jobs",
    "attlas.web.passes",
    "attlas.web.pages.sections",  # last: it takes every other page of a study
)
SMALLEST_ZIP = 1_000  # bytes of an answer that is compressed
API = "/api/"


def create_app(library: Library, looks: Looks | None = None, jobs: Jobs | None = None) -> FastAPI:
    """The application over the results of a library, with models and jobs if there are any."""
    app = FastAPI(
        title="Attlas",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=_living,
    )
    app.state.library, app.state.looks, app.state.jobs = library, looks, jobs
    for name in ROUTERS:
        app.include_router(import_module(name).router)
    app.add_middleware(GZipMiddleware, minimum_size=SMALLEST_ZIP, compresslevel=5)
    app.add_exception_handler(AttlasError, _of_user)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_form)
    return app


@asynccontextmanager
async def _living(app: FastAPI) -> AsyncIterator[None]:
    """While the server runs; at its end, jobs are interrupted."""
    yield
    if app.state.jobs is not None:
        app.state.jobs.close()


def _of_user(request: Request, error: Exception) -> Response:
    """What a reader can do something about: an id that is unknown, a table that is missing."""
    status = 404 if isinstance(error, UnknownStudyError) else 409
    status = error.status if isinstance(error, Refusal) else status
    return _problem(request, without_paths(str(error)), status)


def _of_form(request: Request, error: Exception) -> Response:
    """A value in a request that does not fit: which one, and not what it was."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = " ".join(str(one)[:40] for one in first["loc"][1:]) or "its body"
    return _problem(request, f"This request does not fit, in {place}: {first['msg']}", 422)


def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(request, str(error.detail), error.status_code)


def _problem(request: Request, words: str, status: int) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"error": words}, status)
    return problem_page(request, words, status)
