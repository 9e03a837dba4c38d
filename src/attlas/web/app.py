"""The application: pages, data and static files of a library."""

from __future__ import annotations

from importlib import import_module

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from attlas.support.errors import AttlasError
from attlas.web.frame import problem_page
from attlas.web.library import Library, UnknownStudyError
from attlas.web.refusals import without_paths

ROUTERS = (  # modules that have a `router`
    "attlas.web.assets",
    "attlas.web.data",
    "attlas.web.pages.studies",
    "attlas.web.pages.atlas",
    "attlas.web.pages.texts",
    "attlas.web.pages.tables",
    "attlas.web.pages.sections",
)
SMALLEST_ZIP = 1_000  # bytes of an answer that is compressed
API = "/api/"


def create_app(library: Library) -> FastAPI:
    """The application over the results of a library."""
    app = FastAPI(title="Attlas", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")
    app.state.library = library
    for name in ROUTERS:
        app.include_router(import_module(name).router)
    app.add_middleware(GZipMiddleware, minimum_size=SMALLEST_ZIP, compresslevel=5)
    app.add_exception_handler(AttlasError, _of_user)
    app.add_exception_handler(HTTPException, _of_http)
    return app


def _of_user(request: Request, error: Exception) -> Response:
    """What a reader can do something about: an id that is unknown, a table that is missing."""
    missing = isinstance(error, UnknownStudyError)
    return _problem(request, without_paths(str(error)), 404 if missing else 409)


def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(request, str(error.detail), error.status_code)


def _problem(request: Request, words: str, status: int) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"error": words}, status)
    return problem_page(request, words, status)
