"""What the machine offers, and how much of it one computation takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: torch in the calling thread, BLAS in the whole process.

    How many threads multiply a matrix can change the last bit of the result, which then follows the
    machine's number of cores. A library that is loaded meanwhile is not held. BLAS has one setting
    for all threads of a process: it is that of the thread which set it first, until that leaves.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(1, "blas"):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def threads_of_one(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Worker threads, each of which computes with one thread: see `one_thread`."""
    import torch

    start = torch.set_num_threads
    with one_thread(), ThreadPoolExecutor(workers, initializer=start, initargs=(1,)) as pool:
        yield pool


def in_kept_threads(function: Callable[[Any], T], jobs: Iterable[Any]) -> list[T]:
    """The result of each job, in order, by threads that are kept: one per core.

    For work that takes no longer than making threads would, such as that on one text. It must not
    be called by what it calls.
    """
    return list(_kept_threads().map(function, jobs))


@cache
def _kept_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="attlas-kept")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept_threads.cache_clear)  # a child has no other threads


def user_cache() -> Path:
    """The folder in which Attlas remembers what is true on this machine for this user."""
    own = os.environ.get("ATTLAS_CACHE")
    if own:
        return Path(own).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "attlas"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attlas"
