"""Tables to charts (Altair). A chart computes nothing; it exports with `save(path)` to .svg, .pdf, .png, .html or .json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.support.errors import AttlasError
from attlas.support.files import write_bytes
from attlas.views.picture import png_url

GREY = "#8a8f98"
ACCENT = "#2b5fa8"
SECOND = "#d08a2e"
FOR, AGAINST = "#008562", "#cd5400"
CONTROLS = {"_uniform": "uniform", "_random": "random weights", "_all": "all weights"}  # how columns of controls end
FORMATS = ("svg", "pdf", "png", "html", "json")

alt.data_transformers.disable_max_rows()


def theme(dark: bool = False) -> dict[str, Any]:
    """How charts look, in the report and as files: one sequential scale, quiet axes."""
    ink, faint = ("#c5cbd6", "#8a8f98") if dark else ("#3a404b", "#8a8f98")
    scale = ["#1b2028", "#2c4a75", "#5f9beb", "#dbe9ff"] if dark else ["#ffffff", "#bcd3ee", "#5b8fd0", "#123a73"]
    return {
        "background": "transparent" if dark else "white",
        "font": "system-ui, sans-serif",
        "range": {"heatmap": scale, "ramp": scale},
        "view": {"stroke": "transparent"},
        "title": {"color": ink, "fontWeight": 500, "anchor": "start"},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "titleFontWeight": 400,
            "domainColor": faint,
            "tickColor": faint,
            "gridOpacity": 0.25,
        },
        "legend": {"labelColor": ink, "titleColor": ink, "titleFontWeight": 400},
        "header": {"labelColor": ink, "titleColor": ink, "titleFontWeight": 400},
        "boxplot": {"median": {"color": ink}, "rule": {"color": faint}},
    }


def choices(frame: pd.DataFrame) -> list[str]:
    """The columns of a head-level table that a reader may colour by: those that are not a control of another."""
    controls = (*CONTROLS, "_error")
    return [
        str(name)
        for name in frame.columns
        if name not in ("layer", "head") and not str(name).endswith(controls) and frame[name].notna().any()
    ]


def _control(frame: pd.DataFrame, column: str) -> pd.Series[float]:
    names = [f"{column}{end}" for end in CONTROLS if f"{column}{end}" in frame]
    return frame[names[0]] if names else pd.Series(float("nan"), index=frame.index)


def _long(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """A row for each head and column: layer, head, name, column, value, uniform."""
    parts = [
        pd.DataFrame(
            {
                "layer": frame["layer"],
                "head": frame["head"],
                "column": column,
                "value": frame[column],
                "uniform": _control(frame, column),
            }
        )
        for column in columns
    ]
    out = pd.concat(parts, ignore_index=True)
    return out.assign(name="L" + out["layer"].astype(str) + ".H" + out["head"].astype(str)).round(4)


def head_grid(frame: pd.DataFrame, columns: Sequence[str] | None = None, first: str | None = None) -> alt.HConcatChart:
    """A grid of heads coloured by a column the reader chooses, and beside it the same values by layer with uniform attention in grey."""
    columns = list(columns or choices(frame))
    data = _long(frame, columns)
    known = [end for end in CONTROLS if any(f"{column}{end}" in frame for column in columns)]
    control = CONTROLS[known[0]] if known else "uniform"
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    chosen = alt.param(name="shown", value=first or columns[0], bind=alt.binding_select(options=columns, name="show "))
    cell = max(8, min(26, 620 // max(heads, 1)))
    tooltip = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("column:N", title="what"),
        alt.Tooltip("value:Q", format=".3f"),
        alt.Tooltip("uniform:Q", format=".3f", title=f"{control} would be"),
    ]
    base = alt.Chart(data).transform_filter("datum.column == shown")
    grid = (
        base.mark_rect(stroke="#c9ced6", strokeWidth=0.4)
        .encode(
            x=alt.X("head:O", axis=alt.Axis(orient="top", labelAngle=0), title="head"),
            y=alt.Y("layer:O", title="layer"),
            color=alt.Color(
                "value:Q",
                title=None,
                legend=alt.Legend(gradientLength=110),
                scale=alt.Scale(zero=True, interpolate="rgb"),
            ),
            tooltip=tooltip,
        )
        .properties(width=cell * heads, height=cell * layers)
    )
    by_layer = alt.layer(
        base.mark_tick(color=GREY, thickness=2, size=max(10, cell - 6)).encode(
            x=alt.X("layer:O", axis=alt.Axis(labelAngle=0)), y=alt.Y("uniform:Q"), tooltip=tooltip
        ),
        base.mark_circle(size=42, opacity=0.65, color=ACCENT).encode(
            x=alt.X("layer:O"), y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)), tooltip=tooltip
        ),
    ).properties(
        width=max(200, min(360, 34 * layers)),
        height=max(140, cell * layers),
        title=f"by layer (a dot a head; grey: {control})",
    )
    return alt.hconcat(grid, by_layer, spacing=36).add_params(chosen)


def offset_profiles(frame: pd.DataFrame, columns: int = 3) -> alt.ConcatChart:
    """For each layer a strip of heads by offset: how much of a row's attention goes how far to the left or right."""
    offsets = [
        name
        for name in frame.columns
        if name in ("before", "after") or (str(name).startswith("offset_") and not str(name).endswith("_uniform"))
    ]
    labels = {
        name: {"before": "further left", "after": "further right"}.get(name, name.removeprefix("offset_"))
        for name in offsets
    }
    data = _long(frame, offsets).assign(offset=lambda rows: rows["column"].map(labels))
    heads = int(frame["head"].max()) + 1
    top = float(data["value"].max())
    step = 15 if heads <= 16 else 8
    strips = [
        alt.Chart(data[data["layer"] == layer])
        .mark_rect()
        .encode(
            x=alt.X(
                "offset:O",
                sort=list(labels.values()),
                title=None,
                axis=alt.Axis(labelAngle=-90, labelOverlap=False, labelFontSize=9),
            ),
            y=alt.Y("head:O", title=None),
            color=alt.Color("value:Q", title="share", scale=alt.Scale(domain=[0, top], interpolate="rgb")),
            tooltip=[
                alt.Tooltip("name:N", title="head"),
                alt.Tooltip("offset:N"),
                alt.Tooltip("value:Q", format=".3f"),
                alt.Tooltip("uniform:Q", format=".3f", title="uniform would be"),
            ],
        )
        .properties(width=13 * len(offsets), height=step * heads, title=f"layer {layer}")
        for layer in range(int(frame["layer"].max()) + 1)
    ]
    return alt.concat(*strips, columns=columns, spacing=18).resolve_scale(color="shared")


def spread_by_layer(frame: pd.DataFrame) -> alt.Chart:
    """How spread out rows are, by layer: share of rows by entropy over its largest possible value (1 is uniform)."""
    data = frame.groupby(["layer", "from", "to"], as_index=False)["rows"].sum()
    data["share"] = (data["rows"] / data.groupby("layer")["rows"].transform("sum").clip(lower=1)).round(4)
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X(
                "from:Q",
                bin="binned",
                title="entropy of a row / largest possible",
                axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f"),
            ),
            x2="to:Q",
            y=alt.Y("layer:O", title="layer"),
            color=alt.Color("share:Q", title="share of rows", scale=alt.Scale(interpolate="rgb")),
            tooltip=[
                alt.Tooltip("layer:O"),
                alt.Tooltip("from:Q", format=".2f"),
                alt.Tooltip("to:Q", format=".2f"),
                alt.Tooltip("rows:Q", format=","),
                alt.Tooltip("share:Q", format=".3f"),
            ],
        )
        .properties(width=460, height=max(60, 22 * int(frame["layer"].nunique())))
    )


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


def classifier_scores(frame: pd.DataFrame) -> alt.HConcatChart:
    """MCC and accuracy of each classifier with the interval of its bootstrap; controls in grey."""
    data = frame.assign(
        name=frame["classifier"].map(CLASSIFIERS).fillna(frame["classifier"]),
        control=frame["classifier"].isin(["frozen_model", "random_model", "length_only"]),
    ).round(4)

    def side(what: str, title: str, labelled: bool) -> alt.LayerChart | alt.FacetChart:
        base = alt.Chart(data).encode(
            y=alt.Y(
                "name:N",
                sort=list(data["name"]),
                title=None,
                axis=alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=260, labelPadding=8),
            ),
            color=alt.Color("control:N", legend=None, scale=alt.Scale(domain=[False, True], range=[ACCENT, GREY])),
            tooltip=[
                alt.Tooltip("name:N", title="classifier"),
                alt.Tooltip(f"{what}:Q", format=".3f", title=title),
                alt.Tooltip(f"{what}_low:Q", format=".3f", title="from"),
                alt.Tooltip(f"{what}_high:Q", format=".3f", title="to"),
                alt.Tooltip("n:Q", title="texts"),
            ],
        )
        x = alt.X(f"{what}:Q", title=title, scale=alt.Scale(zero=what == "mcc", nice=True))
        return alt.layer(
            base.mark_rule(strokeWidth=2).encode(x=alt.X(f"{what}_low:Q", title=title), x2=f"{what}_high:Q"),
            base.mark_circle(size=70, opacity=1).encode(x=x),
            base.mark_text(dy=-10, fontSize=10).encode(x=x, text=alt.Text(f"{what}:Q", format=".3f")),
        ).properties(width=320, height=30 * len(data))

    return alt.hconcat(
        side("mcc", "Matthews' correlation (95 % interval)", True), side("accuracy", "accuracy (95 % interval)", False)
    )


def head_maps(frame: pd.DataFrame, columns: Sequence[str] = ("train", "test")) -> alt.HConcatChart:
    """Maps of heads side by side on one scale: how well each head alone tells the labels apart."""
    data = _long(frame, [column for column in columns if column in frame])
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    cell = max(8, min(26, 420 // max(heads, 1)))
    ends = [min(0.0, float(data["value"].min())), float(data["value"].max())]
    maps = [
        alt.Chart(data[data["column"] == column])
        .mark_rect(stroke="#c9ced6", strokeWidth=0.4)
        .encode(
            x=alt.X("head:O", axis=alt.Axis(orient="top", labelAngle=0), title="head"),
            y=alt.Y("layer:O", title="layer"),
            color=alt.Color("value:Q", title="MCC", scale=alt.Scale(domain=ends, interpolate="rgb")),
            tooltip=[
                alt.Tooltip("name:N", title="head"),
                alt.Tooltip("value:Q", format=".3f", title=f"MCC on {column}"),
            ],
        )
        .properties(width=cell * heads, height=cell * layers, title=f"MCC on {column}")
        for column in columns
        if column in frame
    ]
    return alt.hconcat(*maps, spacing=32).resolve_scale(color="shared")


def chosen_on_dev(frame: pd.DataFrame) -> alt.Chart:
    """MCC on dev along the solver's path, a line for each strength of the penalty."""
    data = frame.round(4)
    return (
        alt.Chart(data)
        .mark_line(point=alt.OverlayMarkDef(size=26))
        .encode(
            x=alt.X(
                "max_iter:Q",
                title="iterations",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=sorted(data["max_iter"].unique().tolist()), format="d"),
            ),
            y=alt.Y("mcc:Q", title="MCC on dev"),
            color=alt.Color("C:O", title="C", scale=alt.Scale(scheme="viridis")),
            tooltip=["C", "max_iter", alt.Tooltip("mcc:Q", format=".3f"), alt.Tooltip("accuracy:Q", format=".3f")],
        )
        .properties(width=460, height=200)
    )


def _tiles(frame: pd.DataFrame) -> npt.NDArray[np.float32]:
    """The grids of a `heatmap` table: [head of a layer, bin, bin]."""
    cells = [name for name in frame.columns if str(name).startswith("c") and str(name)[1:].isdecimal()]
    return frame[cells].to_numpy(dtype=np.float32).reshape(-1, len(cells), len(cells))


def head_pictures(
    frame: pd.DataFrame,
    uniform: pd.DataFrame | None = None,
    importance: pd.DataFrame | None = None,
    shared: bool = False,
) -> alt.LayerChart | alt.FacetChart:
    """The attention of every head as a small picture, layers down and heads across: queries from top to bottom, keys from left to right.

    Darkest is a head's own largest cell, or with `shared` the largest of all. `uniform` adds even attention as a last column; with `importance` a head's
    weights are multiplied by its importance first, and one scale serves all.
    """
    heads = frame[["layer", "head"]].drop_duplicates().reset_index(drop=True)
    tiles = _tiles(frame)
    scales = np.ones(len(tiles))
    if importance is not None:
        scales = heads.merge(importance, on=["layer", "head"], how="left")["importance"].to_numpy(dtype=np.float64)
        tiles, shared = tiles * scales[:, None, None].astype(np.float32), True
    tops = np.nanmax(tiles, axis=(1, 2))
    rows = heads.assign(
        column=heads["head"].astype(str),
        name="L" + heads["layer"].astype(str) + ".H" + heads["head"].astype(str),
        picture=[png_url(tile, float(tops.max() if shared else top)) for tile, top in zip(tiles, tops, strict=True)],
        top=tops.round(4),
        scale=scales.round(3),
    )
    if uniform is not None:
        even = _tiles(uniform)
        rows = pd.concat([rows, pd.DataFrame({
            "layer": np.arange(len(even)), "head": -1, "column": "even", "name": [f"L{layer}, even attention" for layer in range(len(even))],
            "picture": [png_url(tile, float(tops.max()) if shared else float(np.nanmax(tile))) for tile in even], "top": np.nanmax(even, axis=(1, 2)).round(4), "scale": 1.0,
        })], ignore_index=True)  # fmt: skip
    columns = list(dict.fromkeys(rows["column"]))
    cell = max(28, min(76, 1000 // len(columns)))
    tooltip = [alt.Tooltip("name:N", title="head"), alt.Tooltip("top:Q", title="largest cell")]
    tooltip += [alt.Tooltip("scale:Q", title="importance")] if importance is not None else []
    x = alt.X(
        "column:O", sort=columns, title="head", axis=alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False)
    )
    y = alt.Y("layer:O", title="layer", axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(rows).encode(x=x, y=y, tooltip=tooltip)
    return (
        alt.layer(
            base.mark_rect(fill="transparent", stroke="#c9ced6", strokeWidth=0.6, width=cell - 4, height=cell - 4),
            base.mark_image(width=cell - 4, height=cell - 4, aspect=False).encode(url="picture:N"),
        )
        .properties(width=cell * len(columns), height=cell * int(rows["layer"].nunique()))
    )  # fmt: skip


def top_bars(frame: pd.DataFrame, by: str, size: int = 10) -> alt.HConcatChart:
    """Bars of the tokens that are on most lists: attended to on the left, attending on the right; the grey tick is what chance would give."""

    def side(direction: str, title: str) -> alt.LayerChart | alt.FacetChart:
        rows = frame[(frame["direction"] == direction) & (frame["rank"] < size)]
        at = rows["token"].astype(str) if by == "position" else pd.Series("", index=rows.index)
        data, order = _in_order(
            rows.assign(name=rows["string"] + ("@" + at if by == "position" else "")).round(2), "name"
        )
        tooltip = [
            alt.Tooltip("name:N", title="token"),
            alt.Tooltip("count:Q", title="on so many lists"),
            alt.Tooltip("chance:Q", format=".1f", title="by chance"),
            *([alt.Tooltip(f"{name}:Q") for name in ("occurrences", "texts") if name in rows]),
        ]
        base = alt.Chart(data).encode(
            y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=180, ticks=False, domain=False)),
            tooltip=tooltip,
        )
        bars = base.mark_bar(color=ACCENT, opacity=0.8, height=13).encode(x=alt.X("count:Q", title="lists it is on"))
        chance = base.transform_filter("isValid(datum.chance)").mark_tick(color=GREY, thickness=2.5, size=17)
        return alt.layer(bars, chance.encode(x=alt.X("chance:Q", title="lists it is on"))).properties(
            width=330, height=19 * max(1, len(data)), title=title
        )

    return alt.hconcat(
        side("attended", "most attended to"), side("attending", "most attending"), spacing=30
    ).resolve_scale(x="shared")


def on_both_lists(frame: pd.DataFrame, by: str) -> alt.Chart:
    """The tokens on both lists, attended and attending: a bar for each count."""
    rows = frame[frame["both"]]
    name = rows["string"] + ("@" + rows["token"].astype(str) if by == "position" else "")
    data, order = _in_order(rows.assign(name=name), "name")
    return (
        alt.Chart(data)
        .mark_bar(height=8)
        .encode(
            y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=180)),
            yOffset=alt.YOffset("direction:N"),
            x=alt.X("count:Q", title="lists it is on"),
            color=alt.Color("direction:N", title=None, scale=alt.Scale(domain=["attended", "attending"], range=[ACCENT, SECOND])),
            tooltip=[alt.Tooltip("name:N", title="token"), "direction:N", "count:Q", alt.Tooltip("chance:Q", format=".1f", title="by chance")],
        )
        .properties(width=330, height=alt.Step(11))
    )  # fmt: skip


def instances(frame: pd.DataFrame, string: str) -> alt.LayerChart | alt.FacetChart:
    """How many lists each instance of one token is on, in the order of the text; the grey tick is what chance would give."""
    data = frame.sort_values("token").round(2)
    base = alt.Chart(data).encode(
        x=alt.X("token:O", title=f"position of “{string}”", axis=alt.Axis(labelOverlap=True, labelAngle=-90)),
        tooltip=["token", "count", alt.Tooltip("chance:Q", title="by chance")],
    )
    bars = base.mark_bar(color=ACCENT, opacity=0.8).encode(y=alt.Y("count:Q", title="lists it is on"))
    ticks = base.mark_tick(color=GREY, thickness=2.5).encode(y=alt.Y("chance:Q", title="lists it is on"))
    return alt.layer(bars, ticks).properties(width=min(900, max(200, 12 * len(data))), height=180)


def by_position(frame: pd.DataFrame, place: str, period: int | None = None) -> alt.LayerChart | alt.FacetChart:
    """Mean attention received by where a token stands, over what even attention would give there; lines mark the multiples of a period."""
    data = frame.assign(ratio=(frame["all"] / frame["uniform"])).round(4)
    title = "position" if place == "position" else f"position modulo {period}"
    base = alt.Chart(data[[place, "tokens", "all", "uniform", "ratio"]])
    x = alt.X(f"{place}:Q", title=title, scale=alt.Scale(nice=False))
    layers: list[alt.Chart] = []
    if place == "position" and period and len(data) and data[place].max() >= period:
        multiples = pd.DataFrame({place: list(range(period, int(data[place].max()) + 1, period))})
        layers.append(alt.Chart(multiples).mark_rule(color=GREY, strokeDash=[3, 3]).encode(x=x))
    layers.append(
        base.mark_circle(size=9, opacity=0.5, color=ACCENT).encode(
            x=x,
            y=alt.Y("ratio:Q", title="received / even attention", scale=alt.Scale(zero=True)),
            tooltip=[place, "tokens", alt.Tooltip("all:Q", title="received"), alt.Tooltip("uniform:Q", title="even attention"), "ratio"],
            **({"size": alt.condition(f"datum.{place} % {period} == 0", alt.value(60), alt.value(9)), "color": alt.condition(f"datum.{place} % {period} == 0", alt.value(SECOND), alt.value(ACCENT))} if period else {}),
        )
    )  # fmt: skip
    return alt.layer(*layers).properties(width=720, height=190)


def _in_order(data: pd.DataFrame, name: str) -> tuple[pd.DataFrame, alt.EncodingSortField]:
    """Rows with their order as a column, and how to sort by it: a list of strings would be read as code where one is a word such as “if”."""
    places = {string: place for place, string in enumerate(dict.fromkeys(data[name]))}
    return data.assign(order=data[name].map(places)), alt.EncodingSortField("order", op="min", order="ascending")


def beside_control(
    frame: pd.DataFrame,
    row: str,
    panel: str,
    control: str,
    series: str | None = None,
    choose: str | None = None,
    first: str | None = None,
    width: int = 190,
    also: str | None = None,
) -> alt.HConcatChart:
    """Dots with 95 % intervals beside their control in grey: a line for each `row`, a chart for each `panel`, colours for a `series`; a reader may `choose` among the values of a column.

    `also` is a second control, drawn hollow.
    """
    data = frame.round(4)
    data = data.assign(**{row: data[row].astype(str).str.replace("_", " "), panel: data[panel].astype(str)})
    rows, panels = list(dict.fromkeys(data[row])), list(dict.fromkeys(data[panel]))
    names = list(dict.fromkeys(data[series])) if series else []
    offset: dict[str, Any] = {"yOffset": alt.YOffset(f"{series}:N", sort=names)} if series else {}
    colour = alt.Color(f"{series}:N", title=None, scale=alt.Scale(domain=names, range=[ACCENT, SECOND, FOR][: len(names)]), legend=alt.Legend(orient="top")) if series else alt.value(ACCENT)  # fmt: skip
    tooltip = [
        alt.Tooltip(f"{row}:N"), *([alt.Tooltip(f"{series}:N")] if series else []), alt.Tooltip("value:Q", format=".3f"), alt.Tooltip(f"{control}:Q", format=".3f"),
        alt.Tooltip("low:Q", format=".3f", title="from"), alt.Tooltip("high:Q", format=".3f", title="to"), alt.Tooltip("difference:Q", format=".3f", title=f"above {control}"),
        alt.Tooltip("difference_low:Q", format=".3f", title="above, from"), alt.Tooltip("difference_high:Q", format=".3f", title="above, to"), alt.Tooltip("texts:Q"),
        *([alt.Tooltip(f"{also}:Q", format=".3f", title=also.replace("_", " "))] if also else []),
    ]  # fmt: skip

    def side(name: str, labelled: bool) -> alt.LayerChart | alt.FacetChart:
        base = alt.Chart(data[data[panel] == name])
        base = base.transform_filter(f"datum.{choose} == chosen") if choose else base
        base = base.encode(
            y=alt.Y(f"{row}:N", sort=rows, scale=alt.Scale(domain=rows), title=None, axis=alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=220, labelPadding=8)),
            tooltip=tooltip, **offset,
        )  # fmt: skip
        x = alt.X("value:Q", title=name.replace("_", " "), scale=alt.Scale(zero=True))
        hollow = [base.mark_point(shape="circle", filled=False, size=34, color=GREY).encode(x=alt.X(f"{also}:Q", title=name.replace("_", " ")))] if also else []  # fmt: skip
        return alt.layer(
            *hollow,
            base.mark_tick(color=GREY, thickness=3, size=11).encode(x=alt.X(f"{control}:Q", title=name.replace("_", " "))),
            base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", color=colour),
            base.mark_circle(size=46, opacity=1).encode(x=x, color=colour),
        ).properties(width=width, height=(30 if series else 22) * max(1, len(rows)))  # fmt: skip

    chart = alt.hconcat(*(side(name, number == 0) for number, name in enumerate(panels)), spacing=18)
    if choose is None:
        return chart
    options = [str(option) for option in dict.fromkeys(data[choose])]
    return chart.add_params(alt.param(name="chosen", value=first or options[0], bind=alt.binding_select(options=options, name=f"{choose} ")))  # fmt: skip


def ends(frame: pd.DataFrame, what: str, size: int = 10, title: str = "score") -> alt.LayerChart | alt.FacetChart:
    """The strings with the highest and the lowest of a number: what speaks for on top, what speaks against below."""
    ordered = frame.sort_values(what, ascending=False, kind="stable")
    high, low = ordered[ordered[what] > 0].head(size), ordered[ordered[what] < 0].tail(size)
    data = pd.concat([high, low]).assign(side=lambda rows: np.where(rows[what] > 0, "for", "against"))
    data[what] = data[what].map(lambda value: float(f"{value:.4g}"))
    more = [name for name in ("mean", "texts", "occurrences", "per_occurrence", "left_mean", "right_mean") if name in data and name != what]  # fmt: skip
    data, order = _in_order(data, "string")
    return (
        alt.Chart(data)
        .mark_bar(height=13, opacity=0.85)
        .encode(
            y=alt.Y("string:N", sort=order, title=None, axis=alt.Axis(labelLimit=180, ticks=False, domain=False)),
            x=alt.X(f"{what}:Q", title=title),
            color=alt.Color("side:N", title=None, legend=None, scale=alt.Scale(domain=["for", "against"], range=[FOR, AGAINST])),
            tooltip=["string:N", alt.Tooltip(f"{what}:Q", format=".4f"), *(alt.Tooltip(f"{name}:Q", format=".4f" if "mean" in name or "per" in name else "d") for name in more)],
        )
        .properties(width=330, height=18 * max(1, len(data)))
    )  # fmt: skip


def export(chart: alt.TopLevelMixin, path: Path) -> Path:
    """Write a chart as the format its name ends in."""
    if path.suffix.removeprefix(".") not in FORMATS:
        raise AttlasError(
            f"a chart is written as {', '.join(FORMATS)}, not as {path.suffix or 'a file without an ending'!r}"
        )
    content = chart.to_dict()
    content["config"] = {**content.get("config", {}), **theme()}
    drawn = _drawn(content, path.suffix)
    if drawn is not None:
        write_bytes(path, drawn)
    else:
        options: dict[str, Any] = {"inline": True} if path.suffix == ".html" else {}
        alt.Chart.from_dict(content).save(str(path), **options)
    return path


def _drawn(content: dict[str, Any], suffix: str) -> bytes | None:
    """A chart as SVG, PDF or PNG, by what draws them, without checking the whole of it again; None for other formats."""
    import vl_convert

    version = "_".join(alt.SCHEMA_VERSION.split(".")[:2])
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(content, vl_version=version)).encode()
    if suffix == ".pdf":
        return bytes(vl_convert.vegalite_to_pdf(content, vl_version=version))
    if suffix == ".png":
        return bytes(vl_convert.vegalite_to_png(content, vl_version=version, scale=1.5, ppi=72))
    return None
