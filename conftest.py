"""For all tests: those in tests/, the docstrings, and the examples in README and docs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Two test processes share two cores; tiny matrices gain nothing from threads, and sums come in one order."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # what was imported stays: not looked through again and again
    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test, a docstring or a page writes, it writes there."""
    monkeypatch.chdir(tmp_path)
