"""How good classifiers are, how well attention marks polarity tokens, and where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.section.cells import cell_title, cell_words, model_title, scale_title
from attlas.dynamics.summary import CELL, nearest_scale, with_intervals
from attlas.views.claims import Claim, whole
from attlas.views.findings import excluded_rows, overlap
from attlas.views.numbers import decimal
from attlas.views.section import Fact, Tables, largest, smallest

UNEQUAL = 1.5  # times as many texts as the smallest class
NAMED = 4  # classifiers that a sentence names


def trained(study: Tables, name: str) -> pd.DataFrame:
    """The rows of a table whose classifier is known."""
    return study.table(name).dropna(subset=["scale"])


def dynamics_claims(study: Tables) -> list[Claim]:
    """Every classifier against the majority class; its separation against frequency and chance."""
    table, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    if "published" in summary:
        table = table.merge(summary[[*CELL, "published"]], on=list(CELL), how="left")
    rows = table.to_dict("records")
    return [*filter(None, map(_accuracy_claim, rows)), *filter(None, map(_separation_claim, rows))]


def _accuracy_claim(row: Mapping[Any, Any]) -> Claim | None:
    if pd.isna(row["accuracy"]):
        return None
    low, high = row["accuracy_low"], row["accuracy_high"]
    published = row.get("published", math.nan)
    return Claim(
        f"A small classifier ({cell_words(row)}) predicts labels",
        row["accuracy"],
        low,
        high,
        row["majority"],
        "majority class",
        low - row["majority"],
        high - row["majority"],
        whole(row.get("texts")),
        what="accuracy",
        also=() if pd.isna(published) else (f"published {decimal(published)}",),
        group="accuracy",
        members="classifiers",
    )


def _separation_claim(row: Mapping[Any, Any]) -> Claim | None:
    if pd.isna(row["separation"]):
        return None
    low, high, alone = row["separation_low"], row["separation_high"], row["separation_count"]
    rival = max(0.5, 0.0 if pd.isna(alone) else alone)
    return Claim(
        "The attention scores of a small classifier separate words typical of one class from "
        f"neutral ones ({cell_words(row)})",
        row["separation"],
        low,
        high,
        rival,
        "frequency alone" if alone == rival else "chance",
        low - rival,
        high - rival,
        whole(row.get("tokens_polarity")) + whole(row.get("tokens_neutral")),
        what="AUC",
        also=(f"before training {decimal(row['separation_untrained'])}",),
        group="separation",
        members="classifiers",
    )


def dynamics_texts(study: Tables) -> dict[str, float]:
    """How many texts classifiers were scored on."""
    texts = study.study_with_table("dynamics").manifest["dynamics"].get("texts", {})
    return {"test texts": texts["test"]} if "test" in texts else {}


def dynamics_warnings(study: Tables) -> list[str]:
    """Texts on both sides, and classes of unequal size under a rule that does not weight them."""
    about = study.study_with_table("dynamics").manifest["dynamics"]
    labels = list(about.get("labels", {}).values())
    out = overlap(about.get("texts", {}).get("in_both", 0), "Dynamics", "training data")
    balanced = about.get("options", {}).get("rule") == "balanced"
    if labels and max(labels) > UNEQUAL * min(labels) and not balanced:
        out.append(
            f"The largest class has {max(labels):,} training texts, the smallest {min(labels):,}, "
            "so neutral words may be counted as words of the largest class; --rule balanced gives "
            "classes the same weight."
        )
    return out


def dynamics_notes(study: Tables) -> list[str]:
    """Where separation breaks down, and what scale and V·W do to the two polarities."""
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    about, out = study.study_with_table("dynamics").manifest["dynamics"], []
    if summary["separation"].notna().any():
        out.append(separation_note(rows))
    elif len(summary):
        out.append(
            "Separation cannot be computed: under this rule there are no neutral (or no polarity) "
            "tokens. You probably need more training texts."
        )
    if summary["gap"].notna().any():
        out.append(_gap(rows, summary, about.get("positive") is not None))
    return out + _polarity(rows)


def _polarity(rows: pd.DataFrame) -> list[str]:
    """How well polarity scores separate the tokens of the two classes."""
    low, high = smallest(rows, "polarity_auc"), largest(rows, "polarity_auc")
    if low is None or high is None:
        return []
    ends = decimal(low["polarity_auc"])
    if ends != decimal(high["polarity_auc"]):
        top = f"{decimal(high['polarity_auc'])} ({cell_title(high)})"
        ends = f"from {ends} ({cell_title(low)}) to {top}"
    return [
        f"Polarity scores separate positive from negative tokens with AUC {ends}; chance is 0.50."
    ]


def separation_note(rows: pd.DataFrame) -> str:
    """In how many classifiers attention marks polarity tokens, by intervals.

    Against chance, against frequency alone, and among tokens that are as frequent.
    """
    known = rows.dropna(subset=["separation"])
    frequent = rows.dropna(subset=["separation_frequent"])
    alone = known["separation_count"]
    ends = list(dict.fromkeys(decimal(end) for end in (alone.min(), alone.max())))
    count = f"frequency alone ({' to '.join(ends)})"
    above = [
        known["separation_low"] > 0.5,
        known["separation_low"] > alone,
        frequent["separation_frequent_low"] > 0.5,
    ]
    same = "against neutral tokens that meet the minimum frequency of polarity tokens"
    if len(known) == 1:
        chance, by_count, often = ("above" if one.any() else "not above" for one in above)
        also = f", and {often} chance {same}" if len(frequent) else ""
        return f"The 95% CI of the separation is {chance} chance (0.50), {by_count} {count}{also}."
    also = ""
    if len(frequent):
        fewer = f" of {len(frequent):,}" if len(frequent) < len(known) else ""
        also = f", and above chance {same} in {_some_of(frequent, above[2])}{fewer}"
    return (
        f"Of {len(known):,} classifiers, the 95% CI of the separation is above chance (0.50) in "
        f"{_some_of(known, above[0])}, above {count} in {_some_of(known, above[1])}{also}."
    )


def _some_of(rows: pd.DataFrame, which: pd.Series[bool]) -> str:
    """How many classifiers, and the names of some; or of the others if they are fewer.

    All of a scale are named together.
    """
    if which.all() or not which.any():
        return "all" if which.all() else "none"
    by_cell = rows.assign(which=which).groupby(list(CELL), as_index=False, sort=False)
    cells = by_cell["which"].any()
    few = cells["which"].mean() <= 0.5
    names = []
    for scale, part in cells.assign(which=cells["which"] == few).groupby("scale"):
        if len(part) > 1 and part["which"].all():
            names.append(f"all at scale {scale_title(scale)}")
        else:
            names += [cell_title(row) for row in part[part["which"]].to_dict("records")]
    listed = "; ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])
    named = f" ({'' if few else 'all but '}{listed})" if names and len(cells) > 1 else ""
    return f"{int(which.sum()):,}{named}"


def _gap(rows: pd.DataFrame, summary: pd.DataFrame, signed: bool) -> str:
    """How far the scores of the classes' tokens are apart, at the largest scale and the usual one.

    With a sign if there are two classes.
    """
    known = with_intervals(summary, rows, "gap").dropna(subset=["gap"])
    model = list(CELL[:2])
    own = known[(known[model] == known[model].iloc[0]).all(axis=1)]
    large, usual = own.loc[own["scale"].idxmax()], nearest_scale(own)

    def way(row: pd.Series[Any]) -> str:
        return "higher" if row["gap"] > 0 else "lower"

    at = f"At {'the largest scale, ' if len(own) > 1 else 'scale '}{scale_title(large['scale'])},"
    what = "the mean attention scores of the classes' tokens differ"
    if signed:
        what = f"positive tokens have {way(large)} attention scores than negative ones,"
    name = model_title(large["attention"], large["encoder"])
    size = f"{decimal(abs(large['gap']))} pooled standard deviations"
    out = f"{at} {what} by {size} ({name}{_over_seeds(large)})"
    if usual["scale"] != large["scale"]:
        turned = f"{way(usual)} " if signed else ""
        scale = scale_title(usual["scale"])
        out += f", at scale {scale} {turned}by {decimal(abs(usual['gap']))}"
    return f"{out}{_as_vw(rows) if signed else ''}."


def _over_seeds(row: pd.Series[Any]) -> str:
    if not row["seeds"] > 1:
        return ""
    return f"; mean of {int(row['seeds'])} seeds, {decimal(row['low'])} to {decimal(row['high'])}"


def _as_vw(rows: pd.DataFrame) -> str:
    """How often the gap has the sign of V·W, with plain dot attention."""
    plain = rows[(rows["attention"] == "dot") & (rows["encoder"] == "none")]
    plain = plain.dropna(subset=["gap", "vw"])
    if len(plain) < 2:
        return ""
    same = int((np.sign(plain["gap"]) == np.sign(plain["vw"])).sum())
    count = f"{same} of {len(plain):,} classifiers"
    return f"; with plain dot attention, the gap has the sign of V·W in {count}"


def classifier_facts(study: Tables, usual: list[Fact]) -> list[Fact]:
    """What was trained on what, if the study is one of classifiers."""
    manifest = study.manifest
    if "dynamics" not in manifest:
        return usual
    about, rows = manifest["dynamics"], study.table("dynamics", [*CELL, "seed"])
    parts = {"train": "to train", "dev": "to choose the epoch", "test": "to test"}
    counts = about["texts"]
    texts = [f"{counts[part]:,} {use}" for part, use in parts.items() if counts.get(part)]
    classes = ", ".join(str(name) for name in about["classes"])
    if about.get("positive") not in (None, "positive"):
        classes += f"; tokens of {about['positive']} are called positive"
    return [
        ("model", _trained(rows)),
        ("corpus", manifest["corpus"]["name"]),
        ("texts", ", ".join(texts)),
        ("classes", classes),
        ("excluded", excluded_rows(manifest["counts"])),
        ("time", f"{decimal(manifest['seconds'], 1)} s"),
    ]


def _trained(rows: pd.DataFrame) -> str:
    """How many classifiers, of which models, at which scales, from how many seeds."""
    pairs = rows[list(CELL[:2])].drop_duplicates().itertuples(index=False)
    models = "; ".join(model_title(*pair) for pair in pairs)
    scales = ", ".join(scale_title(scale) for scale in sorted(set(rows["scale"])))
    many = _plural("classifier")
    return f"{many(len(rows))}: {models}; scale {scales}; {_plural('seed')(rows['seed'].nunique())}"


def _plural(what: str) -> Callable[[int], str]:
    return lambda count: f"{count:,} {what if count == 1 else what + 's'}"
