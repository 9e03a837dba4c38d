"""Charts of relations from attention: classifiers and controls, directions, layers, heads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from attlas.relations.section.names import ATTENTION, BOTH, reader_names
from attlas.views import charts
from attlas.views.numbers import head_names
from attlas.views.shades import short, tint
from attlas.views.tables import Column
from attlas.views.vega import alt

ORDER = Column("order", "order of selection")
PARTS = {"h": "head", "t": "tail", "r": "relation words"}
LAYERS = {
    ATTENTION: "attention",
    "random_model": "attention, random weights",
    "hidden_states": "hidden states",
    "hidden_states_few": "hidden states, as many features as attention",
}


def readers(frame: pd.DataFrame) -> alt.HConcatChart:
    """Related or not, and which relation: every classifier with its interval; controls in grey."""
    panels = {"binary_accuracy": "related or not: accuracy", "f1": "which relation: macro F1"}
    return _dots(frame, {name: title for name, title in panels.items() if name in frame})


def unseen(frame: pd.DataFrame) -> alt.HConcatChart:
    """The same on unseen relation phrases."""
    return _dots(frame, {"f1": "macro F1 on unseen phrases"})


def _dots(frame: pd.DataFrame, panels: Mapping[str, str]) -> alt.HConcatChart:
    own = frame["reader"].isin([ATTENTION, BOTH])
    kinds = frame["reader"].where(own, "control")
    data = frame.assign(name=reader_names(frame), kind=kinds).round(4)
    drawn = [
        _reader_panel(data, what, title, index == 0)
        for index, (what, title) in enumerate(panels.items())
    ]
    return alt.hconcat(*drawn, spacing=22)


def _reader_panel(
    data: pd.DataFrame, what: str, title: str, labelled: bool
) -> alt.LayerChart | alt.FacetChart:
    numbers = {
        "": title,
        "_low": "95% CI from",
        "_high": "to",
        "_ahead": "attention ahead by",
        "_ahead_low": "ahead, from",
        "_ahead_high": "ahead, to",
    }
    colours = [charts.ACCENT, charts.SECOND, charts.GREY]
    scale = alt.Scale(domain=[ATTENTION, BOTH, "control"], range=colours)
    axis = alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=320, labelPadding=8)
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=list(data["name"]), title=None, axis=axis),
        color=alt.Color("kind:N", legend=None, scale=scale),
        tooltip=[
            alt.Tooltip("name:N", title="classifier"),
            *(
                alt.Tooltip(f"{what}{end}:Q", format=".3f", title=named)
                for end, named in numbers.items()
            ),
        ],
    )
    x = alt.X(f"{what}:Q", title=title, scale=alt.Scale(zero=what == "f1"))
    own = base.transform_filter("datum.reader == 'attention'")
    dashed = own.mark_rule(strokeDash=[3, 3], opacity=0.6)
    low, written = alt.X(f"{what}_low:Q", title=title), alt.Text(f"{what}:Q", format=".3f")
    return alt.layer(
        dashed.encode(x=x, y=alt.value(0), y2=alt.value(28 * len(data))),
        base.mark_rule(strokeWidth=2).encode(x=low, x2=f"{what}_high:Q"),
        base.mark_circle(size=70, opacity=1).encode(x=x),
        base.mark_text(dy=-9, fontSize=10).encode(x=x, text=written),
    ).properties(width=320, height=28 * len(data))


def direction_name(direction: str) -> str:
    """Who attends to whom.

    >>> direction_name("h-r")
    'head → relation words'
    """
    one, _, other = direction.partition("-")
    return f"{PARTS.get(one, one)} → {PARTS.get(other, other)}"


def directions(frame: pd.DataFrame) -> alt.HConcatChart:
    """The weight of each direction, and the score of a classifier of it alone.

    Hollow is random weights, the grey tick all others without it.
    """
    data = frame.assign(name=frame["direction"].map(direction_name)).round(4)
    return alt.hconcat(
        _weight(data, "weight_related", "weight: related or not", True),
        _weight(data, "weight_named", "weight: which relation", False),
        _alone(data, "binary_accuracy", "related or not: accuracy"),
        _alone(data, "f1", "which relation: macro F1"),
        spacing=20,
    )


def _by_direction(data: pd.DataFrame, labelled: bool) -> alt.Chart:
    axis = alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=260, labelPadding=8)
    y = alt.Y("name:N", sort=list(data["name"]), title=None, axis=axis)
    return alt.Chart(data).encode(y=y)


def _weight(data: pd.DataFrame, column: str, title: str, labelled: bool) -> alt.Chart:
    bars = _by_direction(data, labelled).mark_bar(height=13, color=charts.ACCENT, opacity=0.8)
    return bars.encode(
        x=alt.X(f"{column}:Q", title=title, axis=alt.Axis(tickCount=3)),
        tooltip=[
            alt.Tooltip("name:N", title="direction"),
            alt.Tooltip(f"{column}:Q", format=".4f", title=title),
        ],
    ).properties(width=150, height=26 * len(data))


def _alone(data: pd.DataFrame, what: str, title: str) -> alt.LayerChart | alt.FacetChart:
    numbers = {
        "_alone": "alone",
        "_alone_random": "alone, random weights",
        "_without": "all other directions",
    }
    tooltip = [
        alt.Tooltip("name:N", title="direction"),
        *(
            alt.Tooltip(f"{what}{end}:Q", format=".3f", title=named)
            for end, named in numbers.items()
            if f"{what}{end}" in data
        ),
    ]
    base = _by_direction(data, False)
    marks: list[alt.Chart] = []
    if f"{what}_without" in data:
        ticks = base.mark_tick(color=charts.GREY, thickness=3, size=13)
        marks.append(ticks.encode(x=alt.X(f"{what}_without:Q", title=title), tooltip=tooltip))
    hollow = base.mark_point(shape="circle", filled=False, size=40, color=charts.GREY)
    marks.append(hollow.encode(x=alt.X(f"{what}_alone_random:Q", title=title), tooltip=tooltip))
    dots = base.mark_circle(size=60, opacity=1, color=charts.ACCENT)
    x = alt.X(f"{what}_alone:Q", title=title, scale=alt.Scale(zero=False))
    marks.append(dots.encode(x=x, tooltip=tooltip))
    return alt.layer(*marks).properties(width=190, height=26 * len(data))


def layers(frame: pd.DataFrame) -> alt.Chart:
    """F1 of relations by classifiers of one layer: a box for each layer and input."""
    data = frame.assign(name=frame["reader"].map(LAYERS).fillna(frame["reader"])).round(4)
    present = list(data["name"].unique())
    others = [name for name in present if name not in LAYERS.values()]
    names = [name for name in LAYERS.values() if name in present] + others
    colours = dict(
        zip(LAYERS.values(), [charts.ACCENT, charts.GREY, charts.FOR, charts.SECOND], strict=True)
    )
    count = data["layer"].nunique() * len(names)
    return (
        alt.Chart(data)
        .mark_boxplot(
            size=9,
            opacity=0.75,
            outliers={"size": 10, "opacity": 0.6},
            median={"stroke": "#14171c"},
        )
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("name:N", sort=names),
            y=alt.Y("f1:Q", title="F1 of a relation", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "name:N",
                title=None,
                sort=names,
                scale=alt.Scale(
                    domain=names, range=[colours.get(name, charts.GREY) for name in names]
                ),
                legend=alt.Legend(orient="top", labelLimit=320, columns=4),
            ),
        )
        .properties(width=max(320, min(980, 17 * count)), height=220)
    )


def _with_random(
    frame: pd.DataFrame, column: str, x: alt.X, chosen: str, control: str
) -> alt.LayerChart | alt.FacetChart:
    """A line of F1 and one of chance, with the range of chance if that is known."""
    long = pd.concat(
        [
            frame.assign(what=chosen, value=frame["f1"]),
            frame.assign(what=control, value=frame["f1_random"]),
        ]
    )
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=[chosen, control], range=[charts.ACCENT, charts.GREY]),
        legend=alt.Legend(orient="top", labelLimit=400),
    )
    y = alt.Y("value:Q", title="macro F1", scale=alt.Scale(zero=False))
    marks: list[alt.Chart] = []
    if "f1_random_low" in frame:
        marks.append(
            alt.Chart(frame.round(4))
            .mark_area(color=charts.GREY, opacity=0.22)
            .encode(x=x, y=alt.Y("f1_random_low:Q", title="macro F1"), y2="f1_random_high:Q")
        )
    tooltip = [
        alt.Tooltip(f"{column}:Q", title=f"number of {column}"),
        alt.Tooltip("what:N", title="selection"),
        alt.Tooltip("value:Q", format=".3f", title="macro F1"),
    ]
    lines = alt.Chart(long.round(4)).mark_line(point=alt.OverlayMarkDef(size=36), strokeWidth=2)
    return alt.layer(*marks, lines.encode(x=x, y=y, color=colour, tooltip=tooltip)).properties(
        width=460, height=210
    )


def path(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """F1 by number of heads, compared with the same number of random heads."""
    ticks = alt.Axis(values=sorted(frame["heads"].unique().tolist()), format="d", labelOverlap=True)
    x = alt.X(
        "heads:Q", title="number of heads", scale=alt.Scale(type="log", nice=False), axis=ticks
    )
    return _with_random(frame, "heads", x, "heads in the order of selection", "random heads")


def merged(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """F1 by number of classes, compared with merging at random into groups of the same sizes."""
    x = alt.X(
        "classes:Q",
        title="number of classes",
        scale=alt.Scale(reverse=True, nice=False, padding=8),
        axis=alt.Axis(values=sorted(frame["classes"].unique().tolist()), format="d"),
    )
    return _with_random(frame, "classes", x, "merged as in the tree", "merged at random")


def entered(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """A grid of heads by the order of selection, with the numbers of the first."""
    order = frame["entered"] + 1
    own = {"order": tint(ORDER, -np.log2(order), [math.nan] * len(frame))}
    ends = (short(float(one)) for one in (order.max(), np.sqrt(order.max()), 1))
    own["order"] = replace(own["order"], ticks=(next(ends), next(ends), next(ends)))
    data = frame.assign(place=order, name=head_names(frame), shade=own["order"].shades)
    cell = max(14, min(28, 620 // (int(frame["head"].max()) + 1)))
    base = alt.Chart(data).encode(
        x=alt.X("head:O", axis=charts.heads_axis("H"), title=None),
        y=alt.Y("layer:O", axis=charts.heads_axis("L", "left"), title=None),
        tooltip=[
            alt.Tooltip("name:N", title="head"),
            alt.Tooltip("place:Q", title=ORDER.label),
        ],
    )
    grid = base.mark_rect(stroke="#c9ced6", strokeWidth=0.4)
    grid = grid.encode(color=charts.tint_colour(own))
    first = base.transform_filter("datum.place <= 16").mark_text(fontSize=10)
    numbers = first.encode(
        text="place:Q",
        color=alt.condition("datum.place <= 4", alt.value("#ffffff"), alt.value("#1d2129")),
    )
    return alt.layer(grid, numbers).properties(
        width=cell * (int(frame["head"].max()) + 1), height=cell * (int(frame["layer"].max()) + 1)
    )
