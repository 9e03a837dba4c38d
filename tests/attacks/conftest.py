"""What all attacks share: the inputs of every verb, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.verbs import make_home


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs of all verbs; nobody writes to it."""
    return make_home(tmp_path_factory.mktemp("attacks") / "home")
