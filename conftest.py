"""For all tests: those in tests/, the docstrings, and the examples in README and docs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Two test processes share two cores."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test, a docstring or a page writes, it writes there."""
    monkeypatch.chdir(tmp_path)
