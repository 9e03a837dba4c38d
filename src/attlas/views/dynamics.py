"""Charts and tables of how attention comes to mark words in small classifiers: by scale beside every control, token by token, and along training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from attlas.views import charts
from attlas.views.findings import CELL, cell_title, model_title, nearest_scale, number, scale_title, with_intervals
from attlas.views.heads import COLOURS, table_html

POSITIVE, NEGATIVE, NEUTRAL = "positive", "negative", "neutral"
MOST_CELLS = 8  # classifiers whose tokens are drawn
MOST_TOKENS = 3_000  # that are drawn of each
MOST_EPOCHS = 60  # along which a line is drawn
LISTED = 10  # tokens of a list
LONG = 40  # rows of a table that are shown without scrolling
SHADES = ["#2f6fd0", "#1c9aa6", "#4c9a3f", "#b8912a", "#d9702f", "#c23f6d", "#8457c5"]  # read on white and on black
SIDES = {"polarity": "polarity score", "attention": "attention score"}
TERMS = {"A": "A: attention to it", "B": "B: its part in sums", "C": "C: W moves", "D": "D: its part in sums", "E": "E: attention to it", "F": "F: V moves", "sum": "all terms"}  # fmt: skip
PATH = {"vw": "V·W", "v_norm": "|V|", "w_norm": "|W|", "gap": "gap between classes", "loss": "loss", "dev_accuracy": "accuracy on dev", "separation": "separation (AUC)"}  # fmt: skip
RULES = {"vw": 0.0, "gap": 0.0, "separation": 0.5}  # where there is none


def chosen_cells(frame: pd.DataFrame, most: int = MOST_CELLS) -> pd.DataFrame:
    """The classifiers that are drawn one by one, with their `place` and `cell`: of each model the scale nearest to the usual one, of the first also its smallest and largest."""
    cells = frame[list(CELL)].drop_duplicates()
    models = [part for _, part in cells.groupby(list(CELL[:2]), sort=False)]
    first, *others = [nearest_scale(part) for part in models]
    ends = [models[0].loc[place] for place in (models[0]["scale"].idxmin(), models[0]["scale"].idxmax())]
    picked = pd.DataFrame([first, *ends, *others]).drop_duplicates()[:most].reset_index(drop=True)
    return picked.assign(place=range(len(picked)), cell=[cell_title(row) for row in picked.to_dict("records")])


def kinds_of(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The kinds of tokens and their colours: green and orange for two classes, one each for more; neutral is grey and last."""
    found = [str(kind) for kind in dict.fromkeys(frame["kind"])]
    if set(found) <= {POSITIVE, NEGATIVE, NEUTRAL}:
        colours = {POSITIVE: charts.FOR, NEGATIVE: charts.AGAINST, NEUTRAL: charts.GREY}
        names = [kind for kind in colours if kind in found]
        return names, [colours[kind] for kind in names]
    names = sorted(kind for kind in found if kind != NEUTRAL) + [NEUTRAL] * (NEUTRAL in found)
    return names, [charts.GREY if kind == NEUTRAL else COLOURS[place % len(COLOURS)] for place, kind in enumerate(names)]  # fmt: skip


def _kind(frame: pd.DataFrame, legend: bool = True) -> alt.Color:
    names, colours = kinds_of(frame)
    shown = alt.Legend(orient="top", labelLimit=220, symbolOpacity=1, symbolStrokeWidth=2, columns=6) if legend else None  # fmt: skip
    return alt.Color("kind:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=shown)


def _short(values: pd.Series[float], digits: int = 3) -> list[float | None]:
    """Numbers to a few digits, so that a page stays small."""
    return [None if value != value else float(f"{value:.{digits}g}") for value in values]


def _choosing(chart: Any, names: Sequence[str], what: str) -> Any:
    """A chart titled by what is shown; a reader may choose if there is more than one."""
    if len(names) == 1:
        return chart.properties(title=names[0])
    options = alt.binding_select(options=list(range(len(names))), labels=list(names), name=f"{what} ")
    title = alt.Title(text=alt.ExprRef(f"{json.dumps(list(names))}[chosen]"))
    return chart.properties(title=title, params=[alt.param(name="chosen", value=0, bind=options).param])


def _epochs(frame: pd.DataFrame) -> pd.DataFrame:
    """Some epochs of a long training: the first, the last and as many between as are told apart."""
    known = np.unique(frame["epoch"])
    kept = known[np.unique(np.linspace(0, len(known) - 1, MOST_EPOCHS).round().astype(int))]
    return frame[frame["epoch"].isin(kept)]


# by scale


def _by_scale(data: pd.DataFrame, what: str, title: str, width: int, height: int = 230) -> tuple[alt.Chart, list[alt.Chart]]:  # fmt: skip
    """What charts by scale share: their base, and lines, intervals and points on it; models stand a little aside from one another."""
    models, scales = list(dict.fromkeys(data["model"])), sorted(set(data["scale"]))
    low, high = scales[0] / 1.7, scales[-1] * 1.7
    nearest = min(np.diff(np.log(scales)), default=1.0)
    step = min(5 * np.log(high / low) / width, 0.6 * nearest / max(1, len(models) - 1))
    aside = data["model"].map(models.index) - (len(models) - 1) / 2
    data = data.assign(at=_short(data["scale"] * np.exp(step * aside), 5), **{name: data[name].round(4) for name in (what, "low", "high")})  # fmt: skip
    axis = alt.Axis(values=scales, format=".6~g", grid=False, labelOverlap="greedy", labelSeparation=1)
    base = alt.Chart(data).encode(
        x=alt.X("at:Q", title="scale", axis=axis, scale=alt.Scale(type="log", domain=[low, high], nice=False)),
        color=alt.Color("model:N", title=None, scale=alt.Scale(domain=models, range=COLOURS[: len(models)]), legend=alt.Legend(orient="top", columns=5, labelLimit=240, symbolType="circle", symbolStrokeWidth=0, symbolOpacity=1)),
        tooltip=[alt.Tooltip("cell:N", title="classifier"), *(alt.Tooltip(f"{name}:Q", format="d" if name == "seeds" else ".3f", title=said) for name, said in _told(data, what, title).items())],
    ).properties(width=width, height=height)  # fmt: skip
    y = alt.Y(f"{what}:Q", title=title, scale=alt.Scale(zero=False))
    marks = [
        base.mark_line(strokeWidth=1.4, opacity=0.55).encode(y=y),
        base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
        base.mark_circle(size=48, opacity=1).encode(y=y),
    ]
    return base, marks


def _told(data: pd.DataFrame, what: str, title: str) -> dict[str, str]:
    """The numbers of a classifier that are shown on hover."""
    known = {what: title, "low": "from", "high": "to", "published": "published", "majority": "commonest class", "separation_untrained": "before training", "separation_count": "frequency alone", "seeds": "seeds"}  # fmt: skip
    wanted = {what, "low", "high", "seeds", *({"accuracy": ("published", "majority"), "separation": ("separation_untrained", "separation_count")}.get(what, ()))}  # fmt: skip
    return {name: said for name, said in known.items() if name in wanted and name in data}


def _rule(at: float, said: str, width: int) -> list[alt.Chart]:
    """A dashed line across, and beside its end what it stands for."""
    base = alt.Chart(pd.DataFrame({"y": [at]})).encode(y="y:Q")
    words = base.mark_text(align="left", baseline="middle", lineBreak="/", dy=-6 * said.count("/"), color=charts.GREY, fontSize=10)  # fmt: skip
    return [base.mark_rule(strokeDash=[4, 4], color=charts.GREY), words.encode(x=alt.value(width + 4), text=alt.value(said))]  # fmt: skip


def _width(frame: pd.DataFrame, panels: int = 1) -> int:
    """How wide a chart by scale is: few scales need little."""
    return {1: 240, 2: 360}.get(frame["scale"].nunique(), 620 if panels == 1 else 410)


def _titled(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame.to_dict("records")
    return frame.assign(model=[model_title(row["attention"], row["encoder"]) for row in rows], cell=[cell_title(row) for row in rows])  # fmt: skip


def accuracy(summary: pd.DataFrame, rows: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """Accuracy by scale, a line for each model; hollow is published, dashed the commonest class."""
    width = _width(summary)
    base, marks = _by_scale(_titled(with_intervals(summary, rows, "accuracy")), "accuracy", "accuracy on test", width)
    if "published" in summary and summary["published"].notna().any():
        known = base.transform_filter("isValid(datum.published)").mark_point(filled=False, size=75, strokeWidth=1.6, shape="diamond")  # fmt: skip
        marks.append(known.encode(y=alt.Y("published:Q", title="accuracy on test")))
    lines = [mark for value in sorted(set(summary["majority"].round(4))) for mark in _rule(value, f"commonest/class {number(value)}", width)]  # fmt: skip
    return alt.layer(*lines, *marks)


def separation(summary: pd.DataFrame, rows: pd.DataFrame) -> alt.HConcatChart:
    """How well attention scores tell polarity tokens from neutral ones, by scale: against all neutral tokens (grey: frequency alone, hollow: before training) and against frequent ones."""
    panels = {"separation": "AUC, polarity against neutral tokens", "separation_frequent": "AUC, against frequent neutral tokens"}  # fmt: skip
    shown = {what: title for what, title in panels.items() if summary[what].notna().any()}
    width = _width(summary, len(shown))
    drawn = []
    for what, title in shown.items():
        data = _titled(with_intervals(summary.dropna(subset=[what]), rows, what))
        base, marks = _by_scale(data, what, title, width)
        controls: list[alt.Chart] = []
        if what == "separation":
            alone = sorted(set(data["separation_count"].dropna().round(3)))
            grey = base.encode(color=alt.value(charts.GREY))
            ticks = grey.mark_tick(thickness=2.5, size=13, orient="horizontal").encode(y=alt.Y("separation_count:Q", title=title))  # fmt: skip
            before = grey.mark_point(shape="circle", filled=False, size=30).encode(y=alt.Y("separation_untrained:Q", title=title))  # fmt: skip
            controls = [*(_rule(alone[0], f"frequency/alone {number(alone[0])}", width) if len(alone) == 1 else [ticks]), before]  # fmt: skip
        drawn.append(alt.layer(*_rule(0.5, "chance", width), *controls, *marks))
    return alt.hconcat(*drawn, spacing=26).resolve_scale(y="shared")


def gap(summary: pd.DataFrame, rows: pd.DataFrame, positive: str | None) -> alt.LayerChart | alt.FacetChart:
    """How far the attention scores of the classes' tokens lie apart, by scale."""
    title = "positive less negative tokens, in SD" if positive is not None else "largest less smallest class, in SD"
    known = summary.dropna(subset=["gap"])
    width = _width(known)
    _, marks = _by_scale(_titled(with_intervals(known, rows, "gap")), "gap", title, width)
    return alt.layer(*_rule(0.0, "no gap", width), *marks)


def summary_html(summary: pd.DataFrame, rows: pd.DataFrame) -> str:
    """The classifiers in numbers: accuracy, separation and gap, each beside its controls."""
    told = _titled(with_intervals(summary, rows, "separation"))
    out = pd.DataFrame({"model": told["model"], "scale": told["scale"].map(scale_title)})
    for what in ("accuracy", "separation", "gap"):
        spread = [f"\u00a0±\u00a0{_three(sd)}" if sd == sd else "" for sd in told[f"{what}_sd"]]
        out[what] = [_three(mean) + end for mean, end in zip(told[what], spread, strict=True)]
    many = (told["seeds"] > 1).any()
    out["between"] = [f"{_three(low)}\u00a0to\u00a0{_three(high)}" if low == low else "-" for low, high in zip(told["low"], told["high"], strict=True)]  # fmt: skip
    for what in ("published", "majority", *(f"separation_{end}" for end in ("untrained", "count", "frequent", "least", "local"))):  # fmt: skip
        if what in told and told[what].notna().any():
            out[what] = told[what].map(_three)
    out["seeds"] = told["seeds"].map(str)
    shown = {
        "model": "model", "scale": "scale", "accuracy": "accuracy", "published": "published", "majority": "commonest class", "separation": "separation", "between": "over seeds" if many else "95 %",
        "separation_untrained": "before training", "separation_count": "frequency alone", "separation_frequent": "against frequent", "separation_least": "class marked least", "separation_local": "in context", "gap": "gap, in SD", **({"seeds": "seeds"} if many else {}),
    }  # fmt: skip
    page = table_html(out, {name: title for name, title in shown.items() if name in out})
    return f'<div class="{"window worded" if len(out) > LONG else "readable"}">{page}</div>'


def _three(value: float) -> str:
    """A number to three places, no zero before the point.

    >>> _three(0.8221), _three(-0.0312), _three(2.5), _three(float("nan"))
    ('.822', '-.031', '2.500', '-')
    """
    return "-" if value != value else f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


# tokens


def _wide(frame: pd.DataFrame, columns: Sequence[tuple[int, str, str]]) -> pd.DataFrame:
    """A row for each token in a random order that is always the same, and for each (place, column, name) a column of that name; at most as many tokens as are drawn."""
    cells = chosen_cells(frame)
    rows = frame.merge(cells, on=list(CELL))
    known = rows.drop_duplicates(["token", "kind"])
    known = known.iloc[np.random.default_rng(0).permutation(len(known))[:MOST_TOKENS]]
    keys = pd.MultiIndex.from_frame(known[["token", "kind"]])
    out: dict[str, Any] = {"x": range(len(known)), "token": known["token"].to_numpy(), "kind": known["kind"].to_numpy(), "count": known["count"].to_numpy()}  # fmt: skip
    out["tied"] = _short(known["gamma"] if known["gamma"].notna().any() else known["share"])
    by_place = {int(place): part.set_index(["token", "kind"]) for place, part in rows.groupby("place")}
    for place, column, name in columns:
        out[name] = _short(by_place[place][column].reindex(keys))
    return pd.DataFrame(out)


def drawn_tokens(frame: pd.DataFrame) -> str:
    """How many tokens are drawn, if not all."""
    count = len(frame.merge(chosen_cells(frame), on=list(CELL)).drop_duplicates(["token", "kind"]))
    return f"all {count:,} tokens" if count <= MOST_TOKENS else f"{MOST_TOKENS:,} of {count:,} tokens at random"


def tokens(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figures 2 to 4 of Sun & Lu 2020: the polarity score and the attention score of every token; of a contextual encoder by itself and in context."""
    cells = chosen_cells(frame)
    local = frame.dropna(subset=["attention_local"])[list(CELL)].drop_duplicates().merge(cells, on=list(CELL))
    contextual = set(local["place"])
    entries: list[tuple[int, tuple[str, str], str]] = []  # place, how the columns of its scores end, name
    for place, cell in zip(cells["place"], cells["cell"], strict=True):
        entries.append((place, ("", "_score"), f"{cell}, a word by itself" if place in contextual else cell))
        entries += [(place, ("_local", "_local"), f"{cell}, in context")] if place in contextual else []
    data = _wide(frame, [(place, f"{score}{end}", f"{score[0]}{at}") for at, (place, ends, _) in enumerate(entries) for score, end in zip(SIDES, ends, strict=True)])  # fmt: skip
    which = "chosen" if len(entries) > 1 else "0"
    tied = "association" if frame["gamma"].notna().any() else "largest share"
    base = (
        alt.Chart(data)
        .transform_calculate(polarity=f"datum['p' + {which}]", attention=f"datum['a' + {which}]")
        .transform_filter("isValid(datum.attention)")
        .encode(
            x=alt.X("x:Q", title="token, in random order", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=5)),
            color=_kind(data),
            tooltip=[alt.Tooltip("token:N"), alt.Tooltip("kind:N"), alt.Tooltip("count:Q", format=","), alt.Tooltip("tied:Q", title=tied), alt.Tooltip("polarity:Q"), alt.Tooltip("attention:Q", title="attention score")],
        )
    )  # fmt: skip
    zero = alt.Chart(pd.DataFrame({"y": [0]})).mark_rule(color=charts.GREY, strokeWidth=1).encode(y="y:Q")
    sides = [
        alt.layer(zero, base.mark_circle(size=13 if len(data) > 500 else 30, opacity=0.7).encode(y=alt.Y(f"{what}:Q", title=title))).properties(width=460, height=300)
        for what, title in SIDES.items()
    ]  # fmt: skip
    chart: alt.HConcatChart = _choosing(alt.hconcat(*sides, spacing=26), [name for *_, name in entries], "classifier")
    return chart


def weights(frame: pd.DataFrame) -> alt.ConcatChart | None:
    """Figure 5 of Sun & Lu 2020: the mean attention weights of tokens by kind, a box for each; None if no weight is known."""
    weighed = frame.dropna(subset=["weight"])
    cells = chosen_cells(frame)
    cells = cells.merge(weighed[list(CELL)].drop_duplicates(), on=list(CELL)) if len(weighed) else cells[:0]
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
            x=alt.X("kind:N", title=None, scale=alt.Scale(domain=names), axis=alt.Axis(labelAngle=0 if max(map(len, names)) < 10 else -40, labelLimit=120)),
            y=alt.Y(f"w{place}:Q", title="mean weight on test", axis=alt.Axis(format=".6~g", tickCount=5), scale=alt.Scale(type="sqrt", domain=_around(data[f"w{place}"]))),
            color=_kind(data, legend=False),
        )
        .properties(width=wide, height=210, title=cell)
        for place, cell in zip(cells["place"], cells["cell"], strict=True)
    ]  # fmt: skip
    return alt.concat(*panels, columns=max(1, min(4, 900 // wide)), spacing=22)


def _around(values: pd.Series[float]) -> list[float]:
    """The ends of an axis for values above 0: from 0, unless they are all near the largest.

    >>> _around(pd.Series([0.1, 0.4])), _around(pd.Series([0.4, 0.4]))
    ([0.0, 0.42], [0.32, 0.42])
    """
    low, high = float(values.min()), float(values.max()) or 1.0
    return [0.0 if low < high / 2 else round(0.8 * low, 6), round(1.05 * high, 6)]


def tokens_html(frame: pd.DataFrame) -> str:
    """Of the first classifier drawn: the tokens of each kind with the largest polarity (of neutral ones, in size) and those with the highest attention score."""
    rows = frame.merge(chosen_cells(frame)[:1], on=list(CELL))
    names, _ = kinds_of(rows)
    lists = {}
    for kind in names:
        part = rows[rows["kind"] == kind]
        ranked = part["polarity"].abs() if kind == NEUTRAL else -part["polarity"] if kind == NEGATIVE and set(names) <= {POSITIVE, NEGATIVE, NEUTRAL} else part["polarity"]  # fmt: skip
        lists[f"{kind}: polarity"] = _ranked(part, ranked, "polarity")
    lists["highest attention score"] = _ranked(rows, rows["attention_score"], "attention_score", kinds=True)
    lists["lowest attention score"] = _ranked(rows, -rows["attention_score"], "attention_score", kinds=True)
    longest = max(map(len, lists.values()))
    told = pd.DataFrame({str(place): [*one, *[""] * (longest - len(one))] for place, one in enumerate(lists.values())})
    return f'<div class="spelt">{table_html(told, dict(zip(told.columns, lists, strict=True)))}</div>'


def _ranked(rows: pd.DataFrame, by: pd.Series[float], what: str, kinds: bool = False) -> list[str]:
    """The first tokens by a number, each with another."""
    first = rows.loc[by.sort_values(ascending=False, kind="stable").index[:LISTED]]
    return [f"\u2068{row['token']}\u2069{' (' + row['kind'] + ')' if kinds else ''}\u00a0{number(row[what])}" for row in first.to_dict("records")]  # fmt: skip


# along training


def flow(frame: pd.DataFrame) -> alt.VConcatChart:
    """What moves the scores of each kind of token, term by term: polarity above, attention below; on one axis, so that terms can be compared."""
    cells = chosen_cells(frame)
    rows = _epochs(frame.merge(cells, on=list(CELL)))
    data = pd.DataFrame({"place": rows["place"], "epoch": rows["epoch"], "kind": rows["kind"], "side": rows["side"], "term": rows["term"].map(term_title), "mean": _short(rows["mean"])})  # fmt: skip
    colour = _kind(data)
    wide = 900 // int(data.groupby("side")["term"].nunique().max()) - 18
    drawn = []
    for side, said in SIDES.items():
        own = data[data["side"] == side]
        if own.empty:
            continue
        order = sorted(set(own["term"]), key=lambda title: (title == TERMS["sum"], title[0], ": layer" in title))
        lines = alt.Chart().mark_line(strokeWidth=1.8, point=own["epoch"].nunique() < 8).encode(
            x=alt.X("epoch:Q", axis=alt.Axis(tickCount=3, format="d", grid=False, labelOverlap="greedy", labelSeparation=2), scale=alt.Scale(nice=False)),
            y=alt.Y("mean:Q", title=f"change of {said}", axis=alt.Axis(format=".6~g", tickCount=5)), color=colour,
            tooltip=[alt.Tooltip("term:N"), alt.Tooltip("kind:N"), alt.Tooltip("epoch:Q"), alt.Tooltip("mean:Q", title="mean change")],
        )  # fmt: skip
        zero = alt.Chart().mark_rule(color=charts.GREY, strokeWidth=1).encode(y=alt.datum(0))
        panels = alt.layer(zero, lines, data=own.drop(columns="side")).properties(width=wide, height=150)
        panels = panels.facet(facet=alt.Facet("term:N", title=None, sort=order, header=alt.Header(labelPadding=4)), columns=len(order))  # fmt: skip
        drawn.append(panels.transform_filter("datum.place == chosen") if len(cells) > 1 else panels)
    chart: alt.VConcatChart = _choosing(alt.vconcat(*drawn, spacing=14), list(cells["cell"]), "classifier")
    return chart


def term_title(term: str) -> str:
    """A term with what it goes with.

    >>> term_title("B"), term_title("F_layer"), term_title("sum")
    ('B: its part in sums', 'F: layer', 'all terms')
    """
    letter, _, layer = term.partition("_")
    return f"{letter}: {layer}" if layer else TERMS.get(term, term)


def path(frame: pd.DataFrame) -> alt.ConcatChart:
    """V·W, norms, gap, loss, accuracy on dev and separation along training, a line for each scale."""
    rows = _titled(_epochs(frame))
    models = list(dict.fromkeys(rows["model"]))
    scales = sorted(set(rows["scale"]))
    shown = {what: title for what, title in PATH.items() if rows[what].notna().any()}
    data = pd.DataFrame({"place": rows["model"].map(models.index), "epoch": rows["epoch"], "scale": rows["scale"].map(scale_title), **{what: _short(rows[what], 5) for what in shown}})  # fmt: skip
    named = [scale_title(scale) for scale in scales]
    colour = alt.Color("scale:N", title="scale", scale=alt.Scale(domain=named, range=shades(len(named))), legend=alt.Legend(orient="top", columns=10, symbolStrokeWidth=2))  # fmt: skip
    panels = []
    for what, title in shown.items():
        base = alt.Chart(data).transform_filter("datum.place == chosen") if len(models) > 1 else alt.Chart(data)
        base = base.transform_filter(f"isValid(datum.{what})")
        lines = base.mark_line(strokeWidth=1.8, point=data["epoch"].nunique() < 8).encode(
            x=alt.X("epoch:Q", axis=alt.Axis(tickCount=5, format="d", grid=False), scale=alt.Scale(nice=False, domain=[0, int(data["epoch"].max())])),
            y=alt.Y(f"{what}:Q", title=None, axis=alt.Axis(format=".6~g", tickCount=5), scale=alt.Scale(zero=False)),
            color=colour,
            tooltip=[alt.Tooltip("scale:N"), alt.Tooltip("epoch:Q"), alt.Tooltip(f"{what}:Q", title=title)],
        )  # fmt: skip
        rule = [alt.Chart(pd.DataFrame({"y": [RULES[what]]})).mark_rule(strokeDash=[4, 4], color=charts.GREY).encode(y="y:Q")] if what in RULES else []  # fmt: skip
        panels.append(alt.layer(*rule, lines).properties(width=205, height=150, title=alt.Title(title, fontSize=11, fontWeight=400)))  # fmt: skip
    chart: alt.ConcatChart = _choosing(alt.concat(*panels, columns=4, spacing=18), models, "model")
    return chart


def shades(count: int) -> list[str]:
    """So many colours from small to large.

    >>> shades(2), len(set(shades(12)))
    (['#2f6fd0', '#8457c5'], 12)
    """
    anchors = np.array([[int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in SHADES])
    places = np.linspace(0, len(SHADES) - 1, count) if count > 1 else np.zeros(1)
    mixed = np.stack([np.interp(places, np.arange(len(SHADES)), anchors[:, channel]) for channel in range(3)], axis=1)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in mixed.round().astype(int).tolist()]


def kinds(frame: pd.DataFrame) -> alt.HConcatChart:
    """Polarity and attention scores of each kind of token along training: the mean, and a band that holds the middle half."""
    cells = chosen_cells(frame)
    rows = _epochs(frame.merge(cells, on=list(CELL)))
    sides = {"polarity": ("polarity", "polarity score"), "attention_score": ("attention", "attention score")}
    numbers = [name for mean, (what, _) in sides.items() for name in (mean, f"{what}_low", f"{what}_high")]
    data = rows[["place", "epoch", "kind", "tokens"]].assign(**{name: _short(rows[name], 4) for name in numbers})
    colour = _kind(data)
    drawn = []
    for mean, (what, title) in sides.items():
        base = alt.Chart(data).transform_filter("datum.place == chosen") if len(cells) > 1 else alt.Chart(data)
        base = base.encode(
            x=alt.X("epoch:Q", axis=alt.Axis(tickCount=6, format="d", grid=False), scale=alt.Scale(nice=False)), color=colour,
            tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("epoch:Q"), alt.Tooltip("tokens:Q", format=","), alt.Tooltip(f"{mean}:Q", title=f"mean {title}"), alt.Tooltip(f"{what}_low:Q", title="first quartile"), alt.Tooltip(f"{what}_high:Q", title="third quartile")],
        )  # fmt: skip
        band = base.mark_area(opacity=0.2).encode(y=alt.Y(f"{what}_low:Q", title=title), y2=f"{what}_high:Q")
        lines = base.mark_line(strokeWidth=2, point=data["epoch"].nunique() < 8).encode(y=alt.Y(f"{mean}:Q", title=title))  # fmt: skip
        drawn.append(alt.layer(band, lines).properties(width=460, height=230))
    chart: alt.HConcatChart = _choosing(alt.hconcat(*drawn, spacing=26), list(cells["cell"]), "classifier")
    return chart
