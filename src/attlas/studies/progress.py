"""One bar for a long loop: texts a second and time left; nothing where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

Report = Callable[[int, int], None]  # texts done, texts in all


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f} texts/s" if task.speed else "", style="dim")


@contextmanager
def progress_bar(wanted: bool | None = None) -> Iterator[Report]:
    """A bar on standard error; `wanted` None means only on a terminal."""
    console = Console(stderr=True)
    shown = console.is_terminal if wanted is None else wanted
    columns = TextColumn("reading attention"), BarColumn(), MofNCompleteColumn(), _Speed(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not shown) as bar:
        task = bar.add_task("texts", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
