"""Charts of tokens: which are in the most lists, and what they receive by position."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attlas.views import charts
from attlas.views.vega import alt

LISTS = "top-10 lists with this token"


def top_bars(frame: pd.DataFrame, by: str, size: int = 10) -> alt.HConcatChart:
    """Bars of the tokens that are on most lists; the grey tick is what chance would give."""
    sides = [
        _side(frame[(frame["direction"] == direction) & (frame["rank"] < size)], by, title)
        for direction, title in (
            ("attended", "most attended"),
            ("attending", "most attending"),
        )
    ]
    return alt.hconcat(*sides, spacing=30).resolve_scale(x="shared")


def _side(rows: pd.DataFrame, by: str, title: str) -> alt.LayerChart | alt.FacetChart:
    data, order = charts.in_order(rows.assign(name=_names(rows, by)).round(2), "name")
    axis = alt.Axis(labelLimit=180, ticks=False, domain=False)
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=axis),
        tooltip=[
            alt.Tooltip("name:N", title="token"),
            alt.Tooltip("count:Q", title="lists"),
            alt.Tooltip("chance:Q", format=".1f", title="expected by chance"),
            *(
                alt.Tooltip(f"{name}:Q", title=name)
                for name in ("occurrences", "texts")
                if name in rows
            ),
        ],
    )
    bars = base.mark_bar(color=charts.ACCENT, opacity=0.8, height=13)
    chance = base.transform_filter("isValid(datum.chance)")
    ticks = chance.mark_tick(color=charts.GREY, thickness=2.5, size=17)
    return alt.layer(
        bars.encode(x=alt.X("count:Q", title=LISTS)),
        ticks.encode(x=alt.X("chance:Q", title=LISTS)),
    ).properties(width=330, height=19 * max(1, len(data)), title=title)


def _names(rows: pd.DataFrame, by: str) -> pd.Series[str]:
    at = "@" + rows["token"].astype(str) if by == "position" else ""
    names: pd.Series[str] = rows["string"] + at
    return names


def on_both_lists(frame: pd.DataFrame, by: str) -> alt.Chart:
    """The tokens on both lists, attended and attending: a bar for each count."""
    rows = frame[frame["both"]]
    data, order = charts.in_order(rows.assign(name=_names(rows, by)), "name")
    scale = alt.Scale(domain=["attended", "attending"], range=[charts.ACCENT, charts.SECOND])
    return (
        alt.Chart(data)
        .mark_bar(height=8)
        .encode(
            y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=180)),
            yOffset=alt.YOffset("direction:N"),
            x=alt.X("count:Q", title=LISTS),
            color=alt.Color("direction:N", title=None, scale=scale),
            tooltip=[
                alt.Tooltip("name:N", title="token"),
                alt.Tooltip("direction:N", title="list"),
                alt.Tooltip("count:Q", title="lists"),
                alt.Tooltip("chance:Q", format=".1f", title="expected by chance"),
            ],
        )
        .properties(width=330, height=alt.Step(11))
    )


def instances(frame: pd.DataFrame, string: str) -> alt.LayerChart | alt.FacetChart:
    """How many lists each instance of a token is on, in the order of the text, and by chance."""
    data = frame.sort_values("token").round(2)
    axis = alt.Axis(labelOverlap=True, labelAngle=-90)
    base = alt.Chart(data).encode(
        x=alt.X("token:O", title=f"position of “{string}”", axis=axis),
        tooltip=[
            alt.Tooltip("token:O", title="position"),
            alt.Tooltip("count:Q", title="lists"),
            alt.Tooltip("chance:Q", title="expected by chance"),
        ],
    )
    bars = base.mark_bar(color=charts.ACCENT, opacity=0.8)
    ticks = base.mark_tick(color=charts.GREY, thickness=2.5)
    return alt.layer(
        bars.encode(y=alt.Y("count:Q", title=LISTS)), ticks.encode(y=alt.Y("chance:Q", title=LISTS))
    ).properties(width=min(900, max(200, 12 * len(data))), height=180)


def by_position(
    frame: pd.DataFrame, column: str, period: int | None = None
) -> alt.LayerChart | alt.FacetChart:
    """Mean attention received by position, over uniform attention; multiples of a period marked."""
    data = frame.assign(ratio=(frame["all"] / frame["uniform"])).round(4)
    title = "position" if column == "position" else f"position modulo {period}"
    x = alt.X(f"{column}:Q", title=title, scale=alt.Scale(nice=False))
    layers: list[alt.Chart] = []
    if column == "position" and period and len(data) and data[column].max() >= period:
        last = int(data[column].max())
        multiples = pd.DataFrame({column: list(range(period, last + 1, period))})
        rules = alt.Chart(multiples).mark_rule(color=charts.GREY, strokeDash=[3, 3])
        layers.append(rules.encode(x=x))
    marked: dict[str, Any] = {}
    if period:
        multiple = f"datum.{column} % {period} == 0"
        large, colour = alt.value(60), alt.value(charts.SECOND)
        marked = {
            "size": alt.condition(multiple, large, alt.value(9)),
            "color": alt.condition(multiple, colour, alt.value(charts.ACCENT)),
        }
    dots = alt.Chart(data[[column, "tokens", "all", "uniform", "ratio"]])
    layers.append(
        dots.mark_circle(size=9, opacity=0.5, color=charts.ACCENT).encode(
            x=x,
            y=alt.Y("ratio:Q", title="received / uniform attention", scale=alt.Scale(zero=True)),
            tooltip=[
                alt.Tooltip(f"{column}:Q", title=title),
                alt.Tooltip("tokens:Q", title="tokens"),
                alt.Tooltip("all:Q", title="received"),
                alt.Tooltip("uniform:Q", title="uniform attention"),
                alt.Tooltip("ratio:Q", title="ratio"),
            ],
            **marked,
        )
    )
    return alt.layer(*layers).properties(width=720, height=190)
