"""Charts of changes: the largest with their controls, and lines over a series."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from attlas.views.charts import ACCENT, GREY
from attlas.views.numbers import head_names
from attlas.views.vega import alt

NAMED = 5  # heads of a series that are named
SOFT = 0.35  # opacity of the others


def largest_chart(rows: pd.DataFrame, label: str) -> alt.LayerChart | alt.FacetChart:
    """Changes with their corrected intervals, on the range of differences between halves of A."""
    names = ["name", "value_a", "value_b", "difference", "corrected_low", "corrected_high"]
    data = rows[[*names, "halves", "seed_difference"]].round(4)
    data = data.assign(least=-data["halves"])
    order = list(dict.fromkeys(data["name"]))
    axis = alt.Axis(ticks=False, domain=False)
    tooltip = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("value_a:Q", title="A"),
        alt.Tooltip("value_b:Q", title="B"),
        alt.Tooltip("difference:Q", title="B minus A"),
        alt.Tooltip("corrected_low:Q", title="corrected interval from"),
        alt.Tooltip("corrected_high:Q", title="to"),
        alt.Tooltip("halves:Q", title="two halves of A, up to"),
        alt.Tooltip("seed_difference:Q", title="another seed"),
    ]
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=axis), tooltip=tooltip
    )
    title = f"B minus A: {label}"
    bands = base.mark_rule(strokeWidth=13, opacity=0.25, color=GREY)
    ends = base.mark_rule(strokeWidth=2, color=ACCENT)
    rings = base.mark_point(filled=False, size=40, color=GREY)
    dots = base.mark_circle(size=52, opacity=1, color=ACCENT)
    return alt.layer(
        bands.encode(x=alt.X("least:Q", title=title), x2="halves:Q"),
        ends.encode(x="corrected_low:Q", x2="corrected_high:Q"),
        rings.encode(x="seed_difference:Q"),
        dots.encode(x="difference:Q"),
    ).properties(width=380, height=22 * max(1, len(order)))


def series_chart(table: pd.DataFrame, labels: Mapping[str, str]) -> alt.LayerChart | alt.FacetChart:
    """One line per head over the studies of a series; those that moved most are named."""
    data = table.assign(key=table["measure"] + "." + table["column"], name=head_names(table))
    ranks = data.groupby(["key", "study"])["total_change"].rank(ascending=False, method="first")
    most = (ranks <= NAMED) & (data["total_change"] > 0)
    data = data.assign(kind=most.map({True: "moved most", False: "others"})).round(4)
    data = data[["key", "name", "study", "value", "total_change", "kind"]]
    names = list(labels)
    menu = alt.binding_select(options=names, labels=list(labels.values()), name="number ")
    chosen = alt.param(name="shown", value=names[0], bind=menu)
    tooltip = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("study:O", title="study"),
        alt.Tooltip("value:Q", title="value"),
        alt.Tooltip("total_change:Q", title="total change"),
    ]
    scale = alt.Scale(domain=["moved most", "others"], range=[ACCENT, GREY])
    base = (
        alt.Chart(data)
        .transform_filter("datum.key == shown")
        .encode(
            x=alt.X("study:O", title="study in the series", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            detail="name:N",
            color=alt.Color("kind:N", scale=scale, title=None, legend=alt.Legend(orient="top")),
            tooltip=tooltip,
        )
    )
    lines = base.mark_line(strokeWidth=1.4).encode(
        opacity=alt.condition("datum.kind == 'others'", alt.value(SOFT), alt.value(1))
    )
    last = int(data["study"].max())
    ends = base.transform_filter(f"datum.study == {last} && datum.kind == 'moved most'")
    named = ends.mark_text(align="left", dx=6, fontSize=11).encode(text="name:N")
    return alt.layer(lines, named).properties(width=420, height=280).add_params(chosen)
