"""Tables to charts (Altair), for any subject. `export` writes a chart as a file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.support.files import write_bytes
from attlas.support.outputs import CHARTS, check_output
from attlas.views.colours import OPPOSES, SIGN, SIGN_DARK, SUPPORTS
from attlas.views.numbers import head_names, number
from attlas.views.page import inline_json
from attlas.views.picture import SANS, SOFT, png_url, wrapped
from attlas.views.shades import CONTROLS, Tint, control_name, tint, with_marks
from attlas.views.tables import Column, undeclared
from attlas.views.vega import alt, vl_convert

if TYPE_CHECKING:
    from attlas.views.section import Chart

DARK = 0.66  # from this shade on, the text of a cell has the colour of the ground
TEXT_CELL = 24  # pixels of a cell that has room for its number
TALLEST = 34  # pixels of a cell of a sized grid
# marks of these have 3:1 on the grounds of both themes
GREY = "#8a8f98"
ACCENT = "#2f67b4"
SECOND = "#c27d20"
FOR, AGAINST = SUPPORTS, OPPOSES
COLOURS = [
    "#2f67b4",
    "#c27d20",
    "#008562",
    "#b13f76",
    "#7658b0",
    "#7a9e1f",
    "#2f97aa",
    "#a0522d",
    "#cd5400",
    "#5c6b2f",
    "#5c6b94",
    "#a98600",
]
MUTED = "_muted"  # how a column ends that says which cells have no tint


def theme(dark: bool = False, font: float | None = None) -> dict[str, Any]:
    """How charts look, in the report and as files: one scale of amounts, one around zero.

    With `font` all letters have this size.
    """
    ink, faint = ("#c5cbd6", "#8a8f98") if dark else ("#3a404b", "#8a8f98")
    scale = ["#ffffff", "#bcd3ee", "#5b8fd0", "#123a73"]
    if dark:
        scale = ["#1b2028", "#2c4a75", "#5f9beb", "#dbe9ff"]
    sign = [*(SIGN_DARK if dark else SIGN)]
    labels = {} if font is None else {"labelFontSize": font, "titleFontSize": font}
    titles: dict[str, Any] = {}
    if font is not None:
        titles = {"fontSize": font, "subtitleFontSize": font, "subtitleColor": SOFT}
        titles["fontWeight"] = 600
    return {
        "background": "transparent" if dark else "white",
        "font": "system-ui, sans-serif" if font is None else SANS,
        "range": {"heatmap": scale, "ramp": scale, "diverging": sign},
        "view": {"stroke": "transparent"},
        "title": {"color": ink, "fontWeight": 500, "anchor": "start", **titles},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "titleFontWeight": 400,
            "domainColor": faint,
            "tickColor": faint,
            "gridOpacity": 0.25,
            **labels,
        },
        "legend": {"labelColor": ink, "titleColor": ink, "titleFontWeight": 400, **labels},
        "header": {"labelColor": ink, "titleColor": ink, "titleFontWeight": 400, **labels},
        "text": {"color": ink},
        "boxplot": {"median": {"color": ink}, "rule": {"color": faint}},
    }


def choices(frame: pd.DataFrame) -> list[str]:
    """The columns of a table of heads that a reader may colour by; controls are not among them."""
    controls = (*CONTROLS, "_error", "_texts", MUTED)
    return [
        str(name)
        for name in frame.columns
        if name not in ("layer", "head")
        and not str(name).endswith(controls)
        and frame[name].notna().any()
    ]


def by_column(frame: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """A row for each head and column: layer, head, name, column, value, control."""
    parts = [
        pd.DataFrame(
            {
                "layer": frame["layer"],
                "head": frame["head"],
                "column": column.name,
                "value": frame[column.name],
                "control": _controls(frame, column),
            }
        )
        for column in columns
    ]
    out = pd.concat(parts, ignore_index=True)
    return out.assign(name=head_names(out)).round(4)


def _shaded(frame: pd.DataFrame, columns: Sequence[Column]) -> tuple[pd.DataFrame, dict[str, Tint]]:
    """The rows of `by_column` with their shade, and the tint of each column."""
    data = by_column(frame, columns)
    parts, tints = [], {}
    for column in columns:
        rows = data[data["column"] == column.name]
        own = tint(column, frame[column.name], _controls(frame, column))
        if (muted := f"{column.name}{MUTED}") in frame:
            own = with_marks(own, frame[column.name], frame[muted], column.least)
        tints[column.name] = own
        ink = (np.abs(np.nan_to_num(own.shades)) <= DARK).astype(int)
        marks = own.marks or ("",) * len(rows)
        pairs = zip(marks, rows["value"], strict=True)
        cells = [mark or _cell_text(value) for mark, value in pairs]
        parts.append(rows.assign(shade=own.shades, ink=ink, label=column.title, text=cells))
    return pd.concat(parts, ignore_index=True), tints


def _controls(frame: pd.DataFrame, column: Column) -> pd.Series[float]:
    """The control of each row; missing where a table of an earlier version has none."""
    if column.control in frame:
        return frame[column.control]
    return pd.Series(float("nan"), index=frame.index)


def _cell_text(value: float) -> str:
    """A number that fits into a cell of a grid.

    >>> _cell_text(0.951), _cell_text(3.14), _cell_text(41.8), _cell_text(float("nan"))
    ('.95', '3.1', '42', '')
    """
    if value != value or abs(value) >= 1000:
        return ""
    return number(value, 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0)


def tint_colour(tints: Mapping[str, Tint], **legend: Any) -> alt.Color:
    """The colour of a shade, with a legend in numbers that says what the tint starts at.

    Several columns are chosen by the parameter `shown`; their picture has `tint_title`, since the
    title of a legend cannot change.
    """
    first, alone = next(iter(tints.values())), len(tints) == 1
    ticks = {name: one.ticks for name, one in tints.items()}
    at = "datum.value + 1" if first.signed else "2 * datum.value"
    which = f"[{json.dumps(next(iter(tints)))}]" if alone else "[shown]"
    return alt.Color(
        "shade:Q",
        title=first.says.split("; ") if alone else None,
        scale=alt.Scale(
            domain=[first.places[0], 1],
            range="diverging" if first.signed else "heatmap",
            interpolate="rgb",
        ),
        legend=alt.Legend(
            values=first.places,
            labelExpr=f"({json.dumps(ticks)}){which}[{at}]",
            **{"gradientLength": 110, "titleLimit": 400, **legend},
        ),
    )


def tint_title(tints: Mapping[str, Tint]) -> alt.Title:
    """What the tint of the column that is shown starts at, as the title of a picture."""
    says = {name: one.says.split("; ") for name, one in tints.items()}
    text = alt.ExprRef(f"({json.dumps(says)})[shown]")
    return alt.Title(text=text, fontSize=11, fontWeight=400)


def head_grid(
    frame: pd.DataFrame, columns: Sequence[Column] | None = None, first: str | None = None
) -> alt.HConcatChart:
    """A grid of heads coloured by a column the reader chooses, and the same values by layer.

    Colours start at the control, so that a head at or on the wrong side of it has no tint.
    """
    columns = undeclared(choices(frame)) if columns is None else list(columns)
    names = [column.name for column in columns]
    control = next((control_name(one) for one in columns if one.control in frame), "")
    data, tints = _shaded(frame, columns)
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    cell = max(8, min(30, 620 // max(heads, 1)))
    tooltip = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("label:N", title="measure"),
        alt.Tooltip("value:Q", format=".3f", title="value"),
        *([alt.Tooltip("control:Q", format=".3f", title=control)] if control else []),
    ]
    base = alt.Chart(data).transform_filter("datum.column == shown")
    colour = tint_colour(tints)
    grid = _cells(base, colour, tooltip, 9.5 if cell >= TEXT_CELL else None)
    grid = grid.properties(width=cell * heads, height=cell * layers)
    if len(tints) > 1:
        grid = grid.properties(title=tint_title(tints))
    strip = _by_layer(base, tooltip, control, cell, layers)
    labels = [column.title for column in columns]
    menu = alt.binding_select(options=names, labels=labels, name="coloured by ")
    chosen = alt.param(name="shown", value=first if first in names else names[0], bind=menu)
    return alt.hconcat(grid, strip, spacing=36).add_params(chosen)


def sized_grid(
    frame: pd.DataFrame, column: Column, width: float
) -> alt.LayerChart | alt.FacetChart:
    """The grid of heads of one column, as wide as given, in letters of 12 pixels."""
    data, tints = _shaded(frame, [column])
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    cell = (width - 7.0 * len(f"L{layers - 1}") - 14) / heads
    longest = int(data["text"].str.len().max())
    below: dict[str, Any] = {"orient": "bottom", "direction": "horizontal"}
    colour = tint_colour(tints, gradientLength=width / 2, **below)
    base = alt.Chart(data).transform_filter("datum.column == shown")
    grid = _cells(base, colour, [], 12 if cell >= max(14, 7.0 * longest + 2) else None)
    return grid.properties(
        width=width,
        height=min(cell, TALLEST) * layers,
        padding=2,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    ).add_params(alt.param(name="shown", value=column.name))


def _cells(
    base: alt.Chart, colour: alt.Color, tooltip: list[alt.Tooltip], letters: float | None
) -> alt.LayerChart | alt.FacetChart:
    """Layers down and heads across, each cell tinted, with its number in letters of this size."""
    cells = base.encode(
        x=alt.X("head:O", axis=heads_axis("H"), title=None),
        y=alt.Y("layer:O", axis=heads_axis("L", "left"), title=None),
        tooltip=tooltip,
    )
    marks = [cells.mark_rect(stroke="#c5cad1", strokeWidth=0.4).encode(color=colour)]
    if letters is not None:
        # the same legend and title: those of layers that share a scale are merged
        ink = alt.Color("ink:Q", **{name: colour[name] for name in ("scale", "legend", "title")})
        marks.append(cells.mark_text(fontSize=letters).encode(text="text:N", color=ink))
    return alt.layer(*marks)


def heads_axis(letter: str, orient: Literal["top", "left"] = "top") -> alt.Axis:
    """An axis of layers or heads, as they are called: L2, H10."""
    return alt.Axis(
        orient=orient,
        labelAngle=0,
        labelExpr=f"'{letter}' + datum.label",
        domain=False,
        ticks=False,
        labelOverlap=True,
    )


def _by_layer(
    base: alt.Chart, tooltip: list[alt.Tooltip], control: str, cell: int, layers: int
) -> alt.LayerChart | alt.FacetChart:
    """One dot per head, layers from left to right; the control is a grey tick."""
    x = alt.X("layer:O", axis=alt.Axis(labelAngle=0), title="layer")
    dots = base.mark_circle(size=42, opacity=0.65, color=ACCENT).encode(
        x=x, y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)), tooltip=tooltip
    )
    ticks = base.mark_tick(color=GREY, thickness=2, size=max(10, cell - 6))
    marks = [ticks.encode(x=x, y=alt.Y("control:Q", title=None), tooltip=tooltip), dots]
    grey = f"; grey: {control}" if control else ""
    return alt.layer(*marks[0 if control else 1 :]).properties(
        width=max(200, min(360, 34 * layers)),
        height=max(140, cell * layers),
        title=f"one dot per head{grey}",
    )


def head_tiles(
    heads: pd.DataFrame,
    tiles: npt.NDArray[Any],
    uniform: npt.NDArray[Any] | None = None,
    importance: npt.NDArray[Any] | None = None,
) -> alt.LayerChart | alt.FacetChart:
    """The attention of every head as a small picture, layers down and heads across.

    `heads` (layer, head) names the `tiles` [head of a layer, query, key]. Darkest is a head's own
    largest cell. `uniform` [layer, query, key] adds a last column, on the scale of the darkest head
    of its layer. With `importance`, one number for each head, weights are multiplied by it, and one
    scale serves all.
    """
    scales = np.ones(len(tiles))
    if importance is not None:
        scales = importance
        tiles = tiles * scales[:, None, None].astype(np.float32)
    tops = _largest(tiles)
    shared = None if importance is None else float(tops.max())
    rows = heads.assign(
        column=heads["head"].astype(str),
        name=head_names(heads),
        picture=_pictures(tiles, tops, shared),
        top=tops.round(4),
        scale=scales.round(3),
    )
    if uniform is not None:
        darkest = rows.groupby("layer")["top"].max().reindex(range(len(uniform))).to_numpy()
        rows = pd.concat([rows, _uniform_tiles(uniform, darkest)], ignore_index=True)
    columns = list(dict.fromkeys(rows["column"]))
    cell = max(28, min(76, 1000 // len(columns)))
    tooltip = [alt.Tooltip("name:N", title="head"), alt.Tooltip("top:Q", title="largest cell")]
    tooltip += [] if importance is None else [alt.Tooltip("scale:Q", title="importance")]
    above = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False)
    base = alt.Chart(rows).encode(
        x=alt.X("column:O", sort=columns, title="head", axis=above),
        y=alt.Y("layer:O", title="layer", axis=alt.Axis(domain=False, ticks=False)),
        tooltip=tooltip,
    )
    size: dict[str, Any] = {"width": cell - 4, "height": cell - 4}
    frames = base.mark_rect(fill="transparent", stroke="#c9ced6", strokeWidth=0.6, **size)
    drawn = base.mark_image(**size, aspect=False).encode(url="picture:N")
    return alt.layer(frames, drawn).properties(
        width=cell * len(columns), height=cell * int(rows["layer"].nunique())
    )


def _largest(tiles: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The largest cell of each tile; 0 where none is known."""
    return np.nan_to_num(tiles).max(axis=(1, 2), initial=0.0)


def _pictures(
    tiles: npt.NDArray[Any], tops: npt.NDArray[Any], shared: float | None = None
) -> list[str]:
    """Each tile as a picture whose darkest cell is its own largest, or the largest of all."""
    return [
        png_url(tile, float(top) if shared is None else shared)
        for tile, top in zip(tiles, tops, strict=True)
    ]


def _uniform_tiles(tiles: npt.NDArray[Any], darkest: npt.NDArray[Any]) -> pd.DataFrame:
    """Uniform attention, never darker than on the scale of its layer's heads."""
    tops = _largest(tiles)
    return pd.DataFrame(
        {
            "layer": np.arange(len(tiles)),
            "head": -1,
            "column": "uniform",
            "name": [f"L{layer}, uniform attention" for layer in range(len(tiles))],
            "picture": _pictures(tiles, np.fmax(tops, darkest)),
            "top": tops.round(4),
            "scale": 1.0,
        }
    )


def in_order(data: pd.DataFrame, name: str) -> tuple[pd.DataFrame, alt.EncodingSortField]:
    """Rows with their order as a column, and how to sort by it.

    A list of strings would be read as code where one of them is a word such as “if”.
    """
    positions = {string: position for position, string in enumerate(dict.fromkeys(data[name]))}
    order = alt.EncodingSortField("order", op="min", order="ascending")
    return data.assign(order=data[name].map(positions)), order


@dataclass(frozen=True)
class Estimates:
    """The columns that `with_controls` draws: rows, panels, colours and the control.

    `also` is a second control, drawn hollow. A reader may choose among the values of the first of
    `choose`; its second is shown at first. `labels` are what columns are called.
    """

    row: str
    panel: str
    control: str
    series: str | None = None
    choose: tuple[str, str] | None = None
    also: str | None = None
    width: int = 190
    labels: Mapping[str, str] = field(default_factory=dict)

    def label(self, column: str) -> str:
        """What a column is called."""
        return self.labels.get(column, column.replace("_", " "))


def with_controls(frame: pd.DataFrame, what: Estimates) -> alt.HConcatChart:
    """Dots with 95% intervals and their control in grey: one line per row, panels side by side."""
    data = frame.round(4)
    rows_named = data[what.row].astype(str).str.replace("_", " ")
    data = data.assign(**{what.row: rows_named, what.panel: data[what.panel].astype(str)})
    names = list(dict.fromkeys(data[what.panel]))
    panels = [_panel(data, name, what, at == 0) for at, name in enumerate(names)]
    chart = alt.hconcat(*panels, spacing=18)
    if what.choose is None:
        return chart
    column, first = what.choose
    options = [str(option) for option in dict.fromkeys(data[column])]
    menu = alt.binding_select(options=options, name=f"{what.label(column)} ")
    return chart.add_params(alt.param(name="chosen", value=first, bind=menu))


def _panel(
    data: pd.DataFrame, name: str, what: Estimates, labelled: bool
) -> alt.LayerChart | alt.FacetChart:
    rows = list(dict.fromkeys(data[what.row]))
    names = list(dict.fromkeys(data[what.series])) if what.series else []
    aside: dict[str, Any] = {}
    colour: Any = alt.value(ACCENT)
    if what.series:
        aside = {"yOffset": alt.YOffset(f"{what.series}:N", sort=names)}
        scale = alt.Scale(domain=names, range=[ACCENT, SECOND, FOR][: len(names)])
        legend = alt.Legend(orient="top")
        colour = alt.Color(f"{what.series}:N", title=None, scale=scale, legend=legend)
    base = alt.Chart(data[data[what.panel] == name])
    if what.choose:
        base = base.transform_filter(f"datum.{what.choose[0]} == chosen")
    axis = alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=280, labelPadding=8)
    base = base.encode(
        y=alt.Y(f"{what.row}:N", sort=rows, scale=alt.Scale(domain=rows), title=None, axis=axis),
        tooltip=_estimate_tooltip(what),
        **aside,
    )
    title = name.replace("_", " ")
    hollow = base.mark_point(shape="circle", filled=False, size=34, color=GREY)
    ticks = base.mark_tick(color=GREY, thickness=3, size=11)
    dots = base.mark_circle(size=46, opacity=1)
    x = alt.X("value:Q", title=title, scale=alt.Scale(zero=True))
    return alt.layer(
        *([hollow.encode(x=alt.X(f"{what.also}:Q", title=title))] if what.also else []),
        ticks.encode(x=alt.X(f"{what.control}:Q", title=title)),
        base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", color=colour),
        dots.encode(x=x, color=colour),
    ).properties(width=what.width, height=(30 if what.series else 22) * max(1, len(rows)))


def _estimate_tooltip(what: Estimates) -> list[alt.Tooltip]:
    control = what.label(what.control)
    numbers = {
        "value": "value",
        "low": "95% CI from",
        "high": "to",
        what.control: control,
        "difference": f"above {control}",
        "difference_low": "above, from",
        "difference_high": "above, to",
        **({what.also: what.label(what.also)} if what.also else {}),
    }
    return [
        alt.Tooltip(f"{what.row}:N", title=what.label(what.row)),
        *([alt.Tooltip(f"{what.series}:N", title=what.label(what.series))] if what.series else []),
        *(alt.Tooltip(f"{name}:Q", format=".3f", title=title) for name, title in numbers.items()),
        alt.Tooltip("texts:Q", title="texts"),
    ]


def ends(
    frame: pd.DataFrame, what: str, size: int = 10, title: str = "score"
) -> alt.LayerChart | alt.FacetChart:
    """The strings with the highest and the lowest values: positive ones first."""
    ordered = frame.sort_values(what, ascending=False, kind="stable")
    high, low = ordered[ordered[what] > 0].head(size), ordered[ordered[what] < 0].tail(size)
    data = pd.concat([high, low])
    data = data.assign(side=np.where(data[what] > 0, "for", "against"))
    data[what] = data[what].map(lambda value: float(f"{value:.4g}"))
    also = ("mean", "texts", "occurrences", "per_occurrence", "left_mean", "right_mean")
    more = [name for name in also if name in data and name != what]
    data, order = in_order(data, "string")
    scale = alt.Scale(domain=["for", "against"], range=[FOR, AGAINST])
    axis = alt.Axis(labelLimit=180, ticks=False, domain=False)
    tooltip = [
        alt.Tooltip(
            f"{name}:Q",
            title=name.replace("_", " "),
            format=".4f" if "mean" in name or "per" in name else "d",
        )
        for name in more
    ]
    return (
        alt.Chart(data)
        .mark_bar(height=13, opacity=0.85)
        .encode(
            y=alt.Y("string:N", sort=order, title=None, axis=axis),
            x=alt.X(f"{what}:Q", title=title),
            color=alt.Color("side:N", title=None, legend=None, scale=scale),
            tooltip=[
                alt.Tooltip("string:N", title="token"),
                alt.Tooltip(f"{what}:Q", title=title, format=".4f"),
                *tooltip,
            ],
        )
        .properties(width=330, height=18 * max(1, len(data)))
    )


def chart_spec(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite specification of a chart.

    Line and paragraph separators (U+2028, U+2029) become spaces: Vega-Lite puts the values of a
    sort order into expressions, and a string there cannot contain them.
    """
    alt.data_transformers.disable_max_rows()
    return dict(_one_line(chart.to_dict()))


def _one_line(value: Any) -> Any:
    """The same specification with spaces in position of line separators, also in names."""
    if isinstance(value, str):
        return value.replace("\u2028", " ").replace("\u2029", " ")
    if isinstance(value, list):
        return [_one_line(one) for one in value]
    if isinstance(value, dict):
        return {_one_line(name): _one_line(one) for name, one in value.items()}
    return value


def export(chart: Chart, path: Path, *, force: bool = False) -> Path:
    """Write a chart as the format its name ends in; over an existing file only with `force`."""
    return export_spec(chart_spec(chart), path, force=force)


def export_spec(spec: Mapping[str, Any], path: Path, *, force: bool = False) -> Path:
    """The same for the specification of a chart."""
    check_output(path, CHARTS, force)
    write_bytes(path, spec_bytes(spec, path.suffix))
    return path


def spec_bytes(spec: Mapping[str, Any], suffix: str, font: float | None = None) -> bytes:
    """The specification of a chart drawn in a format; with `font`, in letters of this size."""
    return _drawn({**spec, "config": {**spec.get("config", {}), **theme(font=font)}}, suffix)


def titled_choices(
    chart: Chart, title: str, about: Sequence[str], interactive: bool = False
) -> dict[str, dict[str, Any]]:
    """The specification of a chart for each choice of its menus, with what it shows inside it.

    The first is the choice that a page opens with, under the name "". An interactive chart keeps
    its menus, and is one.
    """
    spec = chart_spec(chart)
    menus = [one for one in spec.get("params", []) if one.get("bind", {}).get("input") == "select"]
    if interactive or not menus:
        return {"": _titled(spec, title, about)}
    others = [one for one in spec["params"] if one not in menus]
    first = tuple(menu["value"] for menu in menus)
    every = list(product(*(menu["bind"]["options"] for menu in menus)))
    out = {}
    for values in [first, *(one for one in every if one != first)]:
        fixed = [
            {"name": menu["name"], "value": value}
            for menu, value in zip(menus, values, strict=True)
        ]
        chosen = ", ".join(map(_choice, menus, values))
        name = "" if values == first else "-".join(map(file_name, values))
        out[name] = _titled({**spec, "params": [*others, *fixed]}, f"{title}: {chosen}", about)
    return out


def _choice(menu: Mapping[str, Any], value: Any) -> str:
    """What a choice of a menu is called."""
    bind = menu["bind"]
    labels = bind.get("labels") or bind["options"]
    return str(labels[bind["options"].index(value)])


def file_name(value: Any) -> str:
    """A value as part of the name of a file: letters, digits and hyphens.

    >>> file_name("b0@0.1")
    'b0-0-1'
    """
    return "".join(one if one.isalnum() else "-" for one in str(value))[:40].strip("-")


def _titled(spec: dict[str, Any], title: str, about: Sequence[str]) -> dict[str, Any]:
    """A specification with its title; in one that has a width of its own, in as many lines."""
    lines, below = [title], list(about)
    if "autosize" in spec:
        lines = wrapped(title, spec["width"])
        below = [line for one in about for line in wrapped(one, spec["width"])]
    text = lines if len(lines) > 1 else title
    return {**spec, "title": {"text": text, "subtitle": below, "anchor": "start"}}


class _InScript(json.JSONEncoder):
    """JSON that can stand inside a script element."""

    def encode(self, o: Any) -> str:
        return str(inline_json(o))


def _renumbered(svg: str) -> str:
    """A picture whose gradients and clips are counted from 0, so that it is the same every time.

    >>> _renumbered('<a id="gradient_7"/><b fill="url(#gradient_7)"/><c id="clip9"/>')
    '<a id="gradient_0"/><b fill="url(#gradient_0)"/><c id="clip1"/>'
    """
    numbers: dict[str, int] = {}

    def number_of(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{numbers.setdefault(match[0][len(match[1]) :], len(numbers))}"

    return re.sub(r'(id="|url\(#)(gradient_|clip)\d+', number_of, svg)


def _drawn(content: dict[str, Any], suffix: str) -> bytes:
    """A chart in a format; pictures without checking the whole of it again."""

    version = "_".join(alt.SCHEMA_VERSION.split(".")[:2])
    if suffix == ".svg":
        return _renumbered(str(vl_convert.vegalite_to_svg(content, vl_version=version))).encode()
    if suffix == ".pdf":
        return bytes(vl_convert.vegalite_to_pdf(content, vl_version=version))
    if suffix == ".png":
        return bytes(vl_convert.vegalite_to_png(content, vl_version=version, scale=1.5, ppi=72))
    alt.data_transformers.disable_max_rows()
    text, whole = io.StringIO(), alt.Chart.from_dict(content)
    kind: Literal["html", "json"] = "html" if suffix == ".html" else "json"
    whole.save(text, kind, json_kwds={"cls": _InScript}, inline=kind == "html")
    return text.getvalue().encode("utf-8", "replace")
