"""What a page carries for its scripts: the data of its parts, and its charts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from attlas.views import charts
from attlas.views.head_changes import HeadRanking
from attlas.views.head_views import HeadGrid
from attlas.views.modules import View, page_scripts
from attlas.views.packing import deflated
from attlas.views.page import templates
from attlas.views.parts import Part
from attlas.views.section import Figure


@dataclass
class PageData:
    """The data of views by view, and specifications of charts, each known by its number."""

    views: dict[View, list[Any]] = field(default_factory=dict)
    specs: list[dict[str, Any]] = field(default_factory=list)
    all_heads: tuple[int, HeadGrid] | None = None  # the grid with all columns
    _placed: list[tuple[Part, int]] = field(default_factory=list)

    def number(self, part: Part) -> int:
        """The number of a part, whose data is added once."""
        items = self.views.setdefault(part.view, [])
        known = [number for one, number in self._placed if one is part]
        if not known:
            known = [len(items)]
            items.append(part.data)
            self._placed.append((part, known[0]))
        return known[0]

    def part(self, part: Part) -> Markup:
        """The elements of a part; a grid takes its columns from one with all of them."""
        if isinstance(part, HeadGrid) and self.all_heads is not None:
            number, every = self.all_heads
            if part.is_within(every):
                return Markup(part.html(number, tuple(one.name for one in part.columns)))
        if isinstance(part, HeadRanking):
            self.views.setdefault(part.view, [])
            return Markup(part.html(self.number(part.of)))
        return Markup(part.html(self.number(part)))

    def figure(self, figure: Figure) -> dict[str, Any]:
        """A figure for the page; its chart and its parts are known by their numbers there."""
        chart = None
        if figure.chart is not None and not figure.page:
            chart = len(self.specs)
            self.specs.append(packed_spec(charts.chart_spec(figure.chart)))
        return {
            "name": figure.name,
            "caption": figure.caption,
            "chart": chart,
            "html": Markup(figure.html),
            "parts": [self.part(part) for part in (*figure.page, *figure.parts)],
            "table": Markup(figure.table.html()) if figure.table else "",
        }


def parts_page(headline: str, parts: Sequence[Part], values: Mapping[str, Any]) -> str:
    """A page of parts that needs nothing else; `values` are those that its views share at first."""
    page = PageData()
    drawn = [page.part(one) for one in parts]
    template = templates().get_template("parts.html")
    scripts = page_scripts(page.views, values)
    return template.render(headline=headline, parts=drawn, **scripts)


def compressed(content: object) -> str:
    """JSON, compressed, in letters, which `charts.js` reads; the same bytes every time."""
    return deflated(json.dumps(content).encode())


def packed_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification of a chart with its data by column, which is a third of the size."""
    datasets = {name: _by_column(rows) for name, rows in spec.get("datasets", {}).items()}
    return {**spec, "datasets": datasets} if datasets else spec


def _by_column(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows with the same fields as columns; words that repeat as a list and indices.

    >>> _by_column([{"a": "x", "b": 1}, {"a": "x", "b": 2}, {"a": "x", "b": None}])
    {'fields': ['a', 'b'], 'columns': [{'of': ['x'], 'at': [0, 0, 0]}, [1, 2, None]]}
    """
    fields = list(rows[0]) if rows else []
    if not fields or any(list(row) != fields for row in rows):
        return rows
    return {"fields": fields, "columns": [_column([row[one] for row in rows]) for one in fields]}


def _column(values: list[Any]) -> Any:
    if not all(isinstance(one, str) for one in values):
        return values
    known = {one: index for index, one in enumerate(dict.fromkeys(values))}
    if 2 * len(known) > len(values):
        return values
    return {"of": list(known), "at": [known[one] for one in values]}
