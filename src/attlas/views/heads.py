"""One column of the atlas as a figure: a grid of all heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import pandas as pd

from attlas.support.errors import StudyError
from attlas.views.charts import choices, sized_grid, titled_choices
from attlas.views.findings import about_source, origin
from attlas.views.numbers import decimal, number
from attlas.views.own_measures import own_sections
from attlas.views.paper import Drawn, Interactive, PaperFigure
from attlas.views.section import Section, Tables
from attlas.views.shades import control_name
from attlas.views.tables import Column, TextTable, declared, undeclared

TINTS = {
    "above": "Tints start at {control}: a head at or below it{near} has none.",
    "below": "Tints start at {control}: a head at or above it{near} has none.",
    "signed": "A head at zero{near} has no tint.",
    "plain": "Tints span the whole range of values.",
}


def heads_figure(
    study: Tables,
    sections: Mapping[str, Section],
    columns: Mapping[str, tuple[str, str]],
    name: str | None,
    interactive: Callable[[str], Interactive] | None = None,
) -> PaperFigure:
    """The grid of a column of the atlas; `columns` are the table and the column of each name.

    A name may leave out the table where that is clear; without a name it is the first column.
    `interactive` is what a notebook shows, by the name that grids of heads know the column by.
    """
    able = _drawable(study, columns)
    if not able:
        raise StudyError("this study has no table with a row per head")
    table, found = columns[_resolved(name, able) if name else able[0]]
    frame = study.table(table)
    every = {**sections, **own_sections(study, sections)}
    title, column = _declaration(every, table, found)
    about, source = about_source(study), study.manifest

    def draw(width: float) -> Drawn:
        chart = sized_grid(frame, column, width)
        return titled_choices(chart, f"{title}: {column.title}", about)[""]

    words = control_name(column) if column.control in frame else ""
    kind = column.kind if words or column.kind == "signed" else "plain"
    near = f", or nearer to it than {column.least:g}," if column.least else ""
    analysed = source["counts"].get("analysed")
    cases = "" if analysed is None else f" (n = {analysed:,} texts)"
    caption = (
        f"{title}: {column.title} of the {len(frame):,} attention heads of "
        f"{origin(source)}{cases}. {TINTS[kind].format(control=words, near=near)}"
    )
    shown = interactive(f"{table}.{found}") if interactive else None
    return PaperFigure(caption, grid_table(frame, column), draw, is_chart=True, interactive=shown)


def _drawable(study: Tables, columns: Mapping[str, tuple[str, str]]) -> list[str]:
    """The names of the columns that have numbers and are no controls."""
    tables = {table for table, _ in columns.values()}
    known = {table: {one.name for one in drawable(study.table(table))} for table in tables}
    return [name for name, (table, column) in columns.items() if column in known[table]]


def drawable(frame: pd.DataFrame, columns: Sequence[Column] = ()) -> list[Column]:
    """The columns of a table of heads that have numbers and are no controls."""
    names = choices(frame.select_dtypes("number"))
    return declared(columns, names) if columns else undeclared(names)


def _resolved(name: str, names: list[str]) -> str:
    """The full name of a column of the atlas.

    >>> _resolved("previous", ["surface.previous", "entropy"])
    'surface.previous'
    >>> _resolved("next", ["surface.next", "templates.next"])
    Traceback (most recent call last):
        ...
    attlas.support.errors.StudyError: 'next' may be surface.next or templates.next; give one of them
    """
    if name in names:
        return name
    found = [one for one in names if one.partition(".")[2] == name]
    if len(found) > 1:
        raise StudyError(f"{name!r} may be {' or '.join(found)}; give one of them")
    if not found:
        near = get_close_matches(str(name), names, 1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        raise StudyError(
            f"there is no column {name!r} in the atlas{guess}; choose from {', '.join(names)}"
        )
    return found[0]


def _declaration(sections: Mapping[str, Section], table: str, column: str) -> tuple[str, Column]:
    """The title of the section that shows a table, and how it declares the column."""
    for section in sections.values():
        if table in section.columns:
            return section.title, declared(section.columns[table], [column])[0]
    return table.removesuffix("_heads").replace("_", " "), undeclared([column])[0]


def grid_table(frame: pd.DataFrame, column: Column) -> TextTable:
    """Layers down and heads across, with the mean of the control below."""
    grid = frame.pivot(index="layer", columns="head", values=column.name)
    rows = tuple(
        (f"L{layer}", *(number(value) for value in values))
        for layer, values in zip(grid.index, grid.to_numpy(), strict=True)
    )
    note = ""
    if column.control in frame:
        mean, words = float(frame[column.control].mean()), control_name(column)
        note = f"{words[:1].upper()}{words[1:]}: {decimal(mean)} (mean of all heads)."
    return TextTable(("", *(f"H{head}" for head in grid.columns)), rows, note=note)
