"""Tokens of classifiers: their scores and weights, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.section.cells import (
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    choosing,
    chosen_cells,
    kind_colour,
    kinds_of,
    short,
)
from attlas.dynamics.summary import CELL
from attlas.views import charts
from attlas.views.numbers import number
from attlas.views.tables import TextTable
from attlas.views.vega import alt

SIDES = {"polarity": "polarity score", "attention": "attention score"}
MOST_TOKENS = 3_000  # that are drawn of each
LISTED = 10  # tokens of a list


def _wide(frame: pd.DataFrame, columns: Sequence[tuple[int, str, str]]) -> pd.DataFrame:
    """A row for each token, and for each (place, column, name) a column of that name.

    In a random order that is always the same, and at most as many tokens as are drawn.
    """
    cells = chosen_cells(frame)
    rows = frame.merge(cells, on=list(CELL))
    known = rows.drop_duplicates(["token", "kind"])
    known = known.iloc[np.random.default_rng(0).permutation(len(known))[:MOST_TOKENS]]
    keys = pd.MultiIndex.from_frame(known[["token", "kind"]])
    out: dict[str, Any] = {
        "x": range(len(known)),
        "token": known["token"].to_numpy(),
        "kind": known["kind"].to_numpy(),
        "count": known["count"].to_numpy(),
    }
    out["tied"] = short(known["gamma"] if known["gamma"].notna().any() else known["share"])
    by_place = {
        int(place): part.set_index(["token", "kind"]) for place, part in rows.groupby("place")
    }
    for place, column, name in columns:
        out[name] = short(by_place[place][column].reindex(keys))
    return pd.DataFrame(out)


def drawn_tokens(frame: pd.DataFrame) -> str:
    """How many tokens are shown."""
    count = len(frame.merge(chosen_cells(frame), on=list(CELL)).drop_duplicates(["token", "kind"]))
    return (
        f"all {count:,} tokens"
        if count <= MOST_TOKENS
        else f"{MOST_TOKENS:,} of {count:,} tokens at random"
    )


def tokens(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figures 2 to 4 of Sun & Lu 2020: the polarity and the attention score of every token.

    Of a contextual encoder by itself and in context.
    """
    entries = _entries(frame)
    columns = [
        (place, f"{score}{end}", f"{score[0]}{at}")
        for at, (place, ends, _) in enumerate(entries)
        for score, end in zip(SIDES, ends, strict=True)
    ]
    data = _wide(frame, columns)
    which = "chosen" if len(entries) > 1 else "0"
    tied = "association" if frame["gamma"].notna().any() else "largest share"
    axis, scale = alt.Axis(grid=False, tickCount=5), alt.Scale(nice=False)
    base = (
        alt.Chart(data)
        .transform_calculate(polarity=f"datum['p' + {which}]", attention=f"datum['a' + {which}]")
        .transform_filter("isValid(datum.attention)")
        .encode(
            x=alt.X("x:Q", title="token, in random order", scale=scale, axis=axis),
            color=kind_colour(data),
            tooltip=[
                alt.Tooltip("token:N", title="token"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("count:Q", title="occurrences", format=","),
                alt.Tooltip("tied:Q", title=tied),
                alt.Tooltip("polarity:Q", title="polarity score"),
                alt.Tooltip("attention:Q", title="attention score"),
            ],
        )
    )
    zero = alt.Chart(pd.DataFrame({"y": [0]})).mark_rule(color=charts.GREY, strokeWidth=1)
    dots = base.mark_circle(size=13 if len(data) > 500 else 30, opacity=0.7)
    sides = [
        alt.layer(zero.encode(y="y:Q"), dots.encode(y=alt.Y(f"{what}:Q", title=title))).properties(
            width=430, height=300
        )
        for what, title in SIDES.items()
    ]
    names = [name for *_, name in entries]
    chart: alt.HConcatChart = choosing(alt.hconcat(*sides, spacing=26), names, "classifier")
    return chart


def _entries(frame: pd.DataFrame) -> list[tuple[int, tuple[str, str], str]]:
    """What a reader may choose: place, how the columns of its two scores end, name."""
    cells = chosen_cells(frame)
    known = frame.dropna(subset=["attention_local"])[list(CELL)].drop_duplicates()
    contextual = set(known.merge(cells, on=list(CELL))["place"])
    out = []
    for place, cell in zip(cells["place"], cells["cell"], strict=True):
        if place in contextual:
            out.append((place, ("", "_score"), f"{cell}, a word by itself"))
            out.append((place, ("_local", "_local"), f"{cell}, in context"))
        else:
            out.append((place, ("", "_score"), cell))
    return out


def weights(frame: pd.DataFrame) -> alt.ConcatChart | None:
    """Figure 5 of Sun & Lu 2020: mean attention weights of tokens by kind, if they are known."""
    weighted = frame.dropna(subset=["weight"])
    cells = chosen_cells(frame)
    cells = (
        cells.merge(weighted[list(CELL)].drop_duplicates(), on=list(CELL))
        if len(weighted)
        else cells[:0]
    )
    if not len(cells):
        return None
    data = _wide(frame, [(place, "weight", f"w{place}") for place in cells["place"]])
    data = data[["kind", *(f"w{place}" for place in cells["place"])]]
    names, _ = kinds_of(data)
    wide = max(150, 44 * len(names))
    panels = [
        alt.Chart(data)
        .mark_boxplot(size=24, opacity=0.8, outliers={"size": 9, "opacity": 0.45})
        .encode(
            x=alt.X(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=names),
                axis=alt.Axis(labelAngle=0 if max(map(len, names)) < 10 else -40, labelLimit=120),
            ),
            y=alt.Y(
                f"w{place}:Q",
                title="mean weight on test",
                axis=alt.Axis(format=".6~g", tickCount=5),
                scale=alt.Scale(type="sqrt", domain=_around(data[f"w{place}"])),
            ),
            color=kind_colour(data, legend=False),
        )
        .properties(width=wide, height=210, title=cell)
        for place, cell in zip(cells["place"], cells["cell"], strict=True)
    ]
    return alt.concat(*panels, columns=max(1, min(4, 900 // wide)), spacing=22)


def _around(values: pd.Series[float]) -> list[float]:
    """The ends of an axis for values above 0: from 0, unless they are all near the largest.

    >>> _around(pd.Series([0.1, 0.4])), _around(pd.Series([0.4, 0.4]))
    ([0.0, 0.42], [0.32, 0.42])
    """
    low, high = float(values.min()), float(values.max()) or 1.0
    return [0.0 if low < high / 2 else round(0.8 * low, 6), round(1.05 * high, 6)]


def tokens_table(frame: pd.DataFrame) -> TextTable:
    """Of the first classifier shown, the tokens with the largest scores.

    Of each kind those of the largest polarity (of neutral ones, in size).
    """
    rows = frame.merge(chosen_cells(frame)[:1], on=list(CELL))
    names, _ = kinds_of(rows)
    two = set(names) <= {POSITIVE, NEGATIVE, NEUTRAL}
    lists = {}
    for kind in names:
        part = rows[rows["kind"] == kind]
        ranked = part["polarity"].abs() if kind == NEUTRAL else part["polarity"]
        if kind == NEGATIVE and two:
            ranked = -ranked
        lists[f"{kind}: polarity"] = _ranked(part, ranked, "polarity")
    scores = rows["attention_score"]
    lists["highest attention score"] = _ranked(rows, scores, "attention_score", kinds=True)
    lists["lowest attention score"] = _ranked(rows, -scores, "attention_score", kinds=True)
    cells = tuple(zip_longest(*lists.values(), fillvalue=""))
    return TextTable(tuple(lists), cells, (True,) * len(lists))


def _ranked(rows: pd.DataFrame, by: pd.Series[float], what: str, kinds: bool = False) -> list[str]:
    """The first tokens by a number, each with another."""
    first = rows.loc[by.sort_values(ascending=False, kind="stable").index[:LISTED]]
    return [
        (
            f"\u2068{row['token']}\u2069{' (' + row['kind'] + ')' if kinds else ''}"
            f"\u00a0{number(row[what])}"
        )
        for row in first.to_dict("records")
    ]
