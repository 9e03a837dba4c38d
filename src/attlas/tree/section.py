"""What probes of trees show: how many syntactic heads attention finds, with every control."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from attlas.views.charts import Estimates, with_controls
from attlas.views.findings import excluded
from attlas.views.numbers import decimal, estimate, finding
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import Column, TextTable, text_table

TEXT = prose(__file__)["tree"]
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
COLUMNS = (
    Column("probe", "probe", format="words", words=PROBES),
    Column("uas", "UAS", interval=("low", "high")),
    Column("tree_uas", "UAS, best tree"),
    Column("difference", "above the next word", format="difference"),
    Column("words", "words", format="count"),
)


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
    names = data["probe"].map(PROBES).fillna(data["probe"])
    data = data.assign(next_word=base, panel="unlabelled attachment score", probe=names)
    return with_controls(
        data, Estimates("probe", "panel", "next_word", series="decoding", width=420)
    )


def _figures(study: Tables) -> list[Figure]:
    table = study.table("tree")
    if not (table["probe"] == "right_branching").any():
        return []
    return [TEXT.figure("probes", probes(table), table=text_table(table, COLUMNS))]


def _findings(study: Tables) -> list[str]:
    table = study.table("tree").set_index("probe")
    manifest = study.study_with_table("tree").manifest
    if not set(PROBES) <= set(table.index) or not table["uas"].notna().any():
        return excluded(manifest)

    def uas(name: str) -> str:
        row = table.loc[name]
        return estimate(row["uas"], row["low"], row["high"])

    n = table.loc["attention", "words"]
    return [
        finding(
            "Attention-only probe, UAS",
            uas("attention"),
            f"next word as head {decimal(table.loc['right_branching', 'uas'])}",
            f"random weights {decimal(table.loc['random_attention', 'uas'])}",
            n=n,
        ),
        finding(
            "Probe of attention and words, UAS",
            uas("attention_words"),
            f"words and distances without attention {uas('distance_words')}",
            f"random weights with words {uas('random_attention_words')}",
            n=n,
        ),
        *excluded(manifest),
    ]


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("tree").drop(columns="difference"), COLUMNS)]


SECTIONS = {
    "tree": TEXT.section(needs=("tree",), figures=_figures, findings=_findings, terminal=_lines)
}
