"""Which texts a report shows."""

from __future__ import annotations

from typing import Any

EXAMPLE_TEXTS = 6
EXAMPLE_TOKENS = 12_000  # over all shaded texts, so that a report of long texts stays light


def within_budget(rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """The first of some texts that a report can show without becoming heavy."""
    out: list[tuple[int, dict[str, Any]]] = []
    tokens = 0
    for item in rows:
        tokens += item[1]["tokens"]
        if out and tokens > EXAMPLE_TOKENS:
            break
        out.append(item)
    return out
