"""What classifiers and kinds of tokens are called, and which of them are drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.summary import CELL, nearest_scale
from attlas.views import charts
from attlas.views.vega import alt

POSITIVE, NEGATIVE, NEUTRAL = "positive", "negative", "neutral"
ATTENTION = {"dot": "dot-product attention", "additive": "additive attention"}
ENCODERS = {"affine": "affine", "lstm": "LSTM", "vectors": "given vectors", "model": "frozen model"}
MOST_CELLS = 8  # classifiers whose tokens are drawn
MOST_EPOCHS = 60  # along which a line is drawn


def model_title(attention: str, encoder: str) -> str:
    """What a classifier is called: its attention, and its encoder if it has one.

    >>> model_title("dot", "none"), model_title("additive", "lstm")
    ('dot', 'additive, LSTM')
    """
    return attention if encoder == "none" else f"{attention}, {ENCODERS.get(encoder, encoder)}"


def scale_title(scale: float) -> str:
    """A scale as it is written.

    >>> scale_title(0.001), scale_title(10.0), scale_title(10_000)
    ('0.001', '10', '10,000')
    """
    return f"{scale:,g}"


def cell_title(row: Mapping[Any, Any]) -> str:
    """A classifier with its scale.

    >>> cell_title({"attention": "dot", "encoder": "lstm", "scale": 10.0})
    'dot, LSTM, scale 10'
    """
    return f"{model_title(row['attention'], row['encoder'])}, scale {scale_title(row['scale'])}"


def cell_words(row: Mapping[Any, Any]) -> str:
    """The same as a finding says it, for readers who do not know what a scale is.

    >>> cell_words({"attention": "dot", "encoder": "lstm", "scale": 10.0})
    'dot-product attention, LSTM, scores divided by 10'
    """
    attention = ATTENTION.get(row["attention"], row["attention"])
    name = model_title(attention, row["encoder"])
    return f"{name}, scores divided by {scale_title(row['scale'])}"


def titled(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with what their model and their classifier are called."""
    rows = frame.to_dict("records")
    return frame.assign(
        model=[model_title(row["attention"], row["encoder"]) for row in rows],
        cell=[cell_title(row) for row in rows],
        scale_name=[scale_title(row["scale"]) for row in rows],
    )


def chosen_cells(frame: pd.DataFrame, most: int = MOST_CELLS) -> pd.DataFrame:
    """The classifiers that are drawn one by one, with their `place` and `cell`.

    Of each model the scale nearest to the usual one, of the first also its smallest and largest.
    """
    cells = frame[list(CELL)].drop_duplicates()
    models = [part for _, part in cells.groupby(list(CELL[:2]), sort=False)]
    first, *others = [nearest_scale(part) for part in models]
    scales = models[0]["scale"]
    ends = [models[0].loc[at] for at in (scales.idxmin(), scales.idxmax())]
    picked = pd.DataFrame([first, *ends, *others]).drop_duplicates()[:most].reset_index(drop=True)
    return picked.assign(
        place=range(len(picked)), cell=[cell_title(row) for row in picked.to_dict("records")]
    )


def kinds_of(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The kinds of tokens and their colours; neutral is grey and last."""
    kinds = [str(kind) for kind in dict.fromkeys(frame["kind"])]
    if set(kinds) <= {POSITIVE, NEGATIVE, NEUTRAL}:
        colours = {POSITIVE: charts.FOR, NEGATIVE: charts.AGAINST, NEUTRAL: charts.GREY}
        names = [kind for kind in colours if kind in kinds]
        return names, [colours[kind] for kind in names]
    names = sorted(kind for kind in kinds if kind != NEUTRAL) + [NEUTRAL] * (NEUTRAL in kinds)
    return names, [
        charts.GREY if kind == NEUTRAL else charts.COLOURS[index % len(charts.COLOURS)]
        for index, kind in enumerate(names)
    ]


def kind_colour(frame: pd.DataFrame, legend: bool = True) -> alt.Color:
    """The colour of a token by its kind."""
    names, colours = kinds_of(frame)
    shown = (
        alt.Legend(orient="top", labelLimit=220, symbolOpacity=1, symbolStrokeWidth=2, columns=6)
        if legend
        else None
    )
    return alt.Color(
        "kind:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=shown
    )


def short(values: pd.Series[float], digits: int = 3) -> list[float | None]:
    """Numbers to a few digits, so that a page stays small."""
    return [None if value != value else float(f"{value:.{digits}g}") for value in values]


def choosing(chart: Any, names: Sequence[str], what: str) -> Any:
    """A chart titled by what is shown; a reader may choose if there is more than one."""
    if len(names) == 1:
        return chart.properties(title=names[0])
    options = alt.binding_select(
        options=list(range(len(names))), labels=list(names), name=f"{what} "
    )
    title = alt.Title(text=alt.ExprRef(f"{json.dumps(list(names))}[chosen]"))
    return chart.properties(
        title=title, params=[alt.param(name="chosen", value=0, bind=options).param]
    )


def some_epochs(frame: pd.DataFrame) -> pd.DataFrame:
    """Some epochs of a long training, evenly spaced from the first to the last."""
    known = np.unique(frame["epoch"])
    kept = known[np.unique(np.linspace(0, len(known) - 1, MOST_EPOCHS).round().astype(int))]
    return frame[frame["epoch"].isin(kept)]
