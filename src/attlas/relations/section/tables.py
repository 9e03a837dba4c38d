"""Relations in numbers: readers, relations, directions and heads as tables of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from attlas.relations.section.names import ATTENTION, READERS, named, reader_names
from attlas.views.numbers import number
from attlas.views.tables import table_html

MATCHES = {
    "exact": "the same characters, the same relation",
    "published": "nearly the same strings, the same relation (as published)",
    "published_any_relation": "nearly the same strings, any relation (as published)",
}
LONG = 24  # rows of a table that are shown without scrolling


def scores_html(frame: pd.DataFrame) -> str:
    """The readers in numbers; `ahead` is by how much attention is better."""
    rows = frame.assign(name=reader_names(frame))
    others = rows["reader"] != ATTENTION
    for what in ("binary_accuracy", "f1"):
        rows[what] = rows[what].map(number) + rows.apply(_between(what), axis=1)
        ahead = rows[f"{what}_ahead"].map(_signed) + rows.apply(_between(f"{what}_ahead"), axis=1)
        rows[f"{what}_ahead"] = ahead.where(others, "-")
    shown = {
        "name": "reader",
        "binary_accuracy": "related or not",
        "binary_accuracy_ahead": "attention ahead by",
        "f1": "F1",
        "f1_ahead": "attention ahead by",
        "precision": "precision",
        "recall": "recall",
    }
    return _table(rows, shown)


def _between(what: str) -> Callable[[Mapping[str, Any]], str]:
    """The interval of a row; its blanks do not break."""
    return lambda row: f"\u00a0[{number(row[f'{what}_low'])},\u00a0{number(row[f'{what}_high'])}]"


def _signed(value: float) -> str:
    return ("+" if value >= 0.005 else "") + number(value)


def _whole(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Counts as they are written."""
    return frame.assign(
        **{
            name: frame[name].map(lambda count: f"{int(count):,}")
            for name in columns
            if name in frame
        }
    )


def _table(frame: pd.DataFrame, columns: Mapping[str, str], worded: bool = False) -> str:
    """A table, in a window of its own if it is long; `worded` if its second column is words too."""
    kinds = [
        "readable",
        *(["window"] if len(frame) > LONG else []),
        *(["worded"] if worded else []),
    ]
    return f'<div class="{" ".join(kinds)}">{table_html(frame, columns)}</div>'


def each_html(frame: pd.DataFrame) -> str:
    """A row for each relation, the best read first, with random weights and relation words."""
    rows = frame.assign(name=named(frame)).sort_values("f1", ascending=False, kind="stable")
    called = dict(zip(rows["relation"], rows["name"], strict=True))
    rows["taken"] = [
        f"{called.get(other, other)} ({int(count):,}\u00a0of\u00a0{int(n):,})" if count else "-"
        for other, count, n in zip(rows["taken_for"], rows["taken"], rows["n"], strict=True)
    ]
    shown = {
        "name": "relation",
        "n": "triples",
        "precision": "precision",
        "recall": "recall",
        "f1": "F1",
        "f1_random_model": "F1, random weights",
        "f1_relation_words": "F1, relation words",
        "f1_word_embeddings": "F1, word vectors",
        "taken": "most often taken for",
    }
    return _table(rows, {name: title for name, title in shown.items() if name in rows})


def extraction_html(frame: pd.DataFrame) -> str:
    """Triples from plain text, by each way to compare them with the data's."""
    rows = _whole(
        frame.assign(match=frame["match"].map(MATCHES).fillna(frame["match"])), "predicted", "gold"
    )
    shown = {
        "match": "a triple counts as found by",
        "precision": "precision",
        "recall": "recall",
        "f1": "F1",
        "macro_precision": "macro precision",
        "macro_recall": "macro recall",
        "macro_f1": "macro F1",
        "predicted": "found",
        "gold": "in the data",
    }
    return _table(rows, shown)


def heads_html(frame: pd.DataFrame) -> str:
    """The heads that weigh most for each relation."""
    heads = "L" + frame["layer"].astype(str) + ".H" + frame["head"].astype(str)
    rows = frame.assign(title=named(frame), heads=heads + " " + frame["share"].map("{:.1%}".format))
    joined = rows.groupby("relation", sort=False).agg({"title": "first", "heads": ", ".join})
    shown = {"title": "relation", "heads": "heads, with their share of the weight"}
    return _table(joined.reset_index(), shown, worded=True)


def depth_html(frame: pd.DataFrame) -> str:
    """The weight of each layer, as a table."""
    return _table(
        _whole(frame, "layer"),
        {"layer": "layer", "weight_related": "related or not", "weight_named": "which relation"},
    )


def shared_html(frame: pd.DataFrame) -> str:
    """Pairs of relations that share the most heads."""
    rows = frame.assign(
        one=named(frame, "left", "left_name"),
        other=named(frame, "right", "right_name"),
        p=frame["p"].map("{:.2g}".format),
    )
    shown = {
        "one": "relation",
        "other": "and",
        "shared": "heads of ten in common",
        "shared_uniform": "by chance",
        "p": "p",
    }
    return _table(_whole(rows, "shared"), shown, worded=True)


def likeness_line(frame: pd.DataFrame) -> str:
    """How far relations of like weights have like words, in one sentence."""
    by_reader = [
        f"{READERS.get(row['reader'], row['reader'])} {number(row['correlation'])} "
        f"(p {row['p']:.3f})"
        for row in frame.to_dict("records")
    ]
    return (
        "Relations that are alike by their weights and relations that are said in like words: "
        f"Spearman's correlation of the distances is {', '.join(by_reader)}; 0 is none."
    )
