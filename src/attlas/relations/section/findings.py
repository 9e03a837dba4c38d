"""What attention adds over the best control and over random weights, below nothing if so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attlas.relations.section.names import ATTENTION, BOTH, READERS
from attlas.views.numbers import interval, number
from attlas.views.section import Tables, largest


def relation_findings(study: Tables) -> list[str]:
    """What attention adds to every control, on phrases not learned from, and from plain text."""
    about = study.holding("relations").manifest["relations"]
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
    """How well attention says which relation it is, and how far it is ahead of controls."""
    own, best = table.loc[ATTENTION], str(about["best_control"])
    beside = [_ahead(table.loc[best], best)] if best in table.index else []
    if "random_model" in table.index and best != "random_model":
        beside.append(_ahead(table.loc["random_model"], best))
    tuned = " (of the texts that it was tuned on: score other texts for a number to report)"
    where = tuned if "thresholds" in about else ""
    return (
        f"Attention names the relation of {int(own['cases']):,} triples{where} with macro F1 "
        f"{interval(own, 'f1')}: {', and '.join(beside)}"
    )


def _ahead(row: pd.Series[Any], best: str) -> str:
    """By how much attention is ahead of a control, or behind it."""
    name, by = str(row["reader"]), row["f1_ahead"]
    ends = [row["f1_ahead_low"], row["f1_ahead_high"]]
    if by < 0:
        ends = [-end for end in reversed(ends)]
    sure = row["f1_ahead_low"] > 0 or row["f1_ahead_high"] < 0
    called = f"{'the best control, ' if name == best else ''}{READERS.get(name, name)}"
    return (
        f"{'ahead of' if by >= 0 else 'behind'} {called} ({number(row['f1'])}), by "
        f"{number(abs(by))} [{', '.join(map(number, ends))}]"
        f"{'' if sure else ', an interval with 0 in it'}"
    )


def _together(table: pd.DataFrame, about: Mapping[str, Any]) -> list[str]:
    """What attention adds to the relation words."""
    best = str(about["best_control"])
    if BOTH not in table.index or "both_f1_ahead" not in table or best not in table.index:
        return []
    row = table.loc[best]
    return [
        "Attention and the relation words together are ahead of the best control by "
        f"{interval(row, 'both_f1_ahead')} in F1, and in telling related phrases by "
        f"{interval(row, 'both_binary_accuracy_ahead')}"
    ]


def _related(table: pd.DataFrame) -> list[str]:
    """Whether phrases are related: attention, and the best control."""
    rival = largest(table[~table.index.isin([ATTENTION, BOTH])], "binary_accuracy")
    if rival is None:
        return []
    own, name = table.loc[ATTENTION], str(rival["reader"])
    return [
        "Attention tells related phrases from others with accuracy "
        f"{interval(own, 'binary_accuracy')}, {READERS.get(name, name)} with "
        f"{interval(rival, 'binary_accuracy')}, the best control"
    ]


def _unseen(rows: pd.DataFrame) -> list[str]:
    """The same on relation phrases that were not learned from."""
    if ATTENTION not in rows.index:
        return []
    others = ", ".join(
        f"{READERS.get(name, name)} {number(row['f1'])}"
        for name, row in rows.iterrows()
        if name != ATTENTION
    )
    best = largest(rows.drop(index=[ATTENTION, BOTH], errors="ignore"), "f1")
    if best is not None:
        ahead = interval(best, "f1_ahead")
        others += f"; it is ahead of the best of these controls by {ahead}"
    cases, own = int(rows["cases"].iloc[0]), interval(rows.loc[ATTENTION], "f1")
    return [
        f"On relation phrases that were not learnt from ({cases:,} triples) attention reaches F1 "
        f"{own}; {others}"
    ]


def _extracted(by: pd.DataFrame) -> list[str]:
    """How many triples of plain text are right."""
    if not {"exact", "published"} <= set(by.index):
        return []
    exact, published = by.loc["exact"], by.loc["published"]
    return [
        f"From plain text {number(exact['precision'])} of the triples found are in the data, and "
        f"{number(exact['recall'])} of the data's are found (F1 {number(exact['f1'])}; compared as "
        f"published {number(published['f1'])})"
    ]


def _lost(about: Mapping[str, Any]) -> list[str]:
    """What could not be used, texts that were learned from, and relations that never were."""
    out, part = [], "test" if "test" in about["lost"] else "dev"
    left = [f"{count:,} {what}" for what, count in about["lost"].get(part, {}).items() if count]
    if left:
        out.append(f"Triples not scored (relations): {', '.join(left)}")
    if both := about["texts"].get("in_both", 0):
        out.append(
            f"{both:,} of the texts scored on (relations) were also learnt from: the scores flatter"
        )
    if never := about.get("relations_never_learnt"):
        out.append(f"{len(never):,} relations of the data were never learnt and cannot be named")
    return out
