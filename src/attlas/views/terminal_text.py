"""One text in the terminal: tokens shaded by the attention that they receive."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.text import Text as Styled

from attlas.core.importance import received_by
from attlas.views.numbers import number
from attlas.views.overlay import LEVELS, levels_above_uniform
from attlas.views.tables import TextTable
from attlas.views.terminal import print_table
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
