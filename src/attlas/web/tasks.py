"""Work in the background of pages: one thing at a time, with a queue, progress and a deadline."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attlas.support.errors import AttlasError
from attlas.web.refusals import Refusal, error_id, without_paths

WAITING, RUNNING, READY, FAILED, CANCELLED = "waiting", "running", "ready", "failed", "cancelled"
ENDED = (READY, FAILED, CANCELLED)
MOST_WAITING = 50
MOST_ENDED = 500  # whose state is known
DEADLINE = 600.0  # seconds for one task
log = logging.getLogger("attlas.web")


class Cancelled(AttlasError):  # noqa: N818
    """A task that its reader cancelled."""


@dataclass(eq=False)
class Task:
    """Something that runs in the background, and how far it is."""

    id: str
    title: str
    work: Callable[[Task], object] = field(repr=False)
    deadline: float = DEADLINE
    state: str = WAITING
    step: str = ""
    done: int = 0
    total: int = 0
    problem: str = ""
    number: str = ""  # of its error, in the log
    began: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def report(self, step: str, done: int, total: int) -> None:
        """Say how far the work is; this is where it ends if it is cancelled or takes too long."""
        if self.stopped.is_set():
            raise Cancelled("cancelled")
        if time.monotonic() - self.began > self.deadline:
            raise Refusal(
                408,
                f"This took longer than {self.deadline / 60:.0f} minutes and was stopped; "
                "try a shorter text, or run it from the terminal.",
            )
        self.step, self.done, self.total = step, done, total

    def status(self, ahead: int) -> dict[str, Any]:
        """As a page polls it; `ahead` tasks come first."""
        about: dict[str, Any] = {"id": self.id, "title": self.title, "state": self.state}
        if self.state == WAITING:
            return {**about, "ahead": ahead}
        if self.state == RUNNING:
            took = time.monotonic() - self.began
            left = took * (self.total - self.done) / self.done if self.done else None
            left = None if left is None else round(left, 1)
            return {
                **about,
                "step": self.step,
                "done": self.done,
                "total": self.total,
                "left": left,
            }
        known = {"error": self.problem, "number": self.number} if self.problem else {}
        return {**about, **known}


class Tasks:
    """The tasks of a server: one thread runs them in the order in which they came."""

    def __init__(self, most_waiting: int = MOST_WAITING, deadline: float = DEADLINE) -> None:
        self.most_waiting, self.deadline = most_waiting, deadline
        self._known: OrderedDict[str, Task] = OrderedDict()
        self._queue: deque[Task] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, name: str, title: str, work: Callable[[Task], object]) -> Task:
        """Queue a task; one of the same name that waits or runs is returned instead."""
        with self._changed:
            known = self._known.get(name)
            if known is not None and known.state not in ENDED:
                return known
            if len(self._queue) >= self.most_waiting:
                raise Refusal(429, "Too many passes are waiting; try again in a minute.")
            task = self._known[name] = Task(name, title, work, self.deadline)
            self._known.move_to_end(name)
            self._queue.append(task)
            self._forget()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="passes", daemon=True)
                self._thread.start()
            self._changed.notify()
        return task

    def status(self, name: str) -> dict[str, Any]:
        """How far a task is."""
        with self._changed:
            task = self._task(name)
            ahead = self._queue.index(task) + 1 if task in self._queue else 0
            return task.status(ahead)

    def cancel(self, name: str) -> None:
        """Cancel a task: one that waits at once, one that runs at its next step."""
        with self._changed:
            task = self._task(name)
            task.stopped.set()
            if task in self._queue:
                self._queue.remove(task)
                task.state = CANCELLED

    def _task(self, name: str) -> Task:
        task = self._known.get(name)
        if task is None:
            raise Refusal(404, "This pass is not known here: start it again.")
        return task

    def _forget(self) -> None:
        """Forget the oldest tasks that have ended."""
        ended = [name for name, one in self._known.items() if one.state in ENDED]
        for name in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._known[name]

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                task = self._queue.popleft()
                task.state, task.began = RUNNING, time.monotonic()
            self._finish(task)

    def _finish(self, task: Task) -> None:
        try:
            task.work(task)
            state = READY
        except Cancelled:
            state = CANCELLED
        except AttlasError as error:
            state, task.problem = FAILED, without_paths(str(error))
        except Exception as error:
            state, task.number = FAILED, error_id()
            task.problem = "This did not work, because of an error in Attlas."
            # the text of a reader may stand in the message, so only its kind is logged
            log.error("error %s in a pass: %s", task.number, type(error).__name__)
            log.debug("error %s", task.number, exc_info=error)
        task.work = _nothing
        task.state = state


def _nothing(_: Task) -> None:
    """What an ended task holds, so that its text is not kept."""
