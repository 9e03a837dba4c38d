"""Sections for measures of a user's own: a grid of heads for each of their tables by head.

A measure says in `kinds` how its columns are read, and `NAME_uniform` is the control of the column
NAME; without either, a grid has no control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attlas.views.charts import choices
from attlas.views.section import Prose, Section, Tables, head_figure
from attlas.views.tables import Column, undeclared

UNIFORM = "_uniform"
GRID = "A measure of your own, by head."


def own_sections(study: Tables, sections: Mapping[str, Section]) -> dict[str, Section]:
    """A section for each table by head of a measure of one's own that no section shows."""
    shown = {table for one in sections.values() for table in (*one.needs, *one.columns)}
    tables = study.manifest.get("tables")  # a list of names in old folders
    return {
        name: own_section(study, name, about["own"])
        for name, about in (tables.items() if isinstance(tables, Mapping) else ())
        if name not in shown and name not in sections
        if isinstance(about, dict) and about.get("kind") == "head" and "own" in about
    }


def own_section(study: Tables, name: str, own: Mapping[str, Any]) -> Section:
    """The grid of a table by head, with its columns as its measure declares them."""
    frame = study.table(name)
    columns = [_column(one, {*frame}, own) for one in undeclared(choices(frame))]
    title = name.replace("_", " ")
    words = Prose(
        title[:1].upper() + title[1:],
        str(own.get("question", "")),
        "",
        {"heads": GRID, "signed-heads": GRID},
    )
    return words.section(
        needs=(name,),
        figures=lambda study: head_figure(words, study.table(name), columns, table=name),
        columns={name: columns},
    )


def _column(column: Column, names: set[str], own: Mapping[str, Any]) -> Column:
    """How one column is drawn."""
    kind = own.get("kinds", {}).get(column.name, "plain")
    control = column.name + UNIFORM
    if kind in ("above", "below") and control not in names:
        kind = "plain"
    return replace(column, kind=kind, control=control if control in names else "")
