"""Classifiers during training: what moves the scores, and how they change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.section.cells import (
    choosing,
    chosen_cells,
    kind_colour,
    scale_title,
    short,
    some_epochs,
    titled,
)
from attlas.dynamics.section.tokens import SIDES
from attlas.dynamics.summary import CELL
from attlas.views import charts
from attlas.views.vega import alt

SHADES = [
    "#2f6fd0",
    "#1c9aa6",
    "#4c9a3f",
    "#b8912a",
    "#d9702f",
    "#c23f6d",
    "#8457c5",
]  # read on white and on black
TERMS = {
    "A": "A: attention to it",
    "B": "B: its part in sums",
    "C": "C: W moves",
    "D": "D: its part in sums",
    "E": "E: attention to it",
    "F": "F: V moves",
    "sum": "all terms",
}
PATH = {
    "vw": "V·W: attention with class",
    "v_norm": "|V|: size of attention scores",
    "w_norm": "|W|: size of polarity scores",
    "gap": "gap between classes",
    "loss": "loss",
    "dev_accuracy": "accuracy on dev",
    "separation": "separation (AUC)",
}
RULES = {"vw": 0.0, "gap": 0.0, "separation": 0.5}  # where there is none


def flow(frame: pd.DataFrame) -> alt.VConcatChart:
    """What moves the scores of each kind of token, term by term: polarity above, attention below.

    Terms are on one axis, so that they can be compared.
    """
    cells = chosen_cells(frame)
    rows = some_epochs(frame.merge(cells, on=list(CELL)))
    data = rows[["place", "epoch", "kind", "side"]].assign(
        term=rows["term"].map(term_title), mean=short(rows["mean"])
    )
    wide = 900 // int(data.groupby("side")["term"].nunique().max()) - 18
    drawn = []
    for side, title in SIDES.items():
        own = data[data["side"] == side]
        if own.empty:
            continue
        panels = _terms(own.drop(columns="side"), title, kind_colour(data), wide)
        drawn.append(panels.transform_filter("datum.place == chosen") if len(cells) > 1 else panels)
    stacked = alt.vconcat(*drawn, spacing=14)
    chart: alt.VConcatChart = choosing(stacked, list(cells["cell"]), "classifier")
    return chart


def _terms(data: pd.DataFrame, title: str, colour: alt.Color, wide: int) -> Any:
    """A panel for each term of one score."""
    order = sorted(
        set(data["term"]), key=lambda term: (term == TERMS["sum"], term[0], ": layer" in term)
    )
    axis = alt.Axis(tickCount=3, format="d", grid=False, labelOverlap="greedy", labelSeparation=2)
    lines = alt.Chart().mark_line(strokeWidth=1.8, point=data["epoch"].nunique() < 8)
    lines = lines.encode(
        x=alt.X("epoch:Q", title="epoch", axis=axis, scale=alt.Scale(nice=False)),
        y=alt.Y("mean:Q", title=f"change of {title}", axis=alt.Axis(format=".6~g", tickCount=5)),
        color=colour,
        tooltip=[
            alt.Tooltip("term:N", title="term"),
            alt.Tooltip("kind:N", title="kind"),
            alt.Tooltip("epoch:Q", title="epoch"),
            alt.Tooltip("mean:Q", title="mean change"),
        ],
    )
    zero = alt.Chart().mark_rule(color=charts.GREY, strokeWidth=1).encode(y=alt.datum(0))
    panels = alt.layer(zero, lines, data=data).properties(width=wide, height=150)
    header = alt.Header(labelPadding=4)
    facet = alt.Facet("term:N", title=None, sort=order, header=header)
    return panels.facet(facet=facet, columns=len(order))


def term_title(term: str) -> str:
    """A term with what it goes with.

    >>> term_title("B"), term_title("F_layer"), term_title("sum")
    ('B: its part in sums', 'F: layer', 'all terms')
    """
    letter, _, layer = term.partition("_")
    return f"{letter}: {layer}" if layer else TERMS.get(term, term)


def path(frame: pd.DataFrame) -> alt.ConcatChart:
    """V·W, norms, gap, loss, accuracy on dev and separation along training, a line per scale."""
    rows = titled(some_epochs(frame))
    models = list(dict.fromkeys(rows["model"]))
    shown = {what: title for what, title in PATH.items() if rows[what].notna().any()}
    data = pd.DataFrame(
        {
            "place": rows["model"].map(models.index),
            "epoch": rows["epoch"],
            "scale": rows["scale"].map(scale_title),
            **{what: short(rows[what], 5) for what in shown},
        }
    )
    named = [scale_title(scale) for scale in sorted(set(rows["scale"]))]
    colour = alt.Color(
        "scale:N",
        title="scale",
        scale=alt.Scale(domain=named, range=shades(len(named))),
        legend=alt.Legend(orient="top", columns=10, symbolStrokeWidth=2),
    )
    base = alt.Chart(data)
    base = base.transform_filter("datum.place == chosen") if len(models) > 1 else base
    panels = [_along(base, what, title, colour, data["epoch"]) for what, title in shown.items()]
    abreast = alt.concat(*panels, columns=4, spacing=18)
    chart: alt.ConcatChart = choosing(abreast, models, "model")
    return chart


def _along(
    base: alt.Chart, what: str, title: str, colour: alt.Color, epochs: pd.Series[int]
) -> alt.LayerChart | alt.FacetChart:
    """One number along training."""
    known = base.transform_filter(f"isValid(datum.{what})")
    across = alt.Scale(nice=False, domain=[0, int(epochs.max())])
    axis = alt.Axis(format=".6~g", tickCount=5)
    lines = known.mark_line(strokeWidth=1.8, point=epochs.nunique() < 8).encode(
        x=alt.X(
            "epoch:Q",
            title="epoch",
            axis=alt.Axis(tickCount=5, format="d", grid=False),
            scale=across,
        ),
        y=alt.Y(f"{what}:Q", title=None, axis=axis, scale=alt.Scale(zero=False)),
        color=colour,
        tooltip=[
            alt.Tooltip("scale:N", title="scale"),
            alt.Tooltip("epoch:Q", title="epoch"),
            alt.Tooltip(f"{what}:Q", title=title),
        ],
    )
    rule: list[alt.Chart] = []
    if what in RULES:
        none = alt.Chart(pd.DataFrame({"y": [RULES[what]]}))
        rule = [none.mark_rule(strokeDash=[4, 4], color=charts.GREY).encode(y="y:Q")]
    named = alt.Title(title, fontSize=11, fontWeight=400)
    return alt.layer(*rule, lines).properties(width=205, height=150, title=named)


def shades(count: int) -> list[str]:
    """So many colours from small to large.

    >>> shades(2), len(set(shades(12)))
    (['#2f6fd0', '#8457c5'], 12)
    """
    anchors = np.array([[int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in SHADES])
    steps = np.linspace(0, len(SHADES) - 1, count) if count > 1 else np.zeros(1)
    mixed = np.stack(
        [np.interp(steps, np.arange(len(SHADES)), anchors[:, channel]) for channel in range(3)],
        axis=1,
    )
    return [
        f"#{red:02x}{green:02x}{blue:02x}"
        for red, green, blue in mixed.round().astype(int).tolist()
    ]


def kinds(frame: pd.DataFrame) -> alt.HConcatChart:
    """Scores of each kind of token along training: the mean, and a band of the middle half."""
    cells = chosen_cells(frame)
    rows = some_epochs(frame.merge(cells, on=list(CELL)))
    sides = {
        "polarity": ("polarity", "polarity score"),
        "attention_score": ("attention", "attention score"),
    }
    numbers = [
        name for mean, (what, _) in sides.items() for name in (mean, f"{what}_low", f"{what}_high")
    ]
    data = rows[["place", "epoch", "kind", "tokens"]].assign(
        **{name: short(rows[name], 4) for name in numbers}
    )
    colour = kind_colour(data)
    drawn = []
    for mean, (what, title) in sides.items():
        base = (
            alt.Chart(data).transform_filter("datum.place == chosen")
            if len(cells) > 1
            else alt.Chart(data)
        )
        base = base.encode(
            x=alt.X(
                "epoch:Q",
                title="epoch",
                axis=alt.Axis(tickCount=6, format="d", grid=False),
                scale=alt.Scale(nice=False),
            ),
            color=colour,
            tooltip=[
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("epoch:Q", title="epoch"),
                alt.Tooltip("tokens:Q", title="tokens", format=","),
                alt.Tooltip(f"{mean}:Q", title=f"mean {title}"),
                alt.Tooltip(f"{what}_low:Q", title="first quartile"),
                alt.Tooltip(f"{what}_high:Q", title="third quartile"),
            ],
        )
        band = base.mark_area(opacity=0.2).encode(
            y=alt.Y(f"{what}_low:Q", title=title), y2=f"{what}_high:Q"
        )
        lines = base.mark_line(strokeWidth=2, point=data["epoch"].nunique() < 8).encode(
            y=alt.Y(f"{mean}:Q", title=title)
        )
        drawn.append(alt.layer(band, lines).properties(width=430, height=230))
    chart: alt.HConcatChart = choosing(
        alt.hconcat(*drawn, spacing=26), list(cells["cell"]), "classifier"
    )
    return chart
