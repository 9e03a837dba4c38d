"""What probes of trees show: how many syntactic heads attention finds, with every control."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from attlas.views.charts import Estimates, beside_control
from attlas.views.findings import excluded
from attlas.views.numbers import number
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.tables import TextTable, table_html, text_table

PROBES = {
    "attention": "attention",
    "attention_words": "attention and words",
    "right_branching": "the next word",
    "previous_word": "the previous word",
    "distance_words": "distances and words",
    "random_attention": "random weights: attention",
    "random_attention_words": "random weights: attention and words",
}
DECODED = {
    "best candidate": ("uas", "low", "high"),
    "best tree": ("tree_uas", "tree_low", "tree_high"),
}
COLUMNS = {
    "name": "probe",
    "uas": "UAS",
    "low": "from",
    "high": "to",
    "tree_uas": "UAS, best tree",
    "difference": "above the next word",
    "words": "words",
}
PRINTED = {
    "probe": "probe",
    "uas": "UAS",
    "low": "from",
    "high": "to",
    "tree_uas": "best tree",
    "words": "words",
}


def probes(frame: pd.DataFrame) -> alt.HConcatChart:
    """Unlabelled attachment of each probe by the best candidate and by the best tree.

    The grey tick is the next word as head.
    """
    base = float(frame[frame["probe"] == "right_branching"]["uas"].iloc[0])
    unknown = {"difference_low": float("nan"), "difference_high": float("nan")}
    parts = []
    for name, (column, low, high) in DECODED.items():
        apart: dict[str, Any] = (
            {} if column == "uas" else {"difference": frame[column] - base, **unknown}
        )
        parts.append(
            frame.assign(
                value=frame[column], low=frame[low], high=frame[high], decoding=name, **apart
            )
        )
    data = pd.concat(parts, ignore_index=True)
    data = data.assign(next_word=base, panel="unlabelled attachment", probe=_titles(data))
    return beside_control(
        data, Estimates("probe", "panel", "next_word", series="decoding", width=420)
    )


def _titles(frame: pd.DataFrame) -> pd.Series[str]:
    return frame["probe"].map(PROBES).fillna(frame["probe"])


def _figures(study: Tables) -> list[Figure]:
    table = study.table("tree")
    if not (table["probe"] == "right_branching").any():
        return []
    caption = (
        "Probes: the share of words whose head is found, punctuation left out, with 95 % intervals "
        "over sentences; the grey tick is the next word as head."
    )
    numbers = table_html(table.assign(name=_titles(table)), COLUMNS)
    return [
        Figure(caption, probes(table)),
        Figure("Probes in numbers (Table 3 of the paper).", html=numbers),
    ]


def _findings(study: Tables) -> list[str]:
    table = study.table("tree").set_index("probe")
    manifest = study.holding("tree").manifest
    if not set(PROBES) <= set(table.index) or not table["uas"].notna().any():
        return excluded(manifest)

    def told(name: str) -> str:
        row = table.loc[name]
        return f"{number(row['uas'])} [{number(row['low'])}, {number(row['high'])}]"

    return [
        f"Attention alone finds the syntactic head of {told('attention')} of "
        f"{int(table.loc['attention', 'words']):,} words; the next word as head "
        f"{number(table.loc['right_branching', 'uas'])}, random weights "
        f"{number(table.loc['random_attention', 'uas'])}",
        f"With words it finds {told('attention_words')}; words and distances without attention "
        f"{told('distance_words')}, random weights with words {told('random_attention_words')}",
        *excluded(manifest),
    ]


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("tree"), PRINTED, whole=("words",))]


SECTIONS = {
    "tree": Section(
        title="How much of the tree attention holds",
        question="How much of dependency trees does attention hold?",
        needs=("tree",),
        about=prose(__file__)["tree"],
        figures=_figures,
        findings=_findings,
        terminal=_lines,
    )
}
