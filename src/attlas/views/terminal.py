"""Summaries and tables in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from attlas.views.summary import Summary
from attlas.views.tables import TextTable

if TYPE_CHECKING:
    from attlas.views.cards import HeadCard


def print_findings(summary: Summary) -> None:
    """Print warnings, then findings with their verdicts, then notes."""
    for line in summary.warnings:
        print(f"Warning: {line}")
    for one in summary.findings:
        print(f"{one['verdict'].capitalize()}: {one['sentence']}")
    for line in summary.notes:
        print(f"Note: {line}")
    print()


def print_card(card: HeadCard) -> None:
    """Print what is known of a head: a sentence, its numbers and example texts."""
    print(f"{card.sentence}\n{card.origin}\n")
    if card.rows:
        print_table(card.table)
    if card.examples:
        print_table(card.example_table)


def print_table(table: TextTable) -> None:
    """Print one table, and a blank line after it; one that is too wide has less space."""
    console = Console(highlight=False)
    room = sum(
        max([len(title), *(len(row[at]) for row in table.rows)]) + 2
        for at, title in enumerate(table.titles)
    )
    narrow = room > console.width
    grid = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0) if narrow else (0, 1))
    for at, title in enumerate(table.titles):
        if table.is_words(at):
            grid.add_column(title)
        else:
            grid.add_column(title, justify="right", overflow="fold")
    for row in table.rows:
        grid.add_row(*map(Styled, row))
    console.print(grid)
    if table.note:
        console.print(table.note, style="dim")
    console.print()
