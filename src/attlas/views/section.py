"""A section of the report: what it answers, its figures, its claims, its lines in the terminal.

A section draws tables by their names and computes nothing. Subjects have theirs in `section.py`;
the report, the terminal and the catalogue know sections only by this class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from attlas.views.claims import Claim
    from attlas.views.head_profiles import HeadProfile
    from attlas.views.head_rows import Head, HeadExample, HeadRow
    from attlas.views.majority import AtMajority
    from attlas.views.parts import Part
    from attlas.views.tables import Column, TextTable

Fact = tuple[str, str]


class Tables(Protocol):
    """What sections draw: tables by name, and their manifest. A `Study` is one."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the tables were made from."""

    @property
    def n_layers(self) -> int: ...

    @property
    def n_heads(self) -> int: ...

    def has(self, name: str) -> bool:
        """Whether there is a table of this name."""

    def study_with_table(self, name: str) -> Tables:
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


class Chart(Protocol):
    """What has a specification for Vega-Lite: a chart of altair, or one that is drawn later."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class LaterChart:
    """A chart that is drawn when it is asked for: where parts take its place, it never is."""

    draw: Callable[[], Chart]

    def to_dict(self) -> dict[str, Any]:
        return self.draw().to_dict()


@dataclass(frozen=True)
class Figure:
    """A chart, a table, HTML or parts that a script draws, with what they show as a caption.

    The table of a chart is folded under it. `name` is what its files are called. On a page, `page`
    is drawn in place of the chart.
    """

    caption: str
    chart: Chart | None = None
    html: str = ""
    parts: tuple[Part, ...] = ()
    table: TextTable | None = None
    name: str = ""
    page: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            begin = self.caption.split(":")[0].lower()
            name = "".join(one if one.isalnum() else "-" for one in begin)[:40].strip("-")
            object.__setattr__(self, "name", name)


@dataclass(frozen=True)
class Prose:
    """The words of a section: title, question, what it is about, and captions by figure.

    `group` is the heading under which a report lists it.
    """

    title: str
    question: str
    about: str
    captions: Mapping[str, str]
    group: str = ""

    def figure(
        self,
        name: str,
        chart: Chart | None = None,
        *,
        html: str = "",
        parts: tuple[Part, ...] = (),
        table: TextTable | None = None,
        **values: object,
    ) -> Figure:
        """A figure under its caption, in which `values` are filled in."""
        return Figure(self.captions[name].format(**values), chart, html, parts, table, name)

    def filled(self, **values: object) -> Prose:
        """The same with `values` filled into its captions."""
        captions = {name: text.format(**values) for name, text in self.captions.items()}
        return replace(self, captions=captions)

    def section(self, **options: Any) -> Section:
        """The section of these words."""
        words = {"title": self.title, "question": self.question, "about": self.about}
        return Section(**{**words, "group": self.group, **options})


def _nothing(study: Tables) -> list[Any]:
    return []


def _nothing_of_heads(study: Tables) -> dict[Any, list[Any]]:
    return {}


def _as_usual(study: Tables, usual: list[Fact]) -> list[Fact]:
    return usual


@dataclass(frozen=True)
class HeadKind:
    """What many heads of a model may do: what a claim of one `group` says of each of them.

    `words` complete "at least a quarter of its attention to ...". Of a kind that `is_breadth` the
    values are entropies in nats, and its share is that of the tokens over which a head spreads:
    as many as uniform attention with that entropy has, of those that a query sees.
    """

    group: str
    label: str
    words: str
    is_breadth: bool = False

    def share(self, value: float, control: float) -> float:
        """A value as a share from 0 to 1.

        >>> HeadKind("entropy", "many tokens", "are broad", True).share(2.0, 2.0)
        1.0
        """
        return math.exp(min(0.0, value - control)) if self.is_breadth else value


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A noun of the field as title, the question it answers, and what to be careful about.

    `needs` are the tables without which it is not shown. `claims` are all comparisons that it
    makes, which are judged together; differences below `smallest_effect` are of no interest.
    `warnings` say why results cannot be trusted, `notes` what else a reader should know.
    The card of a head has the claims about it, and what `head_rows` adds by layer and head: rows
    without a claim, which have no verdict; those with a label of `key_numbers` open it, all others
    stand under the heading `evidence`. `profiles` are small pictures of every head, `examples`
    texts that show what a head does.
    `texts_used` is how many texts there were of each kind, "test texts" for instance: too few are
    a warning. `at_majority` is the model that predicts, if it is no better than the majority class:
    a warning, and a caveat next to all findings about its predictions (sections `of_predictions`).
    `kinds` are what many heads of a model may do, which opens a report.
    `at_chance` says whether all that it shows without claims is at its control, which is
    one too. `facts` may change what the report says of the run itself. `columns` declares the
    columns of its head-level tables, by table.
    """

    title: str
    question: str
    needs: tuple[str, ...]
    about: str
    figures: Callable[[Tables], list[Figure]]
    claims: Callable[[Tables], list[Claim]] = _nothing
    smallest_effect: float = 0.0
    head_rows: Callable[[Tables], Mapping[Head, Sequence[HeadRow]]] = _nothing_of_heads
    key_numbers: tuple[str, ...] = ()
    evidence: str = "Comparisons with controls"
    profiles: Callable[[Tables], list[HeadProfile]] = _nothing
    examples: Callable[[Tables], Mapping[Head, Sequence[HeadExample]]] = _nothing_of_heads
    warnings: Callable[[Tables], list[str]] = _nothing
    texts_used: Callable[[Tables], Mapping[str, float]] = lambda study: {}
    at_majority: Callable[[Tables], AtMajority | None] = lambda study: None
    of_predictions: bool = False
    kinds: tuple[HeadKind, ...] = ()
    notes: Callable[[Tables], list[str]] = _nothing
    terminal: Callable[[Tables], list[TextTable]] = _nothing
    at_chance: Callable[[Tables], bool] = lambda study: False
    facts: Callable[[Tables, list[Fact]], list[Fact]] = _as_usual
    columns: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    order: int = 0  # on the page; equal ones as in the catalogue
    names_heads: bool = True  # such as L2H7, which the page explains
    group: str = ""  # the heading under which a report lists it


def shown(study: Tables, sections: Mapping[str, Section]) -> list[tuple[str, Section]]:
    """The sections that these tables are enough for, in the order of the page.

    Tables of a user's own measures have sections too.
    """
    from attlas.views.own_measures import own_sections

    able = [item for item in sections.items() if all(map(study.has, item[1].needs))]
    able += own_sections(study, sections).items()
    return sorted(able, key=lambda item: item[1].order)


def head_figure(
    words: Prose,
    frame: pd.DataFrame,
    columns: Sequence[Column] = (),
    first: str | None = None,
    table: str = "",
) -> list[Figure]:
    """A grid of heads, or nothing if no column of the table has a number.

    Columns with a sign have a grid of their own, with zero in the middle of its colours. With the
    name of the table, the grid shows the column that is chosen elsewhere on a page.
    """
    from attlas.views.charts import choices
    from attlas.views.tables import declared

    shown = [] if frame.empty else declared(columns, choices(frame))
    groups = {
        "heads": [one for one in shown if one.kind != "signed"],
        "signed-heads": [one for one in shown if one.kind == "signed"],
    }
    return [
        with_head_grid(words.figure(name), frame, some, first, table)
        for name, some in groups.items()
        if some
    ]


def with_head_grid(
    figure: Figure,
    frame: pd.DataFrame,
    columns: Sequence[Column],
    first: str | None = None,
    table: str = "",
) -> Figure:
    """A figure with a grid of heads: on a page it answers, in a file it is a chart."""
    from attlas.views.charts import head_grid
    from attlas.views.head_views import head_grid_part

    page = (head_grid_part(frame, columns, first, table),)
    return replace(figure, chart=LaterChart(lambda: head_grid(frame, columns, first)), page=page)


def largest(frame: pd.DataFrame, column: str) -> pd.Series[Any] | None:
    """The row with the largest value; None if no row has one."""
    known = frame[column].dropna()
    return None if known.empty else frame.loc[known.idxmax()]


def smallest(frame: pd.DataFrame, column: str) -> pd.Series[Any] | None:
    """The row with the smallest value; None if no row has one."""
    known = frame[column].dropna()
    return None if known.empty else frame.loc[known.idxmin()]


def prose(file: str) -> dict[str, Prose]:
    """The words in the `section.md` next to a module, by section.

    Under `## name` follow the line `title: question`, paragraphs about the section, and captions,
    each under `### figure`. A first line `# Group` is the heading under which a report lists them.
    """
    text = (Path(file).parent / "section.md").read_text(encoding="utf-8")
    first = text.partition("\n")[0]
    group = first.removeprefix("# ") if first.startswith("# ") else ""
    return {name: _prose(body, group) for name, body in _parts(text, "## ").items()}


def _prose(body: str, group: str) -> Prose:
    head, *captions = re.split(r"^### ", body, flags=re.MULTILINE)
    first, _, about = head.strip().partition("\n")
    title, _, question = first.partition(": ")
    named = _parts("".join(f"### {one}" for one in captions), "### ")
    captioned = {name: " ".join(text.split()) for name, text in named.items()}
    return Prose(
        title, question[:1].upper() + question[1:], " ".join(about.split()), captioned, group
    )


def _parts(text: str, mark: str) -> dict[str, str]:
    """What stands under each heading.

    >>> _parts("# all\\n## one\\na\\nb\\n## two\\nc", "## ")
    {'one': 'a\\nb', 'two': 'c'}
    """
    _, *parts = re.split(f"^{mark}", text, flags=re.MULTILINE)
    pairs = (part.partition("\n") for part in parts)
    return {name.strip(): body.strip() for name, _, body in pairs}
