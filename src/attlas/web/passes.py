"""Texts that a model reads: a pass is started, followed, and asked for what a page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from attlas.web.frame import library_of
from attlas.web.looks import Look, Looks
from attlas.web.refusals import Refusal

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.studies.opened import Study

router = APIRouter(prefix="/api")
Id = Annotated[str, Path(max_length=64)]
Number = Annotated[int, Path(ge=0, le=2**31)]


class Typed(BaseModel):
    """A text that a reader typed."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str
    text: str


class Chosen(BaseModel):
    """A text of a study, by its id."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str
    text: str


def looks_of(request: Request) -> Looks:
    """The models of the application."""
    looks: Looks | None = getattr(request.app.state, "looks", None)
    if looks is None:
        raise Refusal(404, "This server has no models.")
    return looks


@router.post("/looks")
def start(request: Request, typed: Typed) -> dict[str, Any]:
    """Read a typed text; it is kept in memory only."""
    from attlas.core.text import Text

    return looks_of(request).start(typed.model, Text("text", typed.text))


@router.post("/studies/{study}/looks")
def start_of_study(request: Request, study: Id, chosen: Chosen) -> dict[str, Any]:
    """Read a text of a study with one of the models."""
    return looks_of(request).start(chosen.model, text_of(request, study, chosen.text))


def _opened(request: Request, study: str) -> Study:
    library = library_of(request)
    return library.study(library.entry(study))


def text_of(request: Request, study: str, text: str) -> Text:
    """A text of a study by its id."""
    from attlas.core.text import Text

    opened = _opened(request, study)
    rows = opened.table("texts", text=text) if opened.has("texts") else None
    if rows is None or rows.empty:
        raise Refusal(404, "There is no such text in this study.")
    return Text(text, str(rows["content"].iloc[0]))


@router.get("/looks/{look}")
def status(request: Request, look: Id) -> dict[str, Any]:
    """How far a pass is."""
    return looks_of(request).status(look)


@router.post("/looks/{look}/cancel")
def cancel(request: Request, look: Id) -> dict[str, Any]:
    """Stop a pass, at its next layer."""
    looks_of(request).tasks.cancel(look)
    return looks_of(request).status(look)


@router.get("/looks/{look}/views", response_class=Response)
def views(request: Request, look: Id, study: Annotated[str, Query(max_length=64)] = "") -> Response:
    """What its views draw, with the attribution that a study has of the text."""
    own = looks_of(request).look(look)
    content = own.views(scores_of(request, study, own)) if study else own.views()
    return Response(content, media_type="application/json")


def scores_of(request: Request, study: str, look: Look) -> dict[str, Any]:
    """The scores of the text's tokens in a study, if it has them for these tokens."""
    from attlas.explain.section.texts import study_overlay

    opened, text = _opened(request, study), look.seen.batch.texts[0]
    tables = ("attributions", "explanations")
    if not all(map(opened.has, tables)) or opened.table("explanations", text=text.id).empty:
        return {}
    overlay = study_overlay(opened, {"text": text.id, "content": text.text})[1].data
    return {**overlay} if overlay["tokens"] == look.data["tokens"] else {}


@router.get("/looks/{look}/tops/{row}")
def tops(request: Request, look: Id, row: Number) -> dict[str, Any]:
    """The largest weights of each word in one head, or in the mean of a layer."""
    return looks_of(request).look(look).tops(row)


@router.get("/looks/{look}/codes/{head}")
def codes(request: Request, look: Id, head: Id) -> dict[str, Any]:
    """The matrix of one head."""
    return looks_of(request).look(look).codes(head)


@router.get("/looks/{look}/rows/{head}/{query}", response_class=Response)
def row(request: Request, look: Id, head: Id, query: Number) -> Response:
    """The weights of one query in one head, exactly, as float32 in little endian."""
    content = looks_of(request).look(look).row(head, query)
    return Response(content, media_type="application/octet-stream")


@router.get("/looks/{look}/words/{view}/{word}", response_class=Response)
def word(request: Request, look: Id, view: Id, word: Number) -> Response:
    """What a word attends to and what attends to it, exactly, as two rows of float32."""
    content = looks_of(request).look(look).word(view, word)
    return Response(content, media_type="application/octet-stream")
