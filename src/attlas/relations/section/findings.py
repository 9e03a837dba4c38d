"""What attention adds to the best control and to random weights, which may be negative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attlas.relations.section.names import ATTENTION, BOTH, READERS
from attlas.views.findings import overlap
from attlas.views.numbers import decimal, estimate, finding, interval
from attlas.views.section import Tables, largest


def relation_findings(study: Tables) -> list[str]:
    """What attention adds to every control, on unseen phrases, and from plain text."""
    about = study.study_with_table("relations").manifest["relations"]
    table = study.table("relations").set_index("reader", drop=False)
    if ATTENTION not in table.index or table["f1"].isna().all():
        return _lost(about)
    out = [_named(table, about), *_together(table, about), *_related(table)]
    if study.has("relations_unseen"):
        out += _unseen(study.table("relations_unseen").set_index("reader", drop=False))
    if study.has("relations_extraction"):
        out += _extracted(study.table("relations_extraction").set_index("match"))
    return out + _lost(about)


def first_finding(study: Tables) -> str:
    """What attention adds, in one sentence; nothing if it is not known."""
    return next(iter(relation_findings(study)), "")


def _named(table: pd.DataFrame, about: Mapping[str, Any]) -> str:
    """How well attention predicts which relation it is, compared with controls."""
    own, best = table.loc[ATTENTION], str(about["best_control"])
    controls = [_ahead(table.loc[best], best)] if best in table.index else []
    if "random_model" in table.index and best != "random_model":
        controls.append(_ahead(table.loc["random_model"], best))
    dev = " (on dev, where it was tuned: score other texts for a number to report)"
    claim = f"Relations from attention{dev if 'thresholds' in about else ''}"
    return finding(claim, f"macro F1 {interval(own, 'f1')}", *controls, n=own["cases"])


def _ahead(row: pd.Series[Any], best: str) -> str:
    """How far attention is above a control, or below it."""
    name, by = str(row["reader"]), row["f1_ahead"]
    ends = [row["f1_ahead_low"], row["f1_ahead_high"]]
    if by < 0:
        ends = [-end for end in reversed(ends)]
    significant = row["f1_ahead_low"] > 0 or row["f1_ahead_high"] < 0
    control = f"{'the best control, ' if name == best else ''}{READERS.get(name, name)}"
    return (
        f"{estimate(abs(by), *ends)} {'above' if by >= 0 else 'below'} {control} "
        f"({decimal(row['f1'])}{'' if significant else '; not significant'})"
    )


def _together(table: pd.DataFrame, about: Mapping[str, Any]) -> list[str]:
    """What attention adds to the relation words."""
    best = str(about["best_control"])
    if BOTH not in table.index or "both_f1_ahead" not in table or best not in table.index:
        return []
    row = table.loc[best]
    return [
        finding(
            "What attention and relation words together add to the best control",
            f"F1 {interval(row, 'both_f1_ahead')}",
            f"accuracy of related or not {interval(row, 'both_binary_accuracy_ahead')}",
        )
    ]


def _related(table: pd.DataFrame) -> list[str]:
    """Whether phrases are related: attention, and the best control."""
    rival = largest(table[~table.index.isin([ATTENTION, BOTH])], "binary_accuracy")
    if rival is None:
        return []
    own, name = table.loc[ATTENTION], str(rival["reader"])
    control = f"best control ({READERS.get(name, name)}) {interval(rival, 'binary_accuracy')}"
    effect = f"accuracy {interval(own, 'binary_accuracy')}"
    return [finding("Whether phrases are related, from attention", effect, control, n=own["cases"])]


def _unseen(rows: pd.DataFrame) -> list[str]:
    """The same on relation phrases that are not in the training data."""
    if ATTENTION not in rows.index:
        return []
    controls = [
        f"{READERS.get(name, name)} {decimal(row['f1'])}"
        for name, row in rows.iterrows()
        if name != ATTENTION
    ]
    best = largest(rows.drop(index=[ATTENTION, BOTH], errors="ignore"), "f1")
    if best is not None:
        controls.append(f"above the best control by {interval(best, 'f1_ahead')}")
    effect = f"F1 {interval(rows.loc[ATTENTION], 'f1')}"
    claim = "Attention on unseen relation phrases"
    return [finding(claim, effect, *controls, n=rows["cases"].iloc[0])]


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
    """What could not be used, texts on both sides, and relations without training data."""
    out, part = [], "test" if "test" in about["lost"] else "dev"
    lost = [f"{count:,} {reason}" for reason, count in about["lost"].get(part, {}).items() if count]
    if lost:
        out.append(f"Triples not scored (relations): {', '.join(lost)}.")
    out += overlap(about["texts"].get("in_both", 0), "relations", "training data")
    if never := about.get("relations_never_learnt"):
        out.append(f"Relations without training data, which cannot be predicted: {len(never):,}.")
    return out
