"""Charts of what heads do: by layer, by distance, as small pictures, as a map of heads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.measures.section.columns import DIVERGENCE, ROWS, SHARE, TARGETS, offset_columns
from attlas.views import charts
from attlas.views.head_views import HeadTiles
from attlas.views.numbers import head_names, number, some
from attlas.views.shades import Tint, tint
from attlas.views.tables import Column
from attlas.views.vega import alt

NAMES = {**TARGETS, "entropy": "all tokens", "cls_entropy": "from [CLS]"}
SURFACE = (
    ("cls", "sep", "punctuation"),
    ("sep_from_sep", "sep_from_rest"),
    ("self", "previous", "next"),
)
# What is attended to has one colour in all charts.
ATTENDED = ("cls", "sep", "punctuation", "other", "self", "previous", "next")
COLOURS = dict(zip((*ATTENDED, *SURFACE[1]), charts.COLOURS, strict=False))
FEW = 3  # heads that do the same and are named on the map
UNKNOWN = ("other", "unknown")


def by_layer(
    frame: pd.DataFrame, panels: Sequence[Sequence[str]], title: str, control: str = "_uniform"
) -> alt.HConcatChart:
    """A dot for each head and a line for the mean of each layer; dashed is uniform attention."""
    shown = [_known(frame, columns) for columns in panels]
    drawn = [_layer_panel(frame, columns, title, control) for columns in shown if columns]
    return alt.hconcat(*drawn, spacing=26).resolve_scale(color="independent", y="independent")


def _known(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    return [column for column in columns if column in frame and frame[column].notna().any()]


def _layer_panel(
    frame: pd.DataFrame, columns: Sequence[str], title: str, control: str
) -> alt.LayerChart | alt.FacetChart:
    parts = [
        pd.DataFrame(
            {
                "layer": frame["layer"],
                "head": frame["head"],
                "what": NAMES.get(column, column),
                "value": frame[column],
                "uniform": frame.get(f"{column}{control}"),
            }
        )
        for column in columns
    ]
    rows = pd.concat(parts, ignore_index=True)
    keys = ["what", "layer"]
    mean = rows.groupby(keys, as_index=False, sort=False)[["value", "uniform"]].mean()
    names = [NAMES.get(column, column) for column in columns]
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=[COLOURS.get(one, charts.ACCENT) for one in columns]),
        legend=alt.Legend(orient="top", columns=3),
    )
    x = alt.X("layer:O", axis=alt.Axis(labelAngle=0), title="layer")
    titles = {"value": "value", "uniform": "all weights" if control == "_all" else "uniform"}
    numbers = [alt.Tooltip(f"{name}:Q", format=".4g", title=titles[name]) for name in titles]
    dots = alt.Chart(rows).mark_circle(size=16, opacity=0.45)
    dots = dots.encode(
        x=x,
        y=alt.Y("value:Q", title=title),
        color=colour,
        tooltip=[
            alt.Tooltip("layer:O", title="layer"),
            alt.Tooltip("head:O", title="head"),
            alt.Tooltip("what:N", title="measure"),
            *numbers,
        ],
    )
    base = alt.Chart(mean).encode(x=x, color=colour)
    lines = base.mark_line(strokeWidth=2.2).encode(y=alt.Y("value:Q", title=title))
    dashed = base.mark_line(strokeDash=[4, 4], strokeWidth=1.2, opacity=0.8)
    dashed = dashed.encode(y=alt.Y("uniform:Q", title=title))
    return alt.layer(dashed, dots, lines).properties(width=240, height=180)


def surface_by_layer(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 2 of Clark et al. 2019: what the heads of each layer attend to."""
    return by_layer(frame, SURFACE, "mean share of attention")


def entropy_by_layer(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 4 of Clark et al. 2019: how broad the heads of each layer are."""
    return by_layer(frame, (("entropy",), ("cls_entropy",)), "entropy in nats")


def gradient_by_layer(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 3 of Clark et al. 2019: how much the loss depends on attention to sorts of tokens."""
    columns = ("sep", "cls", "punctuation", "other")
    return by_layer(frame, (columns,), "mean |d loss / d weight|", "_all")


def offset_profiles(frame: pd.DataFrame, columns: int = 3) -> alt.ConcatChart:
    """For each layer a strip of heads by offset: the share of attention at each one.

    A cell at or below uniform attention at its own offset has no tint.
    """
    offsets = offset_columns(map(str, frame.columns))
    data = charts.by_column(frame, offsets)
    names = {one.name: one.label for one in offsets}
    every = Column("share", "share of attention", kind="above", control="uniform", least=SHARE)
    own = tint(every, data["value"], data["control"])
    data = data.assign(offset=data["column"].map(names), shade=own.shades)
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    strips = [
        _strip(data[data["layer"] == layer], list(names.values()), own)
        .properties(width=12 * len(offsets), height=(15 if heads <= 16 else 8) * heads)
        .properties(title=f"layer {layer}")
        for layer in range(layers)
    ]
    return alt.concat(*strips, columns=columns, spacing=18).resolve_scale(color="shared")


def _strip(data: pd.DataFrame, labels: list[str], own: Tint) -> alt.Chart:
    axis = alt.Axis(labelAngle=-90, labelOverlap=False, labelFontSize=9)
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("offset:O", sort=labels, title=None, axis=axis),
            y=alt.Y("head:O", title=None),
            color=charts.tint_colour({"share": own}),
            tooltip=[
                alt.Tooltip("name:N", title="head"),
                alt.Tooltip("offset:N", title="offset"),
                alt.Tooltip("value:Q", format=".3f", title="share of attention"),
                alt.Tooltip("control:Q", format=".3f", title="uniform attention"),
            ],
        )
    )


def spread_by_layer(frame: pd.DataFrame) -> alt.Chart:
    """Share of queries by normalised entropy (1 is uniform), by layer."""
    data = frame.groupby(["layer", "from", "to"], as_index=False)["rows"].sum()
    whole = data.groupby("layer")["rows"].transform("sum").clip(lower=1)
    shares = data["rows"] / whole
    own = {"share": tint(ROWS, shares, [math.nan] * len(data))}
    data = data.assign(share=shares.round(4), shade=own["share"].shades)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f")
    title = "normalised entropy of a query"
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("from:Q", bin="binned", title=title, axis=axis),
            x2="to:Q",
            y=alt.Y("layer:O", title="layer"),
            color=charts.tint_colour(own),
            tooltip=[
                alt.Tooltip("layer:O", title="layer"),
                alt.Tooltip("from:Q", format=".2f", title="normalised entropy, from"),
                alt.Tooltip("to:Q", format=".2f", title="to"),
                alt.Tooltip("rows:Q", format=",", title="queries"),
                alt.Tooltip("share:Q", format=".3f", title=ROWS.label),
            ],
        )
        .properties(width=460, height=max(60, 22 * int(frame["layer"].nunique())))
    )


def head_pictures(
    frame: pd.DataFrame,
    uniform: pd.DataFrame | None = None,
    importance: pd.DataFrame | None = None,
) -> alt.LayerChart | alt.FacetChart:
    """The patterns of all heads from tables such as `heatmap` and `heatmap_uniform`.

    With the table `importance` a head's weights are multiplied by its importance first.
    """
    heads = frame[["layer", "head"]].drop_duplicates().reset_index(drop=True)
    scales = None
    if importance is not None:
        joined = heads.merge(importance, on=["layer", "head"], how="left")
        scales = joined["importance"].to_numpy(dtype=np.float64)
    control = None if uniform is None else _tiles(uniform)
    return charts.head_tiles(heads, _tiles(frame), control, scales)


def head_tiles(frame: pd.DataFrame, uniform: pd.DataFrame) -> HeadTiles:
    """The same for a page, where the chosen head is marked."""
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    return HeadTiles(layers, heads, _tiles(frame), _tiles(uniform))


def _tiles(frame: pd.DataFrame) -> npt.NDArray[np.float32]:
    """The grids of a `heatmap` table: [head of a layer, bin, bin]."""
    cells = [name for name in frame.columns if str(name)[:1] == "c" and str(name)[1:].isdecimal()]
    return frame[cells].to_numpy(dtype=np.float32).reshape(-1, len(cells), len(cells))


def map_of_heads(frame: pd.DataFrame) -> alt.ConcatChart:
    """Figure 6 of Clark et al. 2019: heads that attend alike are near one another."""
    data = frame.assign(
        name=head_names(frame),
        behaviour=frame["behaviour"].replace("", "unknown"),
    ).round(4)
    often = data["behaviour"].value_counts()
    data["label"] = data["name"].where(data["behaviour"].map(often) <= FEW, "")
    base = _on_the_map(data)
    kinds = sorted(set(data["behaviour"]), key=lambda name: (name in UNKNOWN, name))
    dots = base.mark_point(filled=True, size=75, opacity=0.85)

    def coloured(column: str, title: str, scale: alt.Scale) -> alt.Chart:
        return dots.encode(color=alt.Color(column, title=title, scale=scale))

    known = alt.Scale(domain=kinds, range=behaviour_colours(kinds))
    named = base.mark_text(dy=-9, fontSize=8.5).encode(text="label:N")
    panels: dict[str, Any] = {
        "by behaviour": alt.layer(coloured("behaviour:N", "behaviour", known), named),
        "by layer": coloured("layer:O", "layer", alt.Scale(scheme="viridis")),
        "by cluster": coloured("cluster:N", "cluster", alt.Scale(range=charts.COLOURS)),
    }
    drawn = [
        panel.properties(width=330, height=330, title=title) for title, panel in panels.items()
    ]
    return alt.concat(*drawn, columns=2, spacing=18).resolve_scale(color="independent")


def behaviour_colours(kinds: Sequence[str]) -> list[str]:
    """The colour of each behaviour: that of what is attended to, or one that no other has.

    >>> behaviour_colours(["[SEP]", "other"]) == [COLOURS["sep"], charts.GREY]
    True
    """
    own = {"[CLS]": COLOURS["cls"], "[SEP]": COLOURS["sep"], **COLOURS}
    own |= dict.fromkeys(UNKNOWN, charts.GREY)
    taken = {own[kind] for kind in kinds if kind in own}
    free = cycle([one for one in charts.COLOURS if one not in taken])
    return [own[kind] if kind in own else next(free) for kind in kinds]


def _on_the_map(data: pd.DataFrame) -> alt.Chart:
    """A chart of the heads at their coordinates, as wide as it is high."""
    low, high = data[["x", "y"]].min(), data[["x", "y"]].max()
    middle = (high + low) / 2
    half = float((high - low).max()) * 0.55 or 1.0

    def around(name: str) -> alt.Scale:
        return alt.Scale(domain=[middle[name] - half, middle[name] + half])

    uniform = "divergence from uniform attention"
    return alt.Chart(data).encode(
        x=alt.X("x:Q", axis=None, scale=around("x")),
        y=alt.Y("y:Q", axis=None, scale=around("y")),
        tooltip=[
            alt.Tooltip("name:N", title="head"),
            alt.Tooltip("behaviour:N", title="behaviour"),
            alt.Tooltip("cluster:O", title="cluster"),
            *([alt.Tooltip("nearest:N", title="nearest heads")] if "nearest" in data else []),
            alt.Tooltip("mean_uniform:Q", format=".3f", title=uniform),
        ],
    )


def named_by(relations: Iterable[str]) -> str:
    """What a head is called that finds these: the first of them, and whether there are more.

    >>> named_by(["det", "case", "nsubj", "cop"])
    'det, case, nsubj, ...'
    """
    return some(dict.fromkeys(relations), FEW)


def label_heads(coordinates: pd.DataFrame, syntax: pd.DataFrame) -> pd.DataFrame:
    """The map with heads named by the relations they find, from the table `syntax`.

    A head is named where its interval excludes the best fixed offset.
    """
    above = syntax[(syntax["relation"] != "all") & (syntax["difference_low"] > 0)]
    above = above.sort_values("difference", ascending=False, kind="stable")
    names = above.groupby(["layer", "head"])["relation"].agg(named_by)
    keys = pd.MultiIndex.from_frame(coordinates[["layer", "head"]])
    named = names.reindex(keys).to_numpy()
    return coordinates.assign(behaviour=coordinates["behaviour"].where(pd.isna(named), named))


def add_neighbours(coordinates: pd.DataFrame, near: pd.DataFrame) -> pd.DataFrame:
    """The map with the nearest heads of each; a model of one head has none."""
    if near.empty:
        return coordinates
    names = head_names(near, "other_layer", "other_head") + " " + near["mean"].map(number)
    nearest = near.assign(nearest=names).groupby(["layer", "head"])["nearest"].agg(", ".join)
    return coordinates.join(nearest, on=["layer", "head"])


def distance_matrix(distances: pd.DataFrame, coordinates: pd.DataFrame) -> alt.Chart:
    """All divergences between heads, heads in the order of the hierarchical clusters."""
    order = coordinates.set_index(["layer", "head"])["order"]
    ends = (["layer", "head"], ["other_layer", "other_head"])
    one, other = (pd.MultiIndex.from_frame(distances[columns]) for columns in ends)

    uniform = coordinates.set_index(["layer", "head"])["mean_uniform"]
    nearer = np.fmin(uniform.loc[one].to_numpy(), uniform.loc[other].to_numpy())
    own = {"mean": tint(DIVERGENCE, distances["mean"], nearer)}
    data = pd.DataFrame(
        {
            "row": order.loc[one].to_numpy(),
            "column": order.loc[other].to_numpy(),
            "mean": distances["mean"].round(3),
            "control": nearer.round(3),
            "shade": own["mean"].shades,
            "one": head_names(distances),
            "other": head_names(distances, "other_layer", "other_head"),
        }
    )
    cell = max(2, min(7, 520 // max(1, len(coordinates))))
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=charts.tint_colour(own),
            tooltip=[
                alt.Tooltip("one:N", title="head"),
                alt.Tooltip("other:N", title="other head"),
                alt.Tooltip("mean:Q", title=DIVERGENCE.title),
                alt.Tooltip("control:Q", title="smaller divergence from uniform attention"),
            ],
        )
        .properties(width=cell * len(coordinates), height=cell * len(coordinates))
    )
