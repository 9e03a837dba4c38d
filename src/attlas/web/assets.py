"""Modules and rules as files: what pages import by name is imported by address.

Addresses contain a digest of all files, so that a browser may keep them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

import attlas
from attlas.catalogue import subjects
from attlas.support.fingerprint import sha256
from attlas.views.modules import IMPORT, resource, source, styles, with_imports
from attlas.views.page import templates

router = APIRouter(include_in_schema=False)
OWN = "attlas"
SHEET, CHARTS = "page.css", "charts.js"  # all rules; the library of charts
NAME = re.compile(r"[a-z][a-z0-9_]*\.(?:js|css)")
KINDS = {"js": "text/javascript", "css": "text/css"}
FRAME = "attlas.web/frame.js"
FOREVER, ASK = "public, max-age=31536000, immutable", "no-cache"


@router.get("/static/{digest}/{name}")
def joined_file(request: Request, digest: str, name: str) -> Response:
    """What is made of several files: all rules, and the library of charts."""
    if name not in (SHEET, CHARTS):
        raise HTTPException(404, "there is no such file")
    return _file(request, name, _sheet() if name == SHEET else _charts())


@router.get("/static/{digest}/{package}/{name}")
def single_file(request: Request, digest: str, package: str, name: str) -> Response:
    """A module, or its rules."""
    if not (
        _is_served(package) and NAME.fullmatch(name) and resource(f"{package}/{name}").is_file()
    ):
        raise HTTPException(404, "there is no such file")
    return _file(request, name, served(f"{package}/{name}"))


def _file(request: Request, name: str, content: str) -> Response:
    body = content.encode()
    tag = f'"{sha256(body).hexdigest()[:16]}"'
    own = request.url.path.startswith(f"{address()}/")
    headers = {"ETag": tag, "Cache-Control": FOREVER if own else ASK}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=KINDS[name.rpartition(".")[2]], headers=headers)


def _is_served(package: str) -> bool:
    """Whether a package is one of ours or that of a subject, or inside one."""
    packages = (OWN, *(one.package for one in subjects()))
    return any(package == one or package.startswith(f"{one}.") for one in packages)


@cache
def served(name: str) -> str:
    """A file as it is served: a module imports others by their addresses."""
    if name.endswith(".css"):
        return resource(name).read_text(encoding="utf-8")
    return IMPORT.sub(rf'import {{ \1 }} from "{address()}/\2";\n', source(name))


@cache
def address() -> str:
    """The address of all files, which changes with them."""
    digest = sha256(attlas.__version__.encode())
    for path in _own_files():
        digest.update(path.read_bytes())
    return f"/static/{digest.hexdigest()[:12]}"


def _own_files() -> Iterator[Path]:
    root = Path(attlas.__file__).parent
    yield from sorted({*root.rglob("static/*"), *root.rglob("templates/*.css")})


@cache
def preloads() -> tuple[str, ...]:
    """The modules that every page needs, each after those that it imports."""
    return tuple(f"{address()}/{one}" for one in with_imports([FRAME]))


@cache
def _sheet() -> str:
    """The rules of pages and of all views, those of the frame last."""
    page = templates().get_template("style.css").render()
    modules = [_module(path) for path in _own_files() if path.suffix == ".js"]
    return "\n".join((page, styles(modules), resource("attlas.web/workbench.css").read_text()))


def _module(path: Path) -> str:
    """What a module of ours is imported as."""
    package = ".".join((OWN, *path.relative_to(Path(attlas.__file__).parent).parts[:-2]))
    return f"{OWN if package == 'attlas.views' else package}/{path.name}"


@cache
def _charts() -> str:
    from attlas.views.report import chart_library

    return chart_library()
