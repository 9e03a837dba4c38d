"""A progress bar with speed and time left; nothing is shown if there is no terminal.

For a program that follows a command, the environment variable ATTLAS_PROGRESS=lines turns bars into
lines of JSON on standard error, each after the word `progress`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

Report = Callable[[int, int], None]  # done, in all
FOLLOWED = {"ATTLAS_PROGRESS": "lines"}
MARK = "progress "
EVERY = 0.3  # seconds between two lines


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        digits = 0 if task.speed and task.speed >= 10 else 1
        speed = f"{task.speed:.{digits}f} {self.unit}/s" if task.speed else ""
        return Text(speed, style="dim")


def status(what: str) -> AbstractContextManager[object]:
    """A line that names the current step while it runs; nothing if there is no terminal."""
    if is_followed():
        _write(what, 0, 0)
    return Console(stderr=True).status(what)


@contextmanager
def progress_bar(what: str, unit: str = "texts", wanted: bool | None = None) -> Iterator[Report]:
    """A bar on standard error; `wanted` None means only on a terminal."""
    if is_followed():
        yield _lines(what)
        return
    console = Console(stderr=True)
    shown = console.is_terminal if wanted is None else wanted
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not shown) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def is_followed() -> bool:
    """Whether a program follows this command."""
    return all(os.environ.get(name) == value for name, value in FOLLOWED.items())


def _write(what: str, done: int, total: int) -> None:
    line = json.dumps({"step": what, "done": done, "total": total})
    print(MARK + line, file=sys.stderr, flush=True)


def _lines(what: str) -> Report:
    """Report in lines, a few every second and the last one."""
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last > EVERY:
            last = now
            _write(what, done, total)

    return report
