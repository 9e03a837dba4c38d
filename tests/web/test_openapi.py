"""Nothing that a reader may send ends in an error of the server: Schemathesis over OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings, strategies

from attlas.testing import tiny
from attlas.web.jobs import Jobs
from tests.builders.served import Served, served, until_ready
from tests.builders.workbench import client, library, study_id

SCHEMA = schemathesis.openapi.from_asgi("/api/openapi.json", client().app)
EVERY = [one.ok() for one in SCHEMA.get_all_operations()]
RELAXED = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
TEXT = "a cat saw the dog"


def test_the_schema_has_the_data_of_pages() -> None:
    paths = {(one.method, one.path) for one in EVERY}
    assert ("get", "/api/studies/{study}/heads/{head}") in paths
    assert {("post", "/api/looks"), ("post", "/api/jobs")} <= paths


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a model that has read a text, and with jobs that fail at once."""

    def refuse(*_: Any) -> Any:
        raise OSError("no process")

    folder = tmp_path_factory.mktemp("jobs")
    jobs = Jobs(folder, ["m"], ["texts.csv"], refuse)
    yield served([*library().folders], {"m": tiny("bert")}, jobs)
    jobs.close()
    assert {path.parent for path in folder.rglob("*")} <= {folder}


@pytest.fixture(scope="module")
def reader(one: Served) -> TestClient:
    return one.client()


@pytest.fixture(scope="module")
def look(one: Served, reader: TestClient) -> str:
    body = {"model": next(iter(one.looks.models)), "text": TEXT}
    return until_ready(reader, reader.post("/api/looks", json=body).json())


@pytest.mark.parametrize("operation", EVERY, ids=lambda one: f"{one.method} {one.path}")
def test_no_request_is_an_error_of_the_server(
    operation: Any, one: Served, reader: TestClient, look: str
) -> None:
    known = [study_id(), study_id("relations"), *(one.id for one in library().entries()[:3])]
    places = {"study": known, "look": [look], "name": ["one"], "head": ["L0H1"], "view": ["L1"]}
    body = {"model": next(iter(one.looks.models)), "text": TEXT}

    @RELAXED
    @given(case=operation.as_strategy(), data=strategies.data())
    def ask(case: Any, data: Any) -> None:
        for name in case.path_parameters or {}:
            own = data.draw(strategies.sampled_from(["", *places.get(name, [])]))
            case.path_parameters[name] = own or case.path_parameters[name]
        if isinstance(case.body, dict) and data.draw(strategies.booleans()):
            case.body |= {name: one for name, one in body.items() if name in case.body}
        answer = case.call(session=reader)
        assert answer.status_code < 500, answer.text
        assert "Traceback" not in answer.text

    ask()


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 10_000, '{"a":' * 50_000, "NaN", "\ud800"])
@pytest.mark.parametrize("path", ["/api/looks", "/api/jobs"])
def test_bodies_that_are_hard_to_read(text: str, path: str, reader: TestClient) -> None:
    for content in (text.encode("utf-8", "surrogatepass"), json.dumps({"text": text}).encode()):
        answer = reader.post(path, content=content)
        assert answer.status_code in (400, 422), answer.text
        assert Path(__file__).parent.name not in answer.text
