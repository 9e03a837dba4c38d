"""Which texts a report shows, and how much of them."""

from __future__ import annotations

from typing import Any

EXAMPLE_TEXTS = 6
EXCERPT = 160  # characters of a text in a table
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


def excerpt(content: str) -> str:
    """The beginning of a text on one line.

    >>> excerpt("one\\ntwo"), excerpt("word " * 100)[-8:]
    ('one two', 'rd w ...')
    """
    line = " ".join(content.split())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 4].rstrip()} ..."
