"""Charts of topological classifiers: scores, single heads, model selection on dev."""

from __future__ import annotations

import pandas as pd

from attlas.views import charts
from attlas.views.shades import tint
from attlas.views.tables import Column
from attlas.views.vega import alt

CLASSIFIERS = {
    "model": "the model's own head",
    "all": "topology, all heads",
    "12": "topology, 12 best heads",
    "3": "topology, 3 best heads",
    "1": "topology, best head",
    "frozen_model": "control: before fine-tuning",
    "random_model": "control: random weights",
    "length_only": "control: length only",
}
# The smallest difference of interest; section.md has the reason.
MCC = 0.05
SINGLE = tuple(
    Column(part, f"MCC on {part}", kind="signed", least=MCC) for part in ("train", "test")
)
CONTROLS = ("frozen_model", "random_model", "length_only")


def classifier_scores(frame: pd.DataFrame) -> alt.HConcatChart:
    """MCC and accuracy of each classifier with the interval of its bootstrap; controls in grey."""
    data = frame.assign(
        name=frame["classifier"].map(CLASSIFIERS).fillna(frame["classifier"]),
        control=frame["classifier"].isin(CONTROLS),
    ).round(4)
    return alt.hconcat(
        _scores(data, "mcc", "Matthews' correlation (95% CI)", True),
        _scores(data, "accuracy", "accuracy (95% CI)", False),
    )


def _scores(
    data: pd.DataFrame, what: str, title: str, labelled: bool
) -> alt.LayerChart | alt.FacetChart:
    axis = alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=260, labelPadding=8)
    colours = alt.Scale(domain=[False, True], range=[charts.ACCENT, charts.GREY])
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=list(data["name"]), title=None, axis=axis),
        color=alt.Color("control:N", legend=None, scale=colours),
        tooltip=[
            alt.Tooltip("name:N", title="classifier"),
            alt.Tooltip(f"{what}:Q", format=".3f", title=title),
            alt.Tooltip(f"{what}_low:Q", format=".3f", title="95% CI from"),
            alt.Tooltip(f"{what}_high:Q", format=".3f", title="to"),
            alt.Tooltip("n:Q", title="texts"),
        ],
    )
    x = alt.X(f"{what}:Q", title=title, scale=alt.Scale(zero=what == "mcc", nice=True))
    low, written = alt.X(f"{what}_low:Q", title=title), alt.Text(f"{what}:Q", format=".3f")
    return alt.layer(
        base.mark_rule(strokeWidth=2).encode(x=low, x2=f"{what}_high:Q"),
        base.mark_circle(size=70, opacity=1).encode(x=x),
        base.mark_text(dy=-10, fontSize=10).encode(x=x, text=written),
    ).properties(width=320, height=30 * len(data))


def head_maps(frame: pd.DataFrame) -> alt.HConcatChart:
    """Maps of heads on one scale: how well each head alone predicts the labels."""
    columns = [column for column in SINGLE if column.name in frame]
    data = charts.by_column(frame, columns)
    own = tint(columns[0], data["value"], data["control"])
    data = data.assign(shade=own.shades)
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    cell = max(8, min(26, 420 // max(heads, 1)))
    maps = [
        alt.Chart(data[data["column"] == column.name])
        .mark_rect(stroke="#c9ced6", strokeWidth=0.4)
        .encode(
            x=alt.X("head:O", axis=charts.heads_axis("H"), title=None),
            y=alt.Y("layer:O", axis=charts.heads_axis("L", "left"), title=None),
            color=charts.tint_colour({"mcc": own}),
            tooltip=[
                alt.Tooltip("name:N", title="head"),
                alt.Tooltip("value:Q", format=".3f", title=column.label),
            ],
        )
        .properties(width=cell * heads, height=cell * layers, title=column.label)
        for column in columns
    ]
    return alt.hconcat(*maps, spacing=32).resolve_scale(color="shared")


def chosen_on_dev(frame: pd.DataFrame) -> alt.Chart:
    """MCC on dev along the solver's path, a line for each strength of the penalty."""
    data = frame.round(4)
    ticks = alt.Axis(values=sorted(data["max_iter"].unique().tolist()), format="d")
    numbers = [
        alt.Tooltip(f"{name}:Q", format=".3f", title=title)
        for name, title in (("mcc", "MCC"), ("accuracy", "accuracy"))
    ]
    return (
        alt.Chart(data)
        .mark_line(point=alt.OverlayMarkDef(size=26))
        .encode(
            x=alt.X("max_iter:Q", title="iterations", scale=alt.Scale(type="log"), axis=ticks),
            y=alt.Y("mcc:Q", title="MCC on dev"),
            color=alt.Color("C:O", title="C", scale=alt.Scale(scheme="viridis")),
            tooltip=[
                alt.Tooltip("C:O", title="C"),
                alt.Tooltip("max_iter:Q", title="iterations"),
                *numbers,
            ],
        )
        .properties(width=460, height=200)
    )
