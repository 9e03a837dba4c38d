"""The pages of small results, asked in this process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi.testclient import TestClient

from attlas.web.app import create_app
from attlas.web.library import Library
from tests.builders.studies import OLD, measured

ADDRESS = "http://127.0.0.1"


@cache
def library() -> Library:
    """A study with every measure, and results of earlier versions."""
    return Library([measured().folder, OLD])


@cache
def client() -> TestClient:
    """What asks the pages of the library, without a guard."""
    return TestClient(create_app(library()), ADDRESS)


def study_id(name: str = "") -> str:
    """The id of a result by the name of its folder; of the study with every measure."""
    wanted = name or Path(measured().folder).name
    return next(one.id for one in library().entries() if one.name == wanted)
