"""Classifiers by scale: accuracy, separation and gap, each with its controls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from attlas.dynamics.section.cells import short, titled
from attlas.dynamics.summary import with_intervals
from attlas.views import charts
from attlas.views.numbers import number
from attlas.views.tables import Column, TextTable, text_table
from attlas.views.vega import alt

SCALE = Column("scale_name", "scale")
SEEDS = Column("seeds", "seeds", format="count")
COLUMNS = (
    Column("model", "model", format="words"),
    SCALE,
    Column("accuracy", "accuracy", format="three", control="majority"),
    Column("published", "published", format="three"),
    Column("majority", "majority class", format="three"),
    Column("separation", "separation", "AUC", format="three", control="separation_count"),
    Column("between", "range"),
    Column("separation_untrained", "before training", format="three"),
    Column("separation_count", "frequency alone", format="three"),
    Column("separation_frequent", "against frequent", format="three"),
    Column("separation_least", "least separated class", format="three"),
    Column("separation_local", "in context", format="three"),
    Column("gap", "gap", "SD", format="three"),
)
PRINTED = (
    Column("model", "model", format="words"),
    SCALE,
    Column("accuracy", "accuracy", format="three"),
    Column("accuracy_sd", "sd", format="three"),
    Column("published", "paper", format="three"),
    Column("majority", "majority", format="three"),
    Column("separation", "AUC", format="three"),
    Column("separation_untrained", "before", format="three"),
    Column("separation_count", "count", format="three"),
    Column("separation_frequent", "frequent", format="three"),
    Column("gap", "gap", format="three"),
)
HOVERED = {
    "low": "95% CI from",
    "high": "to",
    "published": "published",
    "majority": "majority class",
    "separation_untrained": "before training",
    "separation_count": "frequency alone",
    "seeds": "seeds",
}
CONTROLS = {
    "accuracy": ("published", "majority"),
    "separation": ("separation_untrained", "separation_count"),
}


def _by_scale(
    data: pd.DataFrame, what: str, title: str, width: int, height: int = 230
) -> tuple[alt.Chart, list[alt.Chart]]:
    """What charts by scale share: their base, and lines, intervals and points on it.

    Models are slightly offset from one another.
    """
    models, scales = list(dict.fromkeys(data["model"])), sorted(set(data["scale"]))
    low, high = scales[0] / 1.7, scales[-1] * 1.7
    nearest = min(np.diff(np.log(scales)), default=1.0)
    step = min(5 * np.log(high / low) / width, 0.6 * nearest / max(1, len(models) - 1))
    aside = data["model"].map(models.index) - (len(models) - 1) / 2
    data = data.assign(
        at=short(data["scale"] * np.exp(step * aside), 5),
        **{name: data[name].round(4) for name in (what, "low", "high")},
    )
    axis = alt.Axis(
        values=scales, format=".6~g", grid=False, labelOverlap="greedy", labelSeparation=1
    )
    base = (
        alt.Chart(data)
        .encode(
            x=alt.X(
                "at:Q",
                title="scale",
                axis=axis,
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
            ),
            color=alt.Color(
                "model:N",
                title=None,
                scale=alt.Scale(domain=models, range=charts.COLOURS[: len(models)]),
                legend=alt.Legend(
                    orient="top",
                    columns=5,
                    labelLimit=240,
                    symbolType="circle",
                    symbolStrokeWidth=0,
                    symbolOpacity=1,
                ),
            ),
            tooltip=_hovered(data, what, title),
        )
        .properties(width=width, height=height)
    )
    y = alt.Y(f"{what}:Q", title=title, scale=alt.Scale(zero=False))
    marks = [
        base.mark_line(strokeWidth=1.4, opacity=0.55).encode(y=y),
        base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
        base.mark_circle(size=48, opacity=1).encode(y=y),
    ]
    return base, marks


def _hovered(data: pd.DataFrame, what: str, title: str) -> list[alt.Tooltip]:
    """What is shown of a classifier on hover."""
    wanted = ("low", "high", "seeds", *CONTROLS.get(what, ()))
    known = {name: named for name, named in HOVERED.items() if name in wanted and name in data}
    return [
        alt.Tooltip("cell:N", title="classifier"),
        *(
            alt.Tooltip(f"{name}:Q", format="d" if name == "seeds" else ".3f", title=named)
            for name, named in {what: title, **known}.items()
        ),
    ]


def _rule(at: float, label: str, width: int) -> list[alt.Chart]:
    """A dashed line across, labelled at its end."""
    base = alt.Chart(pd.DataFrame({"y": [at]})).encode(y="y:Q")
    words = base.mark_text(
        align="left",
        baseline="middle",
        lineBreak="/",
        dy=-6 * label.count("/"),
        fontSize=10,
    )
    return [
        base.mark_rule(strokeDash=[4, 4], color=charts.GREY),
        words.encode(x=alt.value(width + 4), text=alt.value(label)),
    ]


def _width(frame: pd.DataFrame, panels: int = 1) -> int:
    """How wide a chart by scale is: few scales need little."""
    return {1: 240, 2: 360}.get(frame["scale"].nunique(), 620 if panels == 1 else 410)


def accuracy(summary: pd.DataFrame, rows: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """Accuracy by scale, a line for each model; hollow is published, dashed the majority class."""
    width = _width(summary)
    base, marks = _by_scale(
        titled(with_intervals(summary, rows, "accuracy")), "accuracy", "accuracy on test", width
    )
    if "published" in summary and summary["published"].notna().any():
        known = base.transform_filter("isValid(datum.published)").mark_point(
            filled=False, size=75, strokeWidth=1.6, shape="diamond"
        )
        marks.append(known.encode(y=alt.Y("published:Q", title="accuracy on test")))
    lines = [
        mark
        for value in sorted(set(summary["majority"].round(4)))
        for mark in _rule(value, f"majority/class {number(value)}", width)
    ]
    return alt.layer(*lines, *marks)


def separation(summary: pd.DataFrame, rows: pd.DataFrame) -> alt.HConcatChart:
    """How well attention scores separate polarity tokens from neutral ones, by scale.

    On the left from all neutral tokens (grey: frequency alone, hollow: before training), on the
    right from frequent ones.
    """
    panels = {
        "separation": "AUC, polarity vs. neutral tokens",
        "separation_frequent": "AUC, vs. frequent neutral tokens",
    }
    shown = {what: title for what, title in panels.items() if summary[what].notna().any()}
    width = _width(summary, len(shown))
    charts_drawn = []
    for what, title in shown.items():
        data = titled(with_intervals(summary.dropna(subset=[what]), rows, what))
        base, marks = _by_scale(data, what, title, width)
        controls: list[alt.Chart] = []
        if what == "separation":
            alone = sorted(set(data["separation_count"].dropna().round(3)))
            grey = base.encode(color=alt.value(charts.GREY))
            ticks = grey.mark_tick(thickness=2.5, size=13, orient="horizontal").encode(
                y=alt.Y("separation_count:Q", title=title)
            )
            before = grey.mark_point(shape="circle", filled=False, size=30).encode(
                y=alt.Y("separation_untrained:Q", title=title)
            )
            controls = [
                *(
                    _rule(alone[0], f"frequency/alone {number(alone[0])}", width)
                    if len(alone) == 1
                    else [ticks]
                ),
                before,
            ]
        charts_drawn.append(alt.layer(*_rule(0.5, "chance", width), *controls, *marks))
    return alt.hconcat(*charts_drawn, spacing=26).resolve_scale(y="shared")


def gap(
    summary: pd.DataFrame, rows: pd.DataFrame, positive: str | None
) -> alt.LayerChart | alt.FacetChart:
    """How far the attention scores of the classes' tokens lie apart, by scale."""
    title = (
        "positive − negative tokens (SD)"
        if positive is not None
        else "largest − smallest class (SD)"
    )
    known = summary.dropna(subset=["gap"])
    width = _width(known)
    _, marks = _by_scale(titled(with_intervals(known, rows, "gap")), "gap", title, width)
    return alt.layer(*_rule(0.0, "no gap", width), *marks)


def summary_table(summary: pd.DataFrame, rows: pd.DataFrame) -> TextTable:
    """The classifiers in numbers: accuracy, separation and gap, each with its controls."""
    table = titled(with_intervals(summary, rows, "separation"))
    many = bool((table["seeds"] > 1).any())
    spread = {what: table[what].map(_three) for what in ("accuracy", "separation", "gap")}
    for what, means in spread.items():
        ends = [f"\u00a0±\u00a0{_three(sd)}" if sd == sd else "" for sd in table[f"{what}_sd"]]
        spread[what] = means + pd.Series(ends, index=table.index, dtype=str)
    between = [
        f"{_three(low)}\u00a0to\u00a0{_three(high)}" if low == low else "-"
        for low, high in zip(table["low"], table["high"], strict=True)
    ]
    label = "range over seeds" if many else "95% CI"
    columns = [
        replace(column, label=label) if column.name == "between" else column
        for column in COLUMNS
        if column.name in ("model", "scale_name", "between") or _has(table, column.name)
    ]
    columns += [SEEDS] if many else []
    return text_table(table.assign(**spread, between=between), columns)


def printed_table(summary: pd.DataFrame) -> TextTable:
    """The same for the terminal, as means over seeds."""
    known = [
        column
        for column in PRINTED
        if column.name in ("model", "scale_name") or _has(summary, column.name)
    ]
    note = (
        "AUC: separation of polarity from neutral tokens by attention scores; before training, by "
        "frequency alone, and against frequent neutral tokens"
    )
    return text_table(titled(summary), known, note)


def _has(frame: pd.DataFrame, column: str) -> bool:
    return column in frame and bool(frame[column].notna().any())


def _three(value: float) -> str:
    return number(value, 3)
