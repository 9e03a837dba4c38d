"""No data that a reader may ask for ends in an error of the server: Schemathesis over OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies

from tests.builders.workbench import client, library, study_id

SCHEMA = schemathesis.openapi.from_asgi("/api/openapi.json", client().app)
READING = [
    one.ok()
    for one in SCHEMA.get_all_operations()
    if one.ok().method == "get" and "/looks" not in one.ok().path and "/jobs" not in one.ok().path
]
RELAXED = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def test_the_schema_has_the_data_of_pages() -> None:
    paths = {one.path for one in READING}
    assert {"/api/studies", "/api/studies/{study}/heads/{head}"} <= paths


@pytest.mark.parametrize("operation", READING, ids=lambda one: one.path)
def test_data_without_an_error_of_the_server(operation: Any) -> None:
    known = [study_id(), study_id("relations"), *(one.id for one in library().entries()[:3])]

    @RELAXED
    @given(case=operation.as_strategy(), own=strategies.sampled_from(["", *known]))
    def ask(case: Any, own: str) -> None:
        if own and "study" in (case.path_parameters or {}):
            case.path_parameters["study"] = own
        answer = case.call(session=client())
        assert answer.status_code < 500, answer.text
        assert "Traceback" not in answer.text

    ask()
