"""Tables and shaded texts in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from attlas.core.importance import received_by
from attlas.views.cards import HeadCard
from attlas.views.findings import findings, warnings
from attlas.views.numbers import number
from attlas.views.overlay import LEVELS, levels_above_uniform
from attlas.views.section import Section, Tables, shown
from attlas.views.tables import TextTable
from attlas.views.text_page import TextNumbers

_TINTS = (
    "grey50",
    "grey70",
    "white",
    "black on grey78",
    "black on sky_blue2",
    "black on steel_blue1",
    "white on dodger_blue2",
    "white on blue3",
)


SHOWN = 400  # tokens of a text that are printed


def print_tables(study: Tables, sections: Mapping[str, Section]) -> None:
    """Print the tables that the sections of a study have for the terminal."""
    for _, section in shown(study, sections):
        for table in section.terminal(study):
            print_table(table)


def print_findings(study: Tables, sections: Mapping[str, Section]) -> None:
    """Print warnings, then findings with their verdicts, then the notes of sections."""
    for line in warnings(study, sections):
        print(f"Warning: {line}")
    for one in findings(study, sections):
        print(f"{one.verdict.capitalize()}: {one.sentence}")
    for _, section in shown(study, sections):
        for line in section.notes(study):
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


def print_look(
    seen: TextNumbers, layer: int | None = None, head: int | None = None, scaled: bool = False
) -> None:
    """The text with tokens shaded by attention received, and the tokens that receive most."""
    received = received_by(seen.by_head, layer, head, seen.importance if scaled else None)
    uniform = seen.uniform.mean(0) if layer is None else seen.uniform[layer]
    tints = levels_above_uniform(received[None], uniform[None], seen.special)[0]
    line = Styled()
    for string, tint in list(zip(seen.tokens, tints.tolist(), strict=True))[:SHOWN]:
        line.append(string, style=_TINTS[round(tint / (LEVELS - 1) * (len(_TINTS) - 1))])
        line.append(" ")
    console = Console(highlight=False)
    console.print(line)
    if len(seen.tokens) > SHOWN:
        more = f"... {len(seen.tokens) - SHOWN:,} more tokens"
        console.print(f"{more}; write the whole text with --html look.html", style="dim")
    if seen.cut:
        note = f"{seen.cut:,} tokens beyond the model's maximum length were truncated"
        console.print(note, style="dim")
    layers = "mean over layers" if layer is None else f"layer {layer}"
    heads = "mean over heads" if head is None else f"head {head}"
    weighted = ", heads weighted by importance" if scaled else ""
    console.print(
        f"\nAttention received by each token ({layers}, {heads}{weighted}); "
        "only tokens above uniform attention are shaded"
    )
    rows = tuple(
        (
            str(token),
            seen.tokens[token],
            number(float(received[token])),
            number(float(uniform[token])),
            _attends_to(seen, token, layer, head),
        )
        for token in np.argsort(-received, kind="stable")[:10].tolist()
    )
    titles = ("position", "token", "received", "uniform", "attends most to")
    print_table(TextTable(titles, rows, (False, True, False, False, True)))


def _attends_to(seen: TextNumbers, token: int, layer: int | None, head: int | None) -> str:
    """The token that a token attends to most and how much; of a long text, the word."""
    if seen.weights is None:
        words, weights = seen.tops
        word = seen.word_of[token]
        most = number(float(weights[0, word, 0]))
        return f"{seen.words[words[0, word, 0]]} ({most}, all heads)"
    rows = seen.weights[:, :, token] if layer is None else seen.weights[layer : layer + 1, :, token]
    row = (rows if head is None else rows[:, head : head + 1]).mean((0, 1))
    return f"{seen.tokens[int(row.argmax())]} ({number(float(row.max()))})"
