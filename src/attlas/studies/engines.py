"""Engines run the parts of shards; results do not depend on the engine or the number of workers.

The worker threads of the local engine share the model. Each computes in a single thread: the number
of threads that multiply a matrix can change the last bit of the result, so texts run in parallel,
not matrices, which is as fast.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol, TypeVar

import torch

from attlas.support.errors import StudyError
from attlas.support.machine import cores, threads_of_one
from attlas.support.options import WORKERS, checked

Task = Callable[[threading.Event], None]  # part of a shard; it ends early when the event is set
Item = TypeVar("Item")
Value = TypeVar("Value")


class Engine(Protocol):
    """Runs every task once; the order in which they end changes nothing."""

    def run(self, tasks: Iterable[Task]) -> None: ...

    def in_order(
        self, function: Callable[[Item], Value], items: Iterable[Item]
    ) -> Iterator[Value]: ...


def default_workers(device: torch.device) -> int:
    """One per core that this process may use; one for a GPU."""
    return cores() if device.type == "cpu" else 1


class LocalEngine:
    """Worker threads in this process; tasks are made as workers become free."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise StudyError(f"workers is {workers}; it must be at least 1")
        self.workers = workers

    def run(self, tasks: Iterable[Task]) -> None:
        stop = threading.Event()
        with threads_of_one(self.workers) as pool:
            waiting: set[Future[None]] = set()
            try:
                for task in tasks:
                    waiting.add(pool.submit(task, stop))
                    if len(waiting) > self.workers:
                        waiting = self._settle(waiting)
                while waiting:
                    waiting = self._settle(waiting)
            except BaseException:
                stop.set()
                for future in waiting:
                    future.cancel()
                raise

    def in_order(self, function: Callable[[Item], Value], items: Iterable[Item]) -> Iterator[Value]:
        """`function(item)` for each item, in order, computed a few items ahead."""
        waiting: deque[Future[Value]] = deque()
        with threads_of_one(self.workers) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) > self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    @staticmethod
    def _settle(waiting: set[Future[None]]) -> set[Future[None]]:
        done, rest = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        return rest


def engine_of(name: str, workers: int | None, device: torch.device) -> Engine:
    """An engine by name."""
    if name != "local":
        raise StudyError(f"there is no engine {name!r}; the engine is local")
    checked("workers", workers, int | None, WORKERS, StudyError)
    return LocalEngine(default_workers(device) if workers is None else workers)
