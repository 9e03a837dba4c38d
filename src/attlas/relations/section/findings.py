"""What attention adds to the best control and to random weights, which may be negative."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from attlas.relations.section.names import ATTENTION, BOTH, READERS
from attlas.views.claims import Claim, whole
from attlas.views.findings import overlap
from attlas.views.numbers import decimal, finding
from attlas.views.section import Tables, largest


def relation_claims(study: Tables) -> list[Claim]:
    """What attention reaches and adds, against the best control; also on unseen phrases."""
    table = study.table("relations").set_index("reader", drop=False)
    best = str(study.study_with_table("relations").manifest["relations"]["best_control"])
    if ATTENTION not in table.index or table["f1"].isna().all() or best not in table.index:
        return []
    words = "Attention predicts which relation two phrases have"
    out = [_claim(words, table, ATTENTION, best, "f1", "f1_ahead")]
    if BOTH in table.index and "both_f1_ahead" in table:
        words = "Attention and relation words together predict relations"
        out.append(_claim(words, table, BOTH, best, "f1", "both_f1_ahead"))
    rival = largest(table[~table.index.isin([ATTENTION, BOTH])], "binary_accuracy")
    if rival is not None:
        words, name = "Attention predicts whether two phrases are related", str(rival["reader"])
        what = "binary_accuracy"
        out.append(_claim(words, table, ATTENTION, name, what, "binary_accuracy_ahead"))
    if study.has("relations_unseen"):
        out += _unseen(study.table("relations_unseen").set_index("reader", drop=False))
    return out


WHAT = {"f1": "macro F1", "binary_accuracy": "accuracy"}


def _claim(words: str, table: pd.DataFrame, own: str, rival: str, what: str, ahead: str) -> Claim:
    """One row against another, whose distance the rival's row has."""
    row, other = table.loc[own], table.loc[rival]
    random = table.loc["random_model", what] if "random_model" in table.index else math.nan
    also = (
        () if rival == "random_model" or pd.isna(random) else (f"random weights {decimal(random)}",)
    )
    return Claim(
        words,
        float(row[what]),
        float(row[f"{what}_low"]),
        float(row[f"{what}_high"]),
        float(other[what]),
        f"best control ({READERS.get(rival, rival)})",
        float(other[f"{ahead}_low"]),
        float(other[f"{ahead}_high"]),
        whole(row.get("texts")),
        n=row["cases"],
        what=WHAT[what],
        also=also,
    )


def _unseen(rows: pd.DataFrame) -> list[Claim]:
    """The same on relation phrases that are not in the training data."""
    best = largest(rows.drop(index=[ATTENTION, BOTH], errors="ignore"), "f1")
    if ATTENTION not in rows.index or best is None or pd.isna(rows.loc[ATTENTION, "f1"]):
        return []
    words = "Attention predicts relations of unseen phrases"
    return [_claim(words, rows, ATTENTION, str(best["reader"]), "f1", "f1_ahead")]


def path_at_chance(study: Tables) -> bool:
    """Whether any number of chosen heads is within the range of as many random ones."""
    table = study.table("relations_path")
    high = table["f1_random_high" if "f1_random_high" in table else "f1_random"]
    return bool(len(table)) and bool((table["f1"] <= high).all())


def directions_at_chance(study: Tables) -> bool:
    """Whether no direction alone does better than with random weights."""
    table = study.table("relations_directions")
    pairs = [
        (table[f"{what}_alone"], table[f"{what}_alone_random"])
        for what in ("binary_accuracy", "f1")
        if f"{what}_alone_random" in table
    ]
    return bool(len(table)) and all((own <= random).all() for own, random in pairs)


def relation_texts(study: Tables) -> dict[str, float]:
    """How many texts classifiers were scored on."""
    table = study.table("relations")
    known = table["texts"].dropna() if "texts" in table else table.index[:0]
    return {"test texts": float(known.max())} if len(known) else {}


def relation_warnings(study: Tables) -> list[str]:
    """Scores on the texts that the extractor was tuned on, and texts on both sides."""
    about = study.study_with_table("relations").manifest["relations"]
    out = []
    if "thresholds" in about:
        out.append(
            "Relations: these are dev scores, on texts used for tuning; before you report a "
            "number, score the extractor on other texts (attlas relations score)."
        )
    return out + overlap(about["texts"].get("in_both", 0), "Relations", "training data")


def relation_notes(study: Tables) -> list[str]:
    """Triples of plain text, what could not be used, and relations without training data."""
    about = study.study_with_table("relations").manifest["relations"]
    out: list[str] = []
    if study.has("relations_extraction"):
        out += _extracted(study.table("relations_extraction").set_index("match"))
    return out + _lost(about)


def _extracted(by: pd.DataFrame) -> list[str]:
    """How many triples of plain text are right."""
    if not {"exact", "published"} <= set(by.index):
        return []
    exact, published = by.loc["exact"], by.loc["published"]
    return [
        finding(
            "Triples from plain text",
            f"precision {decimal(exact['precision'])}",
            f"recall {decimal(exact['recall'])}",
            f"F1 {decimal(exact['f1'])}",
            f"F1 by the published comparison {decimal(published['f1'])}",
        )
    ]


def _lost(about: Mapping[str, Any]) -> list[str]:
    """What could not be used, and relations without training data."""
    out, part = [], "test" if "test" in about["lost"] else "dev"
    lost = [f"{count:,} {reason}" for reason, count in about["lost"].get(part, {}).items() if count]
    if lost:
        out.append(f"Triples not scored: {', '.join(lost)}.")
    if never := about.get("relations_never_learnt"):
        out.append(f"Relations without training data, which cannot be predicted: {len(never):,}.")
    return out
