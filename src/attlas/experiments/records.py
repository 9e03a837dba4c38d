"""Rows of tables as plain values, for results in JSON."""

from __future__ import annotations

from typing import Any

import pandas as pd

WHOLE = ("layer", "head", "offset", "n", "texts", "words", "chosen_n")


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain mappings; what is missing is None."""
    return [
        {
            str(name): None if value != value else int(value) if name in WHOLE else value
            for name, value in row.items()
        }
        for row in table.to_dict("records")
    ]


def first_value(table: pd.DataFrame, column: str) -> float | None:
    """The number in a column's first row; None if there is none."""
    there = len(table) and table[column].notna().iloc[0]
    return float(table[column].iloc[0]) if there else None
