"""What syntax heads show: which head finds which relation, in charts, numbers and sentences."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from attlas.views.charts import Estimates, beside_control
from attlas.views.findings import excluded
from attlas.views.lines import Lines
from attlas.views.numbers import head_name, number
from attlas.views.parts import LinedSentences
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.tables import TextTable, table_html, text_table

NAMED = 4  # relations that a sentence names
COLUMNS = {
    "relation": "relation",
    "layer": "layer",
    "head": "head",
    "direction": "who attends",
    "accuracy": "accuracy",
    "low": "from",
    "high": "to",
    "baseline": "best offset",
    "offset": "offset",
    "random_accuracy": "random weights",
    "difference_low": "above offset, from",
    "difference_high": "to",
    "n": "n",
}
PRINTED = {
    "relation": "relation",
    "layer": "layer",
    "head": "head",
    "accuracy": "accuracy",
    "low": "from",
    "high": "to",
    "baseline": "offset",
    "offset": "",
    "random_accuracy": "random",
    "n": "n",
}


def relations(frame: pd.DataFrame) -> alt.HConcatChart:
    """The best head of each relation, the best fixed offset (grey tick), random weights (hollow)."""
    data = frame.assign(
        row=frame["relation"]
        + "  L"
        + frame["layer"].astype(str)
        + ".H"
        + frame["head"].astype(str),
        panel="share of words whose syntactic head is found",
        value=frame["accuracy"],
    )
    also = "random_accuracy" if "random_accuracy" in data else None
    return beside_control(data, Estimates("row", "panel", "baseline", also=also, width=420))


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
    best = (
        "Relations: the best head of each, chosen on other sentences, with its 95 % interval; the "
        "grey tick is the best fixed offset, the hollow dot the best head of random weights."
    )
    published = "As published: head and offset chosen on the very sentences they are scored on, which flatters."
    shown = {name: title for name, title in COLUMNS.items() if name in table}
    also = {
        name: title for name, title in COLUMNS.items() if name in same and "difference" not in name
    }
    out = [
        Figure(best, relations(table)),
        Figure("Relations in numbers (Table 1 of the paper).", html=table_html(table, shown)),
        Figure(published, html=table_html(same, also)),
    ]
    if study.has("example_arcs") and (sentences := study_lines(study)):
        caption = (
            "Examples: sentences in which a head finds its relation; hover a word to see what it "
            "attends to (Figure 5 of the paper)."
        )
        out.append(Figure(caption, parts=(LinedSentences(sentences),)))
    return out


def _findings(study: Tables) -> list[str]:
    table = study.table("syntax")
    one = table[table["relation"] != "all"]
    above = one[one["difference_low"] > 0].sort_values("difference", ascending=False)
    behind, every = one[one["difference_high"] < 0], table[table["relation"] == "all"]
    out = []
    if one["difference_low"].notna().any():
        out.append(
            f"{len(above)} of {len(one)} relations have a head that beats the best fixed offset with "
            f"an interval that excludes it{_named(above)}"
        )
    if len(behind):
        out.append(
            f"For {', '.join(behind['relation'])} the best offset beats the head that was chosen"
        )
    if every["accuracy"].notna().any():
        row = every.iloc[0]
        out.append(
            f"Over all relations the best single head is {head_name(row)}: {number(row['accuracy'])} "
            f"of {int(row['n']):,} words (offset {int(row['offset']):+d} {number(row['baseline'])})"
        )
    return out + excluded(study.holding("syntax").manifest)


def _named(above: pd.DataFrame) -> str:
    """The relations furthest above their offset."""
    named = [
        f"{row['relation']} {number(row['accuracy'])} by {head_name(row)} (offset "
        f"{number(row['baseline'])}, random weights {number(row.get('random_accuracy', float('nan')))})"
        for row in above.head(NAMED).to_dict("records")
    ]
    return f": {', '.join(named)}" if named else ""


def _lines(study: Tables) -> list[TextTable]:
    table = study.table("syntax")
    shown = {name: title for name, title in PRINTED.items() if name in table}
    return [text_table(table, shown, whole=("layer", "head", "n"), signed=("offset",))]


SECTIONS = {
    "syntax": Section(
        title="Which relations heads find",
        question="Which relations do heads find?",
        needs=("syntax", "syntax_heads"),
        about=prose(__file__)["syntax"],
        figures=_figures,
        findings=_findings,
        terminal=_lines,
    )
}
