"""A text's attention in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from attlas.studies.opened import Study
from attlas.views.charts import CLASSIFIERS
from attlas.views.findings import number
from attlas.views.look import TextAttention

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


def print_look(seen: TextAttention, layer: int | None = None, head: int | None = None) -> None:
    """The text with tokens tinted by attention received, and the tokens that receive most."""
    weights = seen.weights if layer is None else seen.weights[layer : layer + 1]
    weights = weights if head is None else weights[:, head : head + 1]
    received = weights.sum(-2).mean((0, 1))
    ordinary = [float(value) for value, special in zip(received, seen.special, strict=True) if not special] or [
        float(received.max())
    ]
    top = max(ordinary) or 1.0
    line = Styled()
    for string, value in zip(seen.tokens, received.tolist(), strict=True):
        line.append(string, style=_TINTS[min(len(_TINTS) - 1, int(value / top * (len(_TINTS) - 1) + 0.5))])
        line.append(" ")
    console = Console(highlight=False)
    console.print(line)
    which = (
        f"{'all layers' if layer is None else f'layer {layer}'}, {'mean of heads' if head is None else f'head {head}'}"
    )
    console.print(f"\nattention received ({which}), beside what even attention would give")
    table = Table(
        "token",
        "string",
        "receives",
        "even",
        "looks most at",
        box=None,
        pad_edge=False,
    )
    rows = weights.mean((0, 1))
    even = seen.uniform.mean(0) if layer is None else seen.uniform[layer]
    order = sorted(range(len(seen.tokens)), key=lambda token: (-float(received[token]), token))[:10]
    for token in order:
        target = int(rows[token].argmax())
        table.add_row(
            str(token),
            Styled(seen.tokens[token]),
            number(float(received[token])),
            Styled(number(float(even[token])), style="dim"),
            Styled(f"{seen.tokens[target]} ({number(float(rows[token, target]))})"),
        )
    console.print(table)


def print_scores(study: Study) -> None:
    """The classifiers of a topology experiment: MCC and accuracy with their intervals."""
    table = Table(box=None, pad_edge=False)
    table.add_column("classifier")
    for title in ("MCC", "95 %", "accuracy", "95 %"):
        table.add_column(title, justify="right")
    for row in study.table("topology").to_dict("records"):
        cells = [f"{row['mcc']:.3f}", f"{row['mcc_low']:.3f} to {row['mcc_high']:.3f}"]
        cells += [f"{row['accuracy']:.3f}", f"{row['accuracy_low']:.3f} to {row['accuracy_high']:.3f}"]
        table.add_row(CLASSIFIERS.get(row["classifier"], row["classifier"]), *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print()
