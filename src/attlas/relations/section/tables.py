"""Relations in numbers: the columns of each table, and what is joined for them."""

from __future__ import annotations

import pandas as pd

from attlas.relations.section.names import ATTENTION, READERS, named
from attlas.views.numbers import decimal, head_names, percent
from attlas.views.tables import Column, TextTable, text_table

MATCHES = {
    "exact": "same characters, same relation",
    "published": "nearly the same strings, same relation (as published)",
    "published_any_relation": "nearly the same strings, any relation (as published)",
}


def _score(name: str, label: str) -> Column:
    return Column(name, label, interval=(f"{name}_low", f"{name}_high"))


def _ahead(name: str) -> Column:
    ends = (f"{name}_low", f"{name}_high")
    return Column(name, "attention minus control", format="difference", interval=ends)


READER = Column("reader", "classifier", format="words", words=READERS)
SCORES = (
    READER,
    _score("binary_accuracy", "related or not"),
    _ahead("binary_accuracy_ahead"),
    _score("f1", "F1"),
    _ahead("f1_ahead"),
    Column("precision", "precision"),
    Column("recall", "recall"),
)
PRINTED = (
    READER,
    Column("binary_accuracy", "related?"),
    _score("f1", "F1"),
    Column("f1_ahead", "attention minus control", format="difference"),
    Column("cases", "n", format="count"),
)
EACH = (
    Column("name", "relation", format="words"),
    Column("n", "n", format="count"),
    Column("precision", "precision"),
    Column("recall", "recall"),
    Column("f1", "F1"),
    Column("f1_random_model", "F1, random weights"),
    Column("f1_relation_words", "F1, relation words"),
    Column("f1_word_embeddings", "F1, word vectors"),
    Column("taken", "most often confused with", format="words"),
)
EXTRACTION = (
    Column("match", "a predicted triple counts if it has the", format="words", words=MATCHES),
    Column("precision", "precision"),
    Column("recall", "recall"),
    Column("f1", "F1"),
    Column("macro_precision", "macro precision"),
    Column("macro_recall", "macro recall"),
    Column("macro_f1", "macro F1"),
    Column("predicted", "predicted", format="count"),
    Column("gold", "in the data", format="count"),
)
HEADS = (
    Column("title", "relation", format="words"),
    Column("heads", "heads, with their share of the weight", format="words"),
)
DEPTH = (
    Column("layer", "layer", format="count"),
    Column("weight_related", "weight, related or not"),
    Column("weight_named", "weight, which relation"),
)
SHARED = (
    Column("one", "relation", format="words"),
    Column("other", "and", format="words"),
    Column("shared", "heads of ten in common", format="count"),
    Column("shared_uniform", "expected by chance"),
    Column("p", "p", format="p"),
)


def scores_table(frame: pd.DataFrame) -> TextTable:
    """All classifiers; how far attention is ahead of each of the others."""
    ahead = [name for name in frame.columns if str(name).endswith("_ahead")]
    others = {name: frame[name].where(frame["reader"] != ATTENTION) for name in ahead}
    return text_table(frame.assign(**others), SCORES)


def each_table(frame: pd.DataFrame) -> TextTable:
    """A row for each relation, the highest F1 first."""
    rows = frame.assign(name=named(frame)).sort_values("f1", ascending=False, kind="stable")
    names = dict(zip(rows["relation"], rows["name"], strict=True))
    rows["taken"] = [
        f"{names.get(other, other)} ({int(count):,}\u00a0of\u00a0{int(n):,})" if count else "-"
        for other, count, n in zip(rows["taken_for"], rows["taken"], rows["n"], strict=True)
    ]
    return text_table(rows, EACH)


def heads_table(frame: pd.DataFrame) -> TextTable:
    """The heads with the largest weight for each relation."""
    heads = head_names(frame) + " " + frame["share"].map(lambda share: percent(share, 1))
    rows = frame.assign(title=named(frame), heads=heads)
    joined = rows.groupby("relation", sort=False).agg({"title": "first", "heads": ", ".join})
    return text_table(joined.reset_index(), HEADS)


def shared_table(frame: pd.DataFrame) -> TextTable:
    """Pairs of relations that share the most heads."""
    one, other = named(frame, "left", "left_name"), named(frame, "right", "right_name")
    return text_table(frame.assign(one=one, other=other), SHARED)


def correlations(frame: pd.DataFrame) -> str:
    """How far relations with similar weights have similar words, by classifier."""
    return ", ".join(
        f"{READERS.get(row['reader'], row['reader'])} {decimal(row['correlation'])} "
        f"(p = {decimal(row['p'], 3)})"
        for row in frame.to_dict("records")
    )
