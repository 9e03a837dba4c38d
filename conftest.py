"""For all tests: those in tests/, the docstrings, and the examples in README and docs."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

gc.set_threshold(50_000, 20, 20)  # a second of every import is a look through what stays
os.fsync = lambda file: None  # type: ignore[assignment]  # no test loses power; disks take long
THREADS = int(
    os.environ.get("ATTLAS_TEST_THREADS", "1")
)  # 2: another order of sums, as on other machines

# how long an example takes says nothing about the code: the first one compiles, and other work may
# share the machine
settings.register_profile("attlas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("attlas")


@pytest.fixture(scope="session", autouse=True)
def _threads() -> Iterator[None]:
    """Two test processes share two cores, and tiny matrices gain nothing from threads: one, unless
    asked otherwise.
    """
    import torch  # not by the process that only hands out tests
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(THREADS)
    gc.collect()
    gc.freeze()  # what was imported stays: not looked through again and again
    with threadpool_limits(THREADS):
        yield


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test, a docstring or a page writes, it writes there."""
    monkeypatch.chdir(tmp_path)
