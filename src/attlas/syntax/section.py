"""What syntax heads show: which head finds which relation, in charts, numbers and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from attlas.views.charts import Estimates, with_controls
from attlas.views.findings import excluded
from attlas.views.lines import Lines
from attlas.views.numbers import decimal, estimate, finding, head_name, head_names
from attlas.views.parts import LinedSentences
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import Column, TextTable, text_table

NAMED = 3  # relations that a sentence names
TEXT = prose(__file__)["syntax"]
ALL = {"all": "all relations"}
DIRECTIONS = {"dependent->head": "dependent to head", "head->dependent": "head to dependent"}
COLUMNS = (
    Column("relation", "relation", format="words", words=ALL),
    Column("name", "head", format="words"),
    Column("direction", "attention from", format="words", words=DIRECTIONS),
    Column("accuracy", "accuracy", interval=("low", "high"), control="baseline"),
    Column("baseline", "best offset"),
    Column("offset", "offset", format="offset"),
    Column("random_accuracy", "random weights"),
    Column(
        "difference",
        "above offset",
        format="difference",
        interval=("difference_low", "difference_high"),
    ),
    Column("n", "n", format="count"),
)


def relations(frame: pd.DataFrame) -> alt.HConcatChart:
    """The best head of each relation; grey is the best fixed offset, hollow random weights."""
    data = frame.assign(
        row=frame["relation"].replace(ALL) + "  " + head_names(frame),
        panel="share of words whose syntactic head is found",
        value=frame["accuracy"],
    )
    also = "random_accuracy" if "random_accuracy" in data else None
    labels = {"row": "relation", "baseline": "best offset", "random_accuracy": "random weights"}
    what = Estimates("row", "panel", "baseline", also=also, width=420, labels=labels)
    return with_controls(data, what)


def study_lines(study: Tables) -> tuple[Lines, ...]:
    """The example sentences of a study with syntax heads."""
    arcs, words = study.table("example_arcs"), study.table("example_words")
    out = []
    for example, rows in arcs.groupby("example", sort=True):
        strings = tuple(words[words["example"] == example].sort_values("word")["string"])
        weights = np.zeros((len(strings),) * 2)
        weights[rows["query"], rows["key"]] = rows["weight"].fillna(0)
        first, gold = rows.iloc[0], rows[rows["gold"]]
        begins = " ".join(string for string in strings[:9] if not string.startswith("["))
        about = (
            f"{first['relation']}, {head_name(first)}, {first['direction'].replace('->', ' → ')}"
        )
        pairs = tuple(zip(gold["query"].tolist(), gold["key"].tolist(), strict=True))
        title = f"{about}: {begins} ..."
        out.append(Lines(title, strings, weights, pairs, about, str(first["relation"])))
    return tuple(out)


def _figures(study: Tables) -> list[Figure]:
    table, same = study.table("syntax"), study.table("syntax_published")
    if table.empty:
        return []
    out = [
        TEXT.figure("relations", relations(table), table=_table(table)),
        TEXT.figure("published", table=_table(same.drop(columns="difference"))),
    ]
    if study.has("example_arcs") and (sentences := study_lines(study)):
        out.append(TEXT.figure("examples", parts=(LinedSentences(sentences),)))
    return out


def _table(frame: pd.DataFrame) -> TextTable:
    return text_table(frame.assign(name=head_names(frame)), COLUMNS)


def _findings(study: Tables) -> list[str]:
    table = study.table("syntax")
    one = table[table["relation"] != "all"]
    above = one[one["difference_low"] > 0].sort_values("difference", ascending=False)
    below, every = one[one["difference_high"] < 0], table[table["relation"] == "all"]
    out = []
    if one["difference_low"].notna().any():
        out.append(
            f"For {len(above)} of {len(one)} relations, one head is significantly better than the "
            f"best fixed offset (95% CI of the difference excludes zero){_named(above)}."
        )
    if len(below):
        out.append(
            "The best fixed offset is significantly better than the chosen head for "
            f"{', '.join(below['relation'])}."
        )
    if every["accuracy"].notna().any():
        row = every.iloc[0]
        offset = f"best fixed offset ({int(row['offset']):+d}) {decimal(row['baseline'])}"
        claim = f"The best single head over all relations is {head_name(row)}"
        effect = estimate(row["accuracy"], row["low"], row["high"])
        out.append(finding(claim, effect, offset, n=row["n"]))
    return out + excluded(study.study_with_table("syntax").manifest)


def _named(above: pd.DataFrame) -> str:
    """The relations furthest above their offset."""
    named = [
        f"{head_name(row)} for {row['relation']} {decimal(row['accuracy'])} (offset "
        f"{decimal(row['baseline'])}{_random(row)})"
        for row in above.head(NAMED).to_dict("records")
    ]
    return f": {', '.join(named)}" if named else ""


def _random(row: Mapping[Any, Any]) -> str:
    value = row.get("random_accuracy", float("nan"))
    return "" if pd.isna(value) else f", random weights {decimal(value)}"


def _lines(study: Tables) -> list[TextTable]:
    hidden = ["direction", "difference"]
    return [_table(study.table("syntax").drop(columns=hidden))]


SECTIONS = {
    "syntax": TEXT.section(
        needs=("syntax", "syntax_heads"), figures=_figures, findings=_findings, terminal=_lines
    )
}
