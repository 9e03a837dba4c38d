"""Charts of what heads look at: profiles by layer, the map of heads, relations, coreference and probes beside their baselines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

import altair as alt
import pandas as pd

from attlas.syntax.examples import telling
from attlas.views import charts
from attlas.views.findings import number

COLOURS = ["#2b5fa8", "#d08a2e", "#008562", "#b13f76", "#6b4fa1", "#7a9e1f", "#3aa6b9", "#a0522d", "#cd5400", "#5c6b2f", "#1f2a44", "#c9a227"]  # fmt: skip
NAMES = {"cls": "[CLS]", "sep": "[SEP]", "punctuation": ". or ,", "sep_from_sep": "[SEP] → [SEP]", "sep_from_rest": "others → [SEP]", "self": "itself", "previous": "previous token", "next": "next token", "other": "other tokens", "entropy": "all tokens", "cls_entropy": "from [CLS]"}  # fmt: skip
SURFACE = (("cls", "sep", "punctuation"), ("sep_from_sep", "sep_from_rest"), ("self", "previous", "next"))
FEW = 3  # heads that do the same and are named on the map
WHOLE = ("layer", "head", "offset", "n", "words")  # columns of whole numbers
PROBES = {
    "attention": "attention",
    "attention_words": "attention and words",
    "right_branching": "the next word",
    "previous_word": "the previous word",
    "distance_words": "distances and words",
    "random_attention": "random weights: attention",
    "random_attention_words": "random weights: attention and words",
}
WHO = {"head": "best head (chosen on train)", "head_by_kind": "best head for the kind", "head_back": "best head, antecedent to mention", "random": "random weights, best head", "nearest": "nearest mention", "head_match": "same head word", "rules": "rules"}  # fmt: skip


def by_layer(
    frame: pd.DataFrame, panels: Sequence[Sequence[str]], title: str, control: str = "_uniform"
) -> alt.HConcatChart:
    """A dot for each head and a line for the mean of each layer, a colour for each column; the dashed line is what uniform attention would give."""
    drawn = []
    for columns in panels:
        shown = [column for column in columns if column in frame and frame[column].notna().any()]
        if not shown:
            continue
        parts = [
            pd.DataFrame({"layer": frame["layer"], "head": frame["head"], "what": NAMES.get(column, column), "value": frame[column], "uniform": frame.get(f"{column}{control}")})
            for column in shown
        ]  # fmt: skip
        rows = pd.concat(parts, ignore_index=True)
        mean = rows.groupby(["what", "layer"], as_index=False, sort=False)[["value", "uniform"]].mean()
        names = [NAMES.get(column, column) for column in shown]
        colour = alt.Color("what:N", title=None, scale=alt.Scale(domain=names, range=COLOURS[: len(names)]), legend=alt.Legend(orient="top", columns=3))  # fmt: skip
        x = alt.X("layer:O", axis=alt.Axis(labelAngle=0), title="layer")
        dots = alt.Chart(rows).mark_circle(size=16, opacity=0.45).encode(
            x=x, y=alt.Y("value:Q", title=title), color=colour, tooltip=["layer", "head", "what", alt.Tooltip("value:Q", format=".4g"), alt.Tooltip("uniform:Q", format=".4g")],
        )  # fmt: skip
        base = alt.Chart(mean).encode(x=x, color=colour)
        lines = base.mark_line(strokeWidth=2.2).encode(y=alt.Y("value:Q", title=title))
        even = base.mark_line(strokeDash=[4, 4], strokeWidth=1.2, opacity=0.8).encode(y=alt.Y("uniform:Q", title=title))
        drawn.append(alt.layer(even, dots, lines).properties(width=270, height=190))
    return alt.hconcat(*drawn, spacing=26).resolve_scale(color="independent", y="independent")


def surface_by_layer(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 2 of Clark et al. 2019: where the heads of each layer look."""
    return by_layer(frame, SURFACE, "mean share of a row")


def entropy_by_layer(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 4 of Clark et al. 2019: how broad the heads of each layer are."""
    return by_layer(frame, (("entropy",), ("cls_entropy",)), "entropy in nats")


def gradient_by_layer(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 3 of Clark et al. 2019: how much the loss depends on attention to each sort of token."""
    return by_layer(frame, (("sep", "cls", "punctuation", "other"),), "mean |d loss / d weight|", "_all")


def map_of_heads(frame: pd.DataFrame) -> alt.HConcatChart:
    """Figure 6 of Clark et al. 2019: heads that attend alike lie near one another; coloured by what they do, by layer, and by hierarchical cluster."""
    data = frame.assign(
        name="L" + frame["layer"].astype(str) + ".H" + frame["head"].astype(str),
        behaviour=frame["behaviour"].replace("", "not known"),
    ).round(4)
    tooltip = [alt.Tooltip("name:N"), alt.Tooltip("behaviour:N"), alt.Tooltip("cluster:O"), *([alt.Tooltip("nearest:N")] if "nearest" in frame else []), alt.Tooltip("mean_uniform:Q", format=".3f", title="divergence from even attention")]  # fmt: skip
    middle = (data[["x", "y"]].max() + data[["x", "y"]].min()) / 2
    half = float((data[["x", "y"]].max() - data[["x", "y"]].min()).max()) * 0.55 or 1.0
    often = data["behaviour"].value_counts()
    data["label"] = data["name"].where(data["behaviour"].map(often) <= FEW, "")
    base = alt.Chart(data).encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[middle["x"] - half, middle["x"] + half])),
        y=alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[middle["y"] - half, middle["y"] + half])),
        tooltip=tooltip,
    )
    kinds = sorted(set(data["behaviour"]), key=lambda name: (name in ("other", "not known"), name))
    greyed = [charts.GREY if name in ("other", "not known") else COLOURS[place % len(COLOURS)] for place, name in enumerate(kinds)]  # fmt: skip
    dots = base.mark_point(filled=True, size=75, opacity=0.85)
    behaviour = dots.encode(color=alt.Color("behaviour:N", title="what it does", scale=alt.Scale(domain=kinds, range=greyed)))  # fmt: skip
    named = base.mark_text(dy=-9, fontSize=8.5, color=charts.GREY).encode(text="label:N")
    layer = dots.encode(color=alt.Color("layer:O", title="layer", scale=alt.Scale(scheme="viridis")))
    cluster = dots.encode(color=alt.Color("cluster:N", title="cluster", scale=alt.Scale(range=COLOURS)))
    panels = {"by what they do": alt.layer(behaviour, named), "by layer": layer, "by cluster": cluster}
    drawn = [panel.properties(width=330, height=330, title=title) for title, panel in panels.items()]
    return alt.hconcat(*drawn, spacing=18).resolve_scale(color="independent")


def named_by(relations: Iterable[str]) -> str:
    """What a head is called that finds these: the first of them, and whether there are more.

    >>> named_by(["det", "case", "nsubj", "cop"])
    'det, case, nsubj, ...'
    """
    names = list(dict.fromkeys(relations))
    return ", ".join([*names[:FEW], *(["..."] if len(names) > FEW else [])])


def with_relations(places: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The map with heads named by the relations they find, where their interval excludes the best offset: from the table `syntax`."""
    names = telling(found, len(found)).groupby(["layer", "head"])["relation"].agg(named_by)
    keys = pd.MultiIndex.from_frame(places[["layer", "head"]])
    named = names.reindex(keys).to_numpy()
    return places.assign(behaviour=places["behaviour"].where(pd.isna(named), named))


def with_neighbours(places: pd.DataFrame, near: pd.DataFrame) -> pd.DataFrame:
    """The map with the nearest heads of each, from the table `head_neighbours`; a model of one head has none."""
    if near.empty:
        return places
    names = (
        "L" + near["other_layer"].astype(str) + ".H" + near["other_head"].astype(str) + " " + near["mean"].map(number)
    )
    told = near.assign(nearest=names).groupby(["layer", "head"])["nearest"].agg(", ".join)
    return places.join(told, on=["layer", "head"])


def distance_matrix(distances: pd.DataFrame, places: pd.DataFrame) -> alt.Chart:
    """All divergences between heads, heads in the order of the hierarchical clusters."""
    order = places.set_index(["layer", "head"])["order"]
    names = [
        pd.MultiIndex.from_frame(distances[columns]) for columns in (["layer", "head"], ["other_layer", "other_head"])
    ]
    data = pd.DataFrame({
        "row": order.loc[names[0]].to_numpy(), "column": order.loc[names[1]].to_numpy(), "mean": distances["mean"].round(3),
        "one": "L" + distances["layer"].astype(str) + ".H" + distances["head"].astype(str), "other": "L" + distances["other_layer"].astype(str) + ".H" + distances["other_head"].astype(str),
    })  # fmt: skip
    cell = max(2, min(7, 520 // max(1, len(places))))
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color("mean:Q", title="divergence", scale=alt.Scale(interpolate="rgb", reverse=True)),
            tooltip=["one", "other", "mean"],
        )
        .properties(width=cell * len(places), height=cell * len(places))
    )


def relations(frame: pd.DataFrame) -> alt.HConcatChart:
    """The best head of each relation beside the best fixed offset (grey tick) and random weights (hollow)."""
    data = frame.assign(
        row=frame["relation"] + "  L" + frame["layer"].astype(str) + ".H" + frame["head"].astype(str),
        panel="share of words whose syntactic head is found",
        value=frame["accuracy"],
    )
    return charts.beside_control(
        data, "row", "panel", "baseline", width=420, also="random_accuracy" if "random_accuracy" in data else None
    )


def coreference(frame: pd.DataFrame) -> alt.HConcatChart:
    """Heads and baselines by kind of mention; the grey tick is what rules reach."""
    rules = frame[frame["who"] == "rules"].set_index("kind")["accuracy"]
    data = frame.assign(value=frame["accuracy"], rules=frame["kind"].map(rules), who=frame["who"].map(WHO))
    return charts.beside_control(data, "who", "kind", "rules", width=180)


def probes(frame: pd.DataFrame) -> alt.HConcatChart:
    """Unlabelled attachment of each probe by the best candidate and by the best tree; the grey tick is the next word as head."""
    base = float(frame[frame["probe"] == "right_branching"]["uas"].iloc[0])
    parts = [
        frame.assign(
            value=frame[column],
            low=frame[low],
            high=frame[high],
            decoding=name,
            **({} if column == "uas" else {"difference": frame[column] - base, "difference_low": float("nan"), "difference_high": float("nan")}),
        )
        for name, column, low, high in (("best candidate", "uas", "low", "high"), ("best tree", "tree_uas", "tree_low", "tree_high"))
    ]  # fmt: skip
    data = pd.concat(parts, ignore_index=True)
    data = data.assign(next_word=base, panel="unlabelled attachment", probe=data["probe"].map(PROBES))
    return charts.beside_control(data, "probe", "panel", "next_word", "decoding", width=420)


def table_html(frame: pd.DataFrame, columns: Mapping[str, str]) -> str:
    """Some columns of a table as HTML, under these titles; numbers in the short form, whole ones as they are."""
    head = "".join(f"<th>{escape(title)}</th>" for title in columns.values())
    rows = []
    for row in frame.to_dict("records"):
        cells = []
        for name in columns:
            value = row[name]
            text = value if isinstance(value, str) else "-" if value != value or value is None else f"{int(value):,}" if name in WHOLE else number(float(value))  # fmt: skip
            cells.append(f"<td>{escape(text)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table class="lists"><tr>{head}</tr>{"".join(rows)}</table>'
