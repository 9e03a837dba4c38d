"""Tables for people: some columns of a frame under their titles, in a page or in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from attlas.views.numbers import number

WHOLE = ("layer", "head", "offset", "n", "words")  # columns of whole numbers


@dataclass(frozen=True)
class TextTable:
    """A table for the terminal: titles, rows of cells, and a line below it."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1  # the first columns, which hold words; the others hold numbers
    note: str = ""
    narrow: bool = False  # of many columns: one blank between them


def text_table(
    frame: pd.DataFrame,
    columns: Mapping[str, str],
    *,
    words: int = 1,
    whole: Sequence[str] = (),
    signed: Sequence[str] = (),
) -> TextTable:
    """Some columns of a frame for the terminal; `whole` and `signed` ones are whole numbers."""

    def cell(name: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        if name in (*whole, *signed):
            return "-" if pd.isna(value) else f"{int(value):{'+d' if name in signed else ','}}"
        return number(float(value))

    records = frame.to_dict("records")
    rows = tuple(tuple(cell(name, row[name]) for name in columns) for row in records)
    return TextTable(tuple(columns.values()), rows, words)


def table_html(frame: pd.DataFrame, columns: Mapping[str, str]) -> str:
    """Some columns of a frame as HTML, under these titles; whole numbers as they are."""
    head = "".join(f"<th>{escape(title)}</th>" for title in columns.values())
    rows = []
    for row in frame.to_dict("records"):
        cells = [f"<td>{escape(_cell(name, row[name]))}</td>" for name in columns]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table class="lists"><tr>{head}</tr>{"".join(rows)}</table>'


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return "-"
    return f"{int(value):,}" if name in WHOLE else number(float(value))
