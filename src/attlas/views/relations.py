"""Charts and tables of relations read from attention: beside every control, by direction, layer and head, and which relations are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd
from markupsafe import Markup

from attlas.support.files import write_bytes
from attlas.views import charts
from attlas.views.findings import READERS, number
from attlas.views.heads import table_html
from attlas.views.page import inline_json, templates
from attlas.views.triples import MEAN, STRONGEST, TripleText, cells, text_html, texts_of

if TYPE_CHECKING:
    from attlas.relations.extractor import RelationExtractor
    from attlas.relations.matching import Found

ATTENTION, BOTH = "attention", "attention_and_words"
PARTS = {"h": "head", "t": "tail", "r": "relation words"}
MATCHES = {
    "exact": "the same characters, the same relation",
    "published": "nearly the same strings, the same relation (as published)",
    "published_any_relation": "nearly the same strings, any relation (as published)",
}
LAYERS = {ATTENTION: "attention", "random_model": "attention, random weights", "hidden_states": "hidden states", "hidden_states_few": "hidden states, as few numbers as attention"}  # fmt: skip
LONG = 24  # rows of a table that are shown without scrolling
LEAF = 15  # pixels of a relation in the tree
MIDDLE = "#727a87"  # letters that are read on white and on black


def named(frame: pd.DataFrame, column: str = "relation", title: str = "name") -> pd.Series[str]:
    """What each relation is called, or its id."""
    return frame[title].where(frame[title].fillna("") != "", frame[column]).astype(str)


def readers(frame: pd.DataFrame) -> alt.HConcatChart:
    """Related or not, and which relation: every reader with its interval; attention in colour, controls in grey."""
    panels = {"binary_accuracy": "related or not: accuracy", "f1": "which relation: macro F1"}
    return _dots(frame, {name: title for name, title in panels.items() if name in frame})


def unseen(frame: pd.DataFrame) -> alt.HConcatChart:
    """The same on relation phrases that were not learnt from."""
    return _dots(frame, {"f1": "macro F1 on phrases that were not learnt from"})


def _dots(frame: pd.DataFrame, panels: Mapping[str, str]) -> alt.HConcatChart:
    data = frame.assign(
        name=frame["reader"].map(READERS).fillna(frame["reader"]), kind=frame["reader"].where(frame["reader"].isin([ATTENTION, BOTH]), "control")
    ).round(4)  # fmt: skip
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=[ATTENTION, BOTH, "control"], range=[charts.ACCENT, charts.SECOND, charts.GREY]))  # fmt: skip

    def side(what: str, title: str, labelled: bool) -> alt.LayerChart | alt.FacetChart:
        tooltip = [alt.Tooltip("name:N", title="reader"), *(alt.Tooltip(f"{what}{end}:Q", format=".3f", title=said) for end, said in (("", title), ("_low", "from"), ("_high", "to"), ("_ahead", "attention is ahead by"), ("_ahead_low", "ahead, from"), ("_ahead_high", "ahead, to")))]  # fmt: skip
        base = alt.Chart(data).encode(
            y=alt.Y("name:N", sort=list(data["name"]), title=None, axis=alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=320, labelPadding=8)),
            color=colour, tooltip=tooltip,
        )  # fmt: skip
        x = alt.X(f"{what}:Q", title=title, scale=alt.Scale(zero=what == "f1"))
        own = base.transform_filter("datum.reader == 'attention'").mark_rule(strokeDash=[3, 3], opacity=0.6)
        return alt.layer(
            own.encode(x=x, y=alt.value(0), y2=alt.value(28 * len(data))),
            base.mark_rule(strokeWidth=2).encode(x=alt.X(f"{what}_low:Q", title=title), x2=f"{what}_high:Q"),
            base.mark_circle(size=70, opacity=1).encode(x=x),
            base.mark_text(dy=-9, fontSize=10).encode(x=x, text=alt.Text(f"{what}:Q", format=".3f")),
        ).properties(width=320, height=28 * len(data))

    return alt.hconcat(*(side(what, title, place == 0) for place, (what, title) in enumerate(panels.items())), spacing=22)  # fmt: skip


def scores_html(frame: pd.DataFrame) -> str:
    """The readers in numbers; `ahead` is by how much attention is better."""
    rows = frame.assign(name=frame["reader"].map(READERS).fillna(frame["reader"]))
    others = rows["reader"] != ATTENTION
    for what in ("binary_accuracy", "f1"):
        rows[what] = rows[what].map(number) + rows.apply(_between(what), axis=1)
        ahead = rows[f"{what}_ahead"].map(_signed) + rows.apply(_between(f"{what}_ahead"), axis=1)
        rows[f"{what}_ahead"] = ahead.where(others, "-")
    shown = {"name": "reader", "binary_accuracy": "related or not", "binary_accuracy_ahead": "attention ahead by", "f1": "F1", "f1_ahead": "attention ahead by", "precision": "precision", "recall": "recall"}  # fmt: skip
    return _table(rows, shown)


def _between(what: str) -> Any:
    """The interval of a row; its blanks do not break."""
    return lambda row: f"\u00a0[{number(row[f'{what}_low'])},\u00a0{number(row[f'{what}_high'])}]"


def _signed(value: float) -> str:
    return ("+" if value >= 0.005 else "") + number(value)


def _whole(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Counts as they are written."""
    return frame.assign(**{name: frame[name].map(lambda count: f"{int(count):,}") for name in columns if name in frame})


def _table(frame: pd.DataFrame, columns: Mapping[str, str], worded: bool = False) -> str:
    """A table, in a window of its own if it is long; `worded` if its second column is words too."""
    kinds = ["readable", *(["window"] if len(frame) > LONG else []), *(["worded"] if worded else [])]
    return f'<div class="{" ".join(kinds)}">{table_html(frame, columns)}</div>'


def each_html(frame: pd.DataFrame) -> str:
    """A row for each relation, the best read first: attention beside random weights and the relation words."""
    rows = frame.assign(name=named(frame)).sort_values("f1", ascending=False, kind="stable")
    called = dict(zip(rows["relation"], rows["name"], strict=True))
    rows["taken"] = [f"{called.get(other, other)} ({int(count):,}\u00a0of\u00a0{int(n):,})" if count else "-" for other, count, n in zip(rows["taken_for"], rows["taken"], rows["n"], strict=True)]  # fmt: skip
    shown = {"name": "relation", "n": "triples", "precision": "precision", "recall": "recall", "f1": "F1", "f1_random_model": "F1, random weights", "f1_relation_words": "F1, relation words", "f1_word_embeddings": "F1, word vectors", "taken": "most often taken for"}  # fmt: skip
    return _table(rows, {name: title for name, title in shown.items() if name in rows})


def extraction_html(frame: pd.DataFrame) -> str:
    """Triples from plain text, by each way to compare them with the data's."""
    rows = _whole(frame.assign(match=frame["match"].map(MATCHES).fillna(frame["match"])), "predicted", "gold")
    shown = {"match": "a triple counts as found by", "precision": "precision", "recall": "recall", "f1": "F1", "macro_precision": "macro precision", "macro_recall": "macro recall", "macro_f1": "macro F1", "predicted": "found", "gold": "in the data"}  # fmt: skip
    return _table(rows, shown)


def direction_name(direction: str) -> str:
    """Who attends to whom.

    >>> direction_name("h-r")
    'head → relation words'
    """
    one, _, other = direction.partition("-")
    return f"{PARTS.get(one, one)} → {PARTS.get(other, other)}"


def directions(frame: pd.DataFrame) -> alt.HConcatChart:
    """What each direction weighs, and what it reads alone: hollow is random weights, the grey tick all others without it."""
    data = frame.assign(name=frame["direction"].map(direction_name)).round(4)
    order = list(data["name"])

    def base(labelled: bool) -> alt.Chart:
        axis = alt.Axis(labels=labelled, ticks=False, domain=False, labelLimit=260, labelPadding=8)
        return alt.Chart(data).encode(y=alt.Y("name:N", sort=order, title=None, axis=axis))

    def alone(what: str, title: str) -> alt.LayerChart | alt.FacetChart:
        tooltip = [alt.Tooltip("name:N", title="direction"), *(alt.Tooltip(f"{what}{end}:Q", format=".3f", title=said) for end, said in (("_alone", "alone"), ("_alone_random", "alone, random weights"), ("_without", "all others without it")) if f"{what}{end}" in data)]  # fmt: skip
        marks: list[alt.Chart] = []
        if f"{what}_without" in data:
            marks.append(base(False).mark_tick(color=charts.GREY, thickness=3, size=13).encode(x=alt.X(f"{what}_without:Q", title=title), tooltip=tooltip))  # fmt: skip
        marks.append(base(False).mark_point(shape="circle", filled=False, size=40, color=charts.GREY).encode(x=alt.X(f"{what}_alone_random:Q", title=title), tooltip=tooltip))  # fmt: skip
        marks.append(base(False).mark_circle(size=60, opacity=1, color=charts.ACCENT).encode(x=alt.X(f"{what}_alone:Q", title=title, scale=alt.Scale(zero=False)), tooltip=tooltip))  # fmt: skip
        return alt.layer(*marks).properties(width=190, height=26 * len(data))

    def weight(column: str, title: str, labelled: bool) -> alt.Chart:
        bars = base(labelled).mark_bar(height=13, color=charts.ACCENT, opacity=0.8)
        return bars.encode(x=alt.X(f"{column}:Q", title=title, axis=alt.Axis(tickCount=3)), tooltip=[alt.Tooltip("name:N", title="direction"), alt.Tooltip(f"{column}:Q", format=".4f", title=title)]).properties(width=150, height=26 * len(data))  # fmt: skip

    return alt.hconcat(
        weight("weight_related", "weight: related or not", True), weight("weight_named", "weight: which relation", False),
        alone("binary_accuracy", "related or not: accuracy"), alone("f1", "which relation: macro F1"), spacing=20,
    )  # fmt: skip


def layers(frame: pd.DataFrame) -> alt.Chart:
    """F1 of relations by readers of one layer: a box for each layer and what is read."""
    data = frame.assign(name=frame["reader"].map(LAYERS).fillna(frame["reader"])).round(4)
    names = [name for name in LAYERS.values() if (data["name"] == name).any()]
    colours = dict(zip(LAYERS.values(), [charts.ACCENT, charts.GREY, charts.FOR, charts.SECOND], strict=True))
    count = data["layer"].nunique() * len(names)
    return (
        alt.Chart(data)
        .mark_boxplot(size=9, opacity=0.75, outliers={"size": 10, "opacity": 0.6}, median={"stroke": "#14171c"})
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("name:N", sort=names),
            y=alt.Y("f1:Q", title="F1 of a relation", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("name:N", title=None, sort=names, scale=alt.Scale(domain=names, range=[colours[name] for name in names]), legend=alt.Legend(orient="top", labelLimit=320, columns=4)),
        )
        .properties(width=max(320, min(980, 17 * count)), height=220)
    )  # fmt: skip


def _beside_random(frame: pd.DataFrame, at: str, x: alt.X, chosen: str, drawn: str) -> alt.LayerChart | alt.FacetChart:
    """A line of F1 beside one of chance, and how far chance reaches if that is known."""
    long = pd.concat([frame.assign(what=chosen, value=frame["f1"]), frame.assign(what=drawn, value=frame["f1_random"])])
    colour = alt.Color("what:N", title=None, scale=alt.Scale(domain=[chosen, drawn], range=[charts.ACCENT, charts.GREY]), legend=alt.Legend(orient="top", labelLimit=400))  # fmt: skip
    y = alt.Y("value:Q", title="macro F1", scale=alt.Scale(zero=False))
    marks: list[alt.Chart] = []
    if "f1_random_low" in frame:
        marks.append(alt.Chart(frame.round(4)).mark_area(color=charts.GREY, opacity=0.22).encode(x=x, y=alt.Y("f1_random_low:Q", title="macro F1"), y2="f1_random_high:Q"))  # fmt: skip
    tooltip = [alt.Tooltip(f"{at}:Q"), alt.Tooltip("what:N"), alt.Tooltip("value:Q", format=".3f", title="macro F1")]
    lines = alt.Chart(long.round(4)).mark_line(point=alt.OverlayMarkDef(size=36), strokeWidth=2)
    return alt.layer(*marks, lines.encode(x=x, y=y, color=colour, tooltip=tooltip)).properties(width=460, height=210)


def path(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """F1 by how many heads are read, beside as many drawn at random."""
    ticks = alt.Axis(values=sorted(frame["heads"].unique().tolist()), format="d", labelOverlap=True)
    x = alt.X("heads:Q", title="heads that are read", scale=alt.Scale(type="log", nice=False), axis=ticks)
    return _beside_random(frame, "heads", x, "heads in the order they enter", "as many heads at random")


def merged(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """F1 by how many classes are left, beside merging at random into groups of the same sizes."""
    x = alt.X("classes:Q", title="classes that are left", scale=alt.Scale(reverse=True, nice=False, padding=8), axis=alt.Axis(values=sorted(frame["classes"].unique().tolist()), format="d"))  # fmt: skip
    return _beside_random(frame, "classes", x, "relations merged as in the tree", "merged at random")


def entered(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """A grid of heads by the order in which they enter: the first darkest, with their place."""
    data = frame.assign(place=frame["entered"] + 1, name="L" + frame["layer"].astype(str) + ".H" + frame["head"].astype(str))  # fmt: skip
    cell = max(14, min(28, 620 // (int(frame["head"].max()) + 1)))
    base = alt.Chart(data).encode(
        x=alt.X("head:O", axis=alt.Axis(orient="top", labelAngle=0), title="head"), y=alt.Y("layer:O", title="layer"), tooltip=[alt.Tooltip("name:N", title="head"), alt.Tooltip("place:Q", title="enters as number")],
    )  # fmt: skip
    grid = base.mark_rect(stroke="#c9ced6", strokeWidth=0.4).encode(
        color=alt.Color("place:Q", title="enters as number", legend=alt.Legend(gradientLength=110), scale=alt.Scale(reverse=True, interpolate="rgb", type="log"))
    )  # fmt: skip
    first = base.transform_filter("datum.place <= 16").mark_text(fontSize=10)
    numbers = first.encode(text="place:Q", color=alt.condition("datum.place <= 4", alt.value("#ffffff"), alt.value("#1d2129")))  # fmt: skip
    return alt.layer(grid, numbers).properties(
        width=cell * (int(frame["head"].max()) + 1), height=cell * (int(frame["layer"].max()) + 1)
    )


# the tree


@dataclass(frozen=True)
class Join:
    """Where a tree joins two nodes: the heights of both (leaves are 0, 1, ... from the top), how far out they and the join are, and how many relations it has."""

    node: int
    heights: tuple[float, float]
    children: tuple[float, float]
    distance: float
    size: int
    among: str  # the relations of each side, some of them


def tree(frame: pd.DataFrame) -> tuple[list[str], list[Join]]:
    """One dendrogram of `relations_tree`, laid out: leaves from top to bottom, in scipy's order (the left of each join first), and its joins."""
    count = len(frame) + 1
    sides = {int(row.node): (int(row.left), int(row.right)) for row in frame.itertuples()}
    name = {
        int(node): str(said)
        for nodes, names in (("left", "left_name"), ("right", "right_name"))
        for node, said in zip(frame[nodes], frame[names], strict=True)
        if node < count
    }
    order: list[int] = []
    ahead = [int(frame["node"].iloc[-1])]
    while ahead:
        node = ahead.pop()
        if node < count:
            order.append(node)
        else:
            ahead += reversed(sides[node])
    height = {node: float(place) for place, node in enumerate(order)}
    distance, under = dict.fromkeys(order, 0.0), {node: [name[node]] for node in order}
    joins = []
    for row in frame.itertuples():
        node, (left, right) = int(row.node), sides[int(row.node)]
        height[node], distance[node] = (height[left] + height[right]) / 2, float(row.distance)
        under[node] = under[left] + under[right]
        joins.append(Join(node, (height[left], height[right]), (distance[left], distance[right]), distance[node], int(row.size), f"{_some(under[left])} | {_some(under[right])}"))  # fmt: skip
    return [name[node] for node in order], joins


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def dendrogram(frame: pd.DataFrame) -> alt.HConcatChart:
    """The tree of relations from left to right: names in full, joins at their distance; a reader may choose the linkage."""
    options = [str(name) for name in dict.fromkeys(frame["linkage"])]
    leaves: list[dict[str, Any]] = []
    pieces: list[dict[str, Any]] = []
    for linkage in options:
        names, joins = tree(frame[frame["linkage"] == linkage])
        begin = _begin([one.distance for one in joins])
        leaves += [{"linkage": linkage, "place": place, "name": name} for place, name in enumerate(names)]
        for one in joins:
            told = {"linkage": linkage, "distance": round(one.distance, 4), "size": one.size, "among": one.among}
            pieces.append({**told, "x": one.distance, "x2": one.distance, "y": one.heights[0], "y2": one.heights[1]})
            pieces += [{**told, "x": max(child, begin), "x2": one.distance, "y": height, "y2": height} for child, height in zip(one.children, one.heights, strict=True)]  # fmt: skip
    count = max(one["place"] for one in leaves) + 1
    scale = alt.Scale(domain=[-0.5, count - 0.5], reverse=True, nice=False, zero=False)
    wide = 12 + 6.1 * max(cells(one["name"]) for one in leaves)
    chosen = alt.param(name="linkage", value=options[0], bind=alt.binding_select(options=options, name="distance "))
    names_chart = (
        alt.Chart(pd.DataFrame(leaves))
        .transform_filter("datum.linkage == linkage")
        .mark_text(align="right", baseline="middle", fontSize=11, color=MIDDLE)
        .encode(y=alt.Y("place:Q", scale=scale, axis=None), x=alt.value(wide - 4), text="name:N", tooltip=alt.value(None))
        .properties(width=wide, height=LEAF * count)
    )  # fmt: skip
    joined = (
        alt.Chart(pd.DataFrame(pieces).round(5))
        .transform_filter("datum.linkage == linkage")
        .mark_rule(strokeWidth=1.5, color=charts.ACCENT)
        .encode(
            x=alt.X("x:Q", title="distance at which they are joined", scale=alt.Scale(zero=False, nice=False)), x2="x2:Q", y=alt.Y("y:Q", scale=scale, axis=None), y2="y2:Q",
            tooltip=[alt.Tooltip("distance:Q", format=".3f"), alt.Tooltip("size:Q", title="relations"), alt.Tooltip("among:N", title="joined")],
        )
        .properties(width=max(300, 620 - int(wide) // 2), height=LEAF * count)
    )  # fmt: skip
    return alt.hconcat(names_chart, joined, spacing=2).add_params(chosen)


def _begin(distances: Sequence[float]) -> float:
    """Where the axis of a tree begins: at 0, or shortly before the first join if nothing is joined in the first half of it.

    >>> _begin([0.2, 1.0]), round(_begin([0.8, 1.0]), 6)
    (0.0, 0.76)
    """
    low, high = min(distances), max(distances)
    return 0.0 if low < high / 2 else low - 0.2 * (high - low)


def heads_html(frame: pd.DataFrame) -> str:
    """The heads that weigh most for each relation."""
    rows = frame.assign(title=named(frame), said="L" + frame["layer"].astype(str) + ".H" + frame["head"].astype(str) + " " + frame["share"].map(_percent))  # fmt: skip
    told = rows.groupby("relation", sort=False).agg({"title": "first", "said": ", ".join}).reset_index()
    return _table(told, {"title": "relation", "said": "heads, with their share of the weight"}, worded=True)


def depth_html(frame: pd.DataFrame) -> str:
    """The weight of each layer, as a table."""
    return _table(
        _whole(frame, "layer"), {"layer": "layer", "weight_related": "related or not", "weight_named": "which relation"}
    )


def _percent(share: float) -> str:
    return f"{share:.1%}"


def shared_html(frame: pd.DataFrame) -> str:
    """Pairs of relations that share the most heads."""
    rows = frame.assign(one=named(frame, "left", "left_name"), other=named(frame, "right", "right_name"), p=frame["p"].map("{:.2g}".format))  # fmt: skip
    shown = {"one": "relation", "other": "and", "shared": "heads of ten in common", "shared_uniform": "by chance", "p": "p"}  # fmt: skip
    return _table(_whole(rows, "shared"), shown, worded=True)


def likeness_line(frame: pd.DataFrame) -> str:
    """How far relations of like weights have like words, in one sentence."""
    told = [
        f"{READERS.get(str(row['reader']), str(row['reader']))} {number(row['correlation'])} (p {row['p']:.3f})"
        for row in frame.to_dict("records")
    ]
    return f"Relations that are alike by their weights and relations that are said in like words: Spearman's correlation of the distances is {', '.join(told)}; 0 is none."


# texts


def triples_html(texts: Sequence[TripleText], first: int = 1) -> str:
    """Texts with their triples, the first ones open; triples.js draws the lines."""
    return templates().get_template("triples_part.html").render(
        texts=[{"title": one.title, "begins": one.string[:110] + ("..." if len(one.string) > 110 else ""), "summary": one.summary, "html": Markup(text_html(one)), "open": place < first} for place, one in enumerate(texts)],
        judged=any(one.judged for one in texts), strongest=STRONGEST, mean=MEAN,
    )  # fmt: skip


def text_page(one: TripleText, model: str) -> str:
    """A page that needs nothing else."""
    return (
        templates()
        .get_template("triples.html")
        .render(content=Markup(triples_html([one])), data=inline_json([one.data]), model=model)
    )


def write_text_page(extractor: RelationExtractor, text: str, found: list[Found], names: dict[str, str], path: Path) -> Path:  # fmt: skip
    """Write a page of one text, or document: its phrases, the attention between them as the readers saw it, sentence by sentence, and the graph of its triples."""
    tables = _by_sentence(extractor, text, found, names)
    whole = pd.DataFrame([{"text": "", "string": text}])
    (one,) = texts_of(whole, tables["relation_triples"], tables["relation_lines"], judged=False)
    path = Path(path).expanduser()
    write_bytes(path, text_page(one, str(extractor.model_.name)).encode("utf-8", "replace"))
    return path


def _by_sentence(extractor: RelationExtractor, text: str, found: list[Found], names: dict[str, str]) -> dict[str, pd.DataFrame]:  # fmt: skip
    """Triples and lines of a text whose sentences are read one by one, as the extractor reads them."""
    from attlas.core.text import Text
    from attlas.language.sentences import sentence_spans
    from attlas.relations.examples import pictures

    cuts = list(sentence_spans(text))
    mine = [[(number, one) for number, one in enumerate(found) if start <= one.head[0] < stop] for start, stop in cuts]
    moved = [
        [
            replace(one, head=_moved(one.head, start), tail=_moved(one.tail, start), words=one.words and _moved(one.words, start))
            for _, one in group
        ]
        for (start, _), group in zip(cuts, mine, strict=True)
    ]  # fmt: skip
    texts = [Text(str(number), text[start:stop]) for number, (start, stop) in enumerate(cuts)]
    tables = pictures(
        extractor.model_, extractor.readers_.named, texts, moved, names, shown=len(texts), longest=len(text)
    )
    for name in ("relation_triples", "relation_lines"):
        rows = tables[name]
        sentence = rows["text"].astype(int)
        for column in (column for column in rows if str(column).endswith(("_start", "_stop"))):
            rows[column] = [place if place < 0 else place + cuts[at][0] for place, at in zip(rows[column], sentence, strict=True)]  # fmt: skip
        rows["triple"] = [mine[at][place][0] for place, at in zip(rows["triple"], sentence, strict=True)]
        rows["text"] = ""
    return tables


def _moved(span: tuple[int, int], start: int) -> tuple[int, int]:
    return span[0] - start, span[1] - start
