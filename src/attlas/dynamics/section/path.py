"""Kinds of tokens along training in one plane: polarity across, attention score up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.section.cells import chosen_cells, kinds_of, short, some_epochs
from attlas.dynamics.summary import CELL
from attlas.views.modules import View
from attlas.views.numbers import decimal
from attlas.views.picture import SANS, SOFT, heading_svg, stacked, xml_text

PATH = View("path", __name__.rpartition(".")[0])
NUMBERS = (
    "polarity",
    "polarity_low",
    "polarity_high",
    "attention_score",
    "attention_low",
    "attention_high",
)
WIDTH, HEIGHT, EDGE = 560, 360, 52  # of a picture


@dataclass(frozen=True, eq=False)
class TrainingPath:
    """The scores of kinds of tokens of one classifier, epoch by epoch."""

    name: str
    kinds: dict[str, str]  # with their colours, those of all charts of the page
    rows: pd.DataFrame  # kind, epoch, tokens, NUMBERS

    def of(self, kind: str) -> pd.DataFrame:
        """The rows of a kind, the first epoch first."""
        return self.rows[self.rows["kind"] == kind].sort_values("epoch")

    @property
    def data(self) -> dict[str, Any]:
        kinds = []
        for kind, colour in self.kinds.items():
            own = self.of(kind)
            numbers = {name: short(own[name], 4) for name in NUMBERS}
            counts = {name: own[name].astype(int).tolist() for name in ("epoch", "tokens")}
            kinds.append({"kind": kind, "colour": colour, **counts, **numbers})
        return {"name": self.name, "kinds": kinds}


@dataclass(frozen=True, eq=False)
class TrainingPaths:
    """Classifiers during training, one shown at a time, with a slider for the epoch."""

    paths: tuple[TrainingPath, ...]
    view: View = field(default=PATH)

    @property
    def data(self) -> Any:
        return [one.data for one in self.paths]

    def html(self, number: int) -> str:
        return self.view.html(number, kind="attlas-path")

    def pictures(self) -> list[str]:
        return [path_svg(one) for one in self.paths]


def training_paths(frame: pd.DataFrame) -> TrainingPaths | None:
    """The classifiers that are drawn one by one, if all their scores are known at some epochs."""
    known = frame.dropna(subset=["epoch", "tokens", "kind", *CELL, *NUMBERS])
    if known.empty:
        return None
    cells, (names, colours) = chosen_cells(known), kinds_of(known)
    kinds = dict(zip(names, colours, strict=True))
    rows = some_epochs(known.merge(cells, on=list(CELL)))
    places = zip(cells["place"], cells["cell"], strict=True)
    parts = [(str(cell), _complete(rows[rows["place"] == place])) for place, cell in places]
    return TrainingPaths(
        tuple(
            TrainingPath(
                cell, {name: kinds[name] for name in names if (part["kind"] == name).any()}, part
            )
            for cell, part in parts
        )
    )


def _complete(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the epochs at which as many kinds are known as at any."""
    counts = rows.groupby("epoch")["kind"].transform("nunique")
    return rows[counts == counts.max()]


def path_svg(one: TrainingPath) -> str:
    """All epochs of a classifier without a script: hollow before training, filled at the end."""
    across, up = (_ends(one.rows[name]) for name in ("polarity", "attention_score"))

    def x(value: float) -> float:
        return EDGE + (WIDTH - 2 * EDGE) * (value - across[0]) / (across[1] - across[0])

    def y(value: float) -> float:
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - up[0]) / (up[1] - up[0])

    parts = [
        f'<path d="M{x(0):.1f} {EDGE}V{HEIGHT - EDGE}M{EDGE} {y(0):.1f}H{WIDTH - EDGE}" '
        'stroke="#c5cad1" fill="none"/>',
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 14}" text-anchor="end" fill="{SOFT}">'
        f"mean polarity score ({decimal(across[0])} to {decimal(across[1])})</text>",
        f'<text x="4" y="{EDGE - 20}" fill="{SOFT}">mean attention score '
        f"({decimal(up[0])} to {decimal(up[1])})</text>",
    ]
    for kind, ink in one.kinds.items():
        own = one.of(kind)
        points = [
            (x(float(row["polarity"])), y(float(row["attention_score"])))
            for row in own.to_dict("records")
        ]
        line = "L".join(f"{left:.1f} {top:.1f}" for left, top in points)
        (first_x, first_y), (last_x, last_y) = points[0], points[-1]
        parts.append(
            f'<path d="M{line}" fill="none" stroke="{ink}" stroke-width="2"/>'
            f'<circle cx="{first_x:.1f}" cy="{first_y:.1f}" r="3.5" fill="#ffffff" '
            f'stroke="{ink}"/><circle cx="{last_x:.1f}" cy="{last_y:.1f}" r="4.5" fill="{ink}"/>'
            f'<text x="{last_x:.1f}" y="{last_y - 9:.1f}" text-anchor="middle" fill="#15181d">'
            f"{xml_text(kind)}</text>"
        )
    last = int(one.rows["epoch"].max())
    about = [f"Kinds of tokens from before training (hollow) to epoch {last} (filled)."]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><g font-family="{SANS}" font-size="11">{"".join(parts)}'
        "</g></svg>"
    )
    return stacked(heading_svg(one.name, about, WIDTH), svg)


def _ends(values: Sequence[float] | pd.Series[float]) -> tuple[float, float]:
    """The ends of an axis on which zero is.

    >>> _ends([0.0, 0.0]), _ends([2.0, -1.0])
    ((-1.0, 1.0), (-1.0, 2.0))
    """
    low, high = min(0.0, float(np.min(values))), max(0.0, float(np.max(values)))
    return (low, high) if high > low else (-1.0, 1.0)
