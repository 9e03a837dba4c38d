"""A text of a study with its model: what the page of the text gets for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from attlas.views.modules import View
from attlas.web.library import Entry

READ = View("text_of_study", "attlas.web")


@dataclass(frozen=True, eq=False)
class ReadByModel:
    """The part of a page that asks a model of the server to read the text."""

    data: Mapping[str, Any]
    view: View = READ

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return []


def reading(request: Request, entry: Entry, text: str) -> ReadByModel | None:
    """That part, if the server has models; `own` is the study's own model, if it was named."""
    looks = request.app.state.looks
    if looks is None:
        return None
    models = [{"id": one.id, "name": one.name} for one in looks.models.values()]
    own = looks.matching(entry.manifest)
    return ReadByModel({"study": entry.id, "text": text, "models": models, "own": own})
