"""A section of the report: what it answers, its figures, its findings, its lines in the terminal.

A section draws tables by their names and computes nothing. Subjects have theirs in `section.py`;
the report, the terminal and the catalogue know sections only by this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from attlas.views.parts import Part
    from attlas.views.tables import TextTable

Fact = tuple[str, str]


class Tables(Protocol):
    """What sections draw: tables by name, and what their manifest says. A `Study` is one."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the tables were made from."""

    @property
    def n_layers(self) -> int: ...

    @property
    def n_heads(self) -> int: ...

    def has(self, name: str) -> bool:
        """Whether there is a table of this name."""

    def holding(self, name: str) -> Tables:
        """Those of these tables that have one manifest with the named one."""

    def table(
        self, name: str, columns: list[str] | None = None, text: str | None = None
    ) -> pd.DataFrame:
        """A table; only some columns, or only the rows of one text."""

    def sample(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """Some rows of `texts` from all over the corpus, each with its row group."""

    def first(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """The first rows of `texts`, each with its row group."""

    def tokens(self, name: str, group: int, text: str) -> pd.DataFrame:
        """The rows of one text in a table with a row per token."""


@dataclass(frozen=True)
class Figure:
    """A chart, HTML or parts that a script draws, with the sentence that says what they show."""

    caption: str
    chart: alt.TopLevelMixin | None = None
    html: str = ""
    parts: tuple[Part, ...] = ()

    @property
    def name(self) -> str:
        """What its files are called."""
        begin = self.caption.split(":")[0].lower()
        return "".join(one if one.isalnum() else "-" for one in begin)[:40].strip("-")


def _nothing(study: Tables) -> list[Any]:
    return []


def _as_usual(study: Tables, usual: list[Fact]) -> list[Fact]:
    return usual


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a section answers, how that was computed and what to be careful about.

    `needs` are the tables without which it is left out. `facts` may change what the report says of
    the run itself.
    """

    title: str
    question: str
    needs: tuple[str, ...]
    about: str
    figures: Callable[[Tables], list[Figure]]
    findings: Callable[[Tables], list[str]] = _nothing
    terminal: Callable[[Tables], list[TextTable]] = _nothing
    facts: Callable[[Tables, list[Fact]], list[Fact]] = _as_usual
    order: int = 0  # on the page; equal ones as in the catalogue. Findings are in the other order
    names_heads: bool = True  # such as L2.H7, which the page explains


def shown(study: Tables, sections: Mapping[str, Section]) -> list[tuple[str, Section]]:
    """The sections that these tables are enough for, in the order of the page."""
    able = [item for item in sections.items() if all(map(study.has, item[1].needs))]
    return sorted(able, key=lambda item: item[1].order)


def head_figure(
    caption: str,
    frame: pd.DataFrame,
    columns: Sequence[str] | None = None,
    first: str | None = None,
) -> list[Figure]:
    """A grid of heads, or nothing if no column of the table has a number."""
    from attlas.views.charts import choices, head_grid

    able = choices(frame) if columns is None else list(columns)
    if frame.empty or not able:
        return []
    return [Figure(caption, head_grid(frame, able, first if first in able else None))]


def largest(frame: pd.DataFrame, column: str) -> pd.Series[Any] | None:
    """The row with the largest value; None if no row has one."""
    known = frame[column].dropna()
    return None if known.empty else frame.loc[known.idxmax()]


def smallest(frame: pd.DataFrame, column: str) -> pd.Series[Any] | None:
    """The row with the smallest value; None if no row has one."""
    known = frame[column].dropna()
    return None if known.empty else frame.loc[known.idxmin()]


def prose(file: str) -> dict[str, str]:
    """The texts in the `section.md` next to a module, by their headings."""
    lines = (Path(file).parent / "section.md").read_text(encoding="utf-8").splitlines()
    return {name: " ".join(text) for name, text in _by_heading(lines)}


def _by_heading(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Lines that are not blank, under the heading (`## name`) before them.

    >>> _by_heading(["# all", "", "## one", "", "a", "b", "## two", "c"])
    [('one', ['a', 'b']), ('two', ['c'])]
    """
    out: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("## "):
            out.append((line.removeprefix("## ").strip(), []))
        elif out and line.strip():
            out[-1][1].append(line.strip())
    return out
