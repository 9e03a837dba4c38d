"""What probes of trees show: how many syntactic heads attention finds, with every control."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attlas.views.charts import Estimates, with_controls
from attlas.views.claims import Claim, paired_ends, whole
from attlas.views.numbers import decimal
from attlas.views.probes import probe_section
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import Column, TextTable, text_table
from attlas.views.vega import alt

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
# The smallest difference of interest; section.md has the reason.
UAS = 0.02
DECODED = {
    "best candidate": ("uas", "low", "high"),
    "best tree": ("tree_uas", "tree_low", "tree_high"),
}
NEXT_WORD = {"probe": "right_branching"}
COLUMNS = (
    Column("probe", "probe", format="words", words=PROBES),
    Column("uas", "UAS", kind="above", interval=("low", "high"), control_row=NEXT_WORD),
    Column("tree_uas", "UAS, best tree", kind="above", control_row=NEXT_WORD),
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


def _claims(study: Tables) -> list[Claim]:
    """Attention alone against the next word, attention and words against words and distances."""
    table = study.table("tree").set_index("probe")
    if not set(PROBES) <= set(table.index) or table["uas"].isna().any():
        return []
    alone, both = table.loc["attention"], table.loc["attention_words"]
    counts = {
        "n": alone["words"],
        "texts": whole(alone["texts"]),
        "what": "words with the right syntactic head (UAS)",
    }
    apart = study.table("tree_differences") if study.has("tree_differences") else None
    rivals = ("right_branching", "previous_word", "random_attention")
    rival = str(table.loc[list(rivals), "uas"].idxmax())
    return [
        Claim.against(
            "Attention predicts dependency trees",
            alone,
            table.loc[rival],
            f"strongest control without words ({PROBES[rival]})",
            ("uas", "low", "high"),
            paired_ends(apart, probe="attention", control=rival),
            **counts,
        ),
        Claim.against(
            "Attention improves parsing over words and distances",
            both,
            table.loc["distance_words"],
            "words and distances alone",
            ("uas", "low", "high"),
            paired_ends(apart, probe="attention_words", control="distance_words"),
            also=(
                f"random weights with words {decimal(table.loc['random_attention_words', 'uas'])}",
            ),
            **counts,
        ),
    ]


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("tree").drop(columns="difference"), COLUMNS)]


SECTIONS = {
    "tree": probe_section(
        TEXT,
        ("tree",),
        figures=_figures,
        claims=_claims,
        smallest_effect=UAS,
        terminal=_lines,
    )
}
