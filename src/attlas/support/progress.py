"""A progress bar with speed and time left; nothing is shown if there is no terminal."""

from __future__ import annotations

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
    return Console(stderr=True).status(what)


@contextmanager
def progress_bar(what: str, unit: str = "texts", wanted: bool | None = None) -> Iterator[Report]:
    """A bar on standard error; `wanted` None means only on a terminal."""
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
