"""What all attacks share: the inputs of every verb, made once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.attacks.undisturbed import COUNTING, Undisturb, Undisturbed
from tests.attacks.verbs import VERBS, make_home
from tests.builders.processes import Start


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs of all verbs; nobody writes to it."""
    return make_home(tmp_path_factory.mktemp("attacks") / "home")


@pytest.fixture(scope="session")
def known() -> dict[str, Undisturbed]:
    return {}


@pytest.fixture
def undisturbed(
    known: dict[str, Undisturbed],
    home: Path,
    attlas_start: Start,
    tmp_path_factory: pytest.TempPathFactory,
) -> Undisturb:
    """What a verb makes, run once."""

    def run(name: str) -> Undisturbed:
        verb, place = VERBS[name], tmp_path_factory.mktemp("undisturbed")
        out, counted = verb.prepare(place / "out"), place / "changes"
        code = COUNTING.format(out=str(out), at=0, counted=str(counted))
        began = time.monotonic()
        process = attlas_start(*verb.words(home, out), code=code)
        _, error = process.communicate(timeout=240)
        assert process.returncode == 0, error
        seconds, changes = time.monotonic() - began, int(counted.read_text())
        return Undisturbed(verb.results(out), verb.names(out), seconds, changes)

    def find(name: str) -> Undisturbed:
        if name not in known:
            known[name] = run(name)
        return known[name]

    return find
