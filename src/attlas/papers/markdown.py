"""Tables in Markdown, declared by their columns: a title, and a template of the cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

import pandas as pd

from attlas.views.numbers import number

MISSING = "-"


class _Cell(Formatter):
    """Formats with two types more: `p`, percent without the sign; `z`, no zero before the point."""

    def get_field(self, name: str, args: Any, kwargs: Any) -> Any:
        try:
            return super().get_field(name, args, kwargs)
        except TypeError:  # of a record that is None
            return None, name

    def format_field(self, value: Any, spec: str) -> str:
        if value is None or value != value:
            return MISSING
        if spec.endswith("p"):
            return format(100 * value, f"{spec[:-1]}f")
        if spec.endswith("z"):
            return number(value, int(spec[1:-1]))
        return str(super().format_field(value, spec))

    def is_missing(self, template: str, row: Mapping[str, Any]) -> bool:
        """Whether a template has fields, and none of them a value."""
        names = [name for _, name, _, _ in self.parse(template) if name]
        values = [self.get_field(name, (), row)[0] for name in names]
        return bool(values) and all(value is None or value != value for value in values)


def table(
    rows: pd.DataFrame | Iterable[Mapping[str, Any]],
    *columns: tuple[str, str],
    missing: str = MISSING,
) -> list[str]:
    """The lines of a table. A cell without any value is `missing`.

    >>> rows = [{"head": "L0H1", "f1": 0.5, "n": 1204}, {"head": "L2H0", "f1": None, "n": 7}]
    >>> columns = ("", "{head}"), ("F1", "{f1:.1p} ({f1:.2z})"), ("n", "{n:,}")
    >>> print(*table(rows, *columns), sep="\\n")
    | | F1 | n |
    |---|---|---|
    | L0H1 | 50.0 (.50) | 1,204 |
    | L2H0 | - | 7 |
    """
    records: Any = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    cell = _Cell()
    lines = [_line(title for title, _ in columns), "|" + "---|" * len(columns)]
    for row in records:
        lines.append(
            _line(
                missing if cell.is_missing(template, row) else cell.vformat(template, (), row)
                for _, template in columns
            )
        )
    return lines


def _line(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)
