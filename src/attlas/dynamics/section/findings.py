"""How good classifiers are, how well attention marks polarity tokens, and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.section.cells import cell_title, model_title, scale_title
from attlas.dynamics.summary import CELL, nearest_scale, with_intervals
from attlas.views.numbers import number
from attlas.views.section import Fact, Tables, largest, smallest

UNEQUAL = 1.5  # times as many texts as the smallest class
NAMED = 4  # classifiers that a sentence names


def trained(study: Tables, name: str) -> pd.DataFrame:
    """The rows of a table whose classifier is known."""
    return study.table(name).dropna(subset=["scale"])


def dynamics_findings(study: Tables) -> list[str]:
    """What the best classifier reaches, and what scale and V·W do to the two polarities."""
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    about = study.holding("dynamics").manifest["dynamics"]
    out = [*_best_classifier(rows, summary), *_flattered(about)]
    if summary["separation"].notna().any():
        out += [_separation(rows, summary), where_it_breaks(rows)]
    elif len(summary):
        out.append(
            "No separation can be told: by the rule there are no neutral tokens, or no others"
        )
    if summary["gap"].notna().any():
        out.append(_gap(rows, summary, about.get("positive") is not None))
    return out + _polarity(rows)


def _polarity(rows: pd.DataFrame) -> list[str]:
    """How well polarity scores tell the tokens of the two classes apart."""
    low, high = smallest(rows, "polarity_auc"), largest(rows, "polarity_auc")
    if low is None or high is None:
        return []
    ends = number(low["polarity_auc"])
    if ends != number(high["polarity_auc"]):
        top = f"{number(high['polarity_auc'])} ({cell_title(high)})"
        ends = f"from {ends} ({cell_title(low)}) to {top}"
    return [f"Polarity scores tell positive tokens from negative ones with AUC {ends}; chance .50"]


def _flattered(about: Mapping[str, Any]) -> list[str]:
    """Texts on both sides, and classes of unequal size under a rule that does not weight them."""
    out, labels = [], list(about.get("labels", {}).values())
    if both := about.get("texts", {}).get("in_both"):
        out.append(
            f"{both:,} of the texts scored on also stand among those learnt from: the scores "
            "flatter"
        )
    balanced = about.get("options", {}).get("rule") == "balanced"
    if labels and max(labels) > UNEQUAL * min(labels) and not balanced:
        out.append(
            f"The largest class has {max(labels):,} texts to learn from, the smallest "
            f"{min(labels):,}: neutral words are taken for those of the largest; the rule balanced "
            "weighs classes alike (--rule balanced)"
        )
    return out


def _best_classifier(rows: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """The classifier that is best on dev, next to the majority class and the published number."""
    by, chosen = "dev_accuracy", "The best on dev"
    if rows[by].isna().all():
        by, chosen = "accuracy", "The best"
    mean = rows.groupby(list(CELL), as_index=False)[by].mean().rename(columns={by: "by"})
    every = with_intervals(summary, rows, "accuracy").merge(mean, on=list(CELL))
    best = largest(every, "by")
    if best is None:
        return []
    begin = "The classifier" if len(every) == 1 else chosen
    known = best.get("published")
    published = "" if pd.isna(known) else f", published {number(known)}"
    return [
        f"{begin} ({cell_title(best)}) names the class of {_reached(best, 'accuracy')} of "
        f"{int(rows['texts'].max()):,} texts; always the commonest class "
        f"{number(best['majority'])}{published}"
    ]


def _reached(row: pd.Series[float], what: str) -> str:
    """A number with its interval, or with its range over seeds."""
    low, high = number(row["low"]), number(row["high"])
    if row["seeds"] > 1:
        return f"{number(row[what])} (mean of {int(row['seeds'])} seeds, {low} to {high})"
    return f"{number(row[what])} [{low}, {high}]"


def _separation(rows: pd.DataFrame, summary: pd.DataFrame) -> str:
    """Where attention scores separate polarity tokens from neutral ones best and worst."""
    every = with_intervals(summary, rows, "separation").dropna(subset=["separation"])

    def at(row: pd.Series[float], where: str = "", *name: str) -> str:
        beside = (
            f"before training {number(row['separation_untrained'])}, frequency alone "
            f"{number(row['separation_count'])}"
        )
        return f"{_reached(row, 'separation')}{where} ({'; '.join([*name, beside])})"

    best, worst = (
        every.loc[place] for place in (every["separation"].idxmax(), every["separation"].idxmin())
    )
    begin = "Attention scores separate polarity tokens from neutral ones with AUC"
    if len(every) == 1:
        return f"{begin} {at(best)}"
    ends = at(best, " at best", cell_title(best)), at(worst, " at worst", cell_title(worst))
    return f"{begin} {' and '.join(ends)}"


def where_it_breaks(rows: pd.DataFrame) -> str:
    """How many classifiers do not mark polarity tokens, by intervals.

    Against chance, against frequency alone, and among tokens that are as frequent.
    """
    known = rows.dropna(subset=["separation"])
    frequent = rows.dropna(subset=["separation_frequent"])
    alone = known["separation_count"]
    ends = [number(alone.min()), number(alone.max())]
    count = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    low = [
        known["separation_low"] <= 0.5,
        known["separation_low"] <= alone,
        frequent["separation_frequent_low"] <= 0.5,
    ]
    alike = "against neutral tokens as frequent as polarity tokens must be"
    if len(known) == 1:
        chance, count_alone, often = ("not above" if one.any() else "above" for one in low)
        also = f", and {alike} {often} .50" if len(frequent) else ""
        return (
            f"The interval of the separation lies {chance} .50, {count_alone} what frequency alone "
            f"gives ({count}){also}"
        )
    also = ""
    if len(frequent):
        fewer = f" of {len(frequent):,}" if len(frequent) < len(known) else ""
        also = f"; {alike} it reaches .50 in {_some_of(frequent, low[2])}{fewer}"
    return (
        f"Of {len(known):,} classifiers the interval of the separation reaches down to .50 in "
        f"{_some_of(known, low[0])}, to what frequency alone gives ({count}) in "
        f"{_some_of(known, low[1])}{also}"
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
    named = f" ({'' if few else 'not in '}{listed})" if names and len(cells) > 1 else ""
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
    over = _over_seeds(large)
    name = model_title(large["attention"], large["encoder"])
    out = f"{at} {what} by {number(abs(large['gap']))} pooled standard deviations ({name}{over})"
    if usual["scale"] != large["scale"]:
        turned = f"{way(usual)} " if signed else ""
        scale = scale_title(usual["scale"])
        out += f", at scale {scale} {turned}by {number(abs(usual['gap']))}"
    return out + (_as_vw(rows) if signed else "")


def _over_seeds(row: pd.Series[Any]) -> str:
    if not row["seeds"] > 1:
        return ""
    return f"; mean of {int(row['seeds'])} seeds, {number(row['low'])} to {number(row['high'])}"


def _as_vw(rows: pd.DataFrame) -> str:
    """How often the gap has the sign of V·W, with plain dot attention."""
    plain = rows[(rows["attention"] == "dot") & (rows["encoder"] == "none")]
    plain = plain.dropna(subset=["gap", "vw"])
    if len(plain) < 2:
        return ""
    alike = int((np.sign(plain["gap"]) == np.sign(plain["vw"])).sum())
    return f"; with plain dot attention the gap has the sign of V·W in {alike} of {len(plain):,}"


def classifier_facts(study: Tables, usual: list[Fact]) -> list[Fact]:
    """What was trained on what, if the study is one of classifiers."""
    manifest = study.manifest
    if "dynamics" not in manifest:
        return usual
    about, rows = manifest["dynamics"], study.table("dynamics", [*CELL, "seed"])
    parts = {"train": "to learn from", "dev": "to choose the epoch by", "test": "scored on"}
    counts = about["texts"]
    texts = [f"{counts[part]:,} {use}" for part, use in parts.items() if counts.get(part)]
    classes = ", ".join(str(name) for name in about["classes"])
    if about.get("positive") not in (None, "positive"):
        classes += f"; tokens of {about['positive']} are called positive"
    left = manifest["counts"].get("quarantined", 0)
    reasons = f"{left:,} rows; each with its reason in quarantine.jsonl"
    return [
        ("model", _trained(rows)),
        ("corpus", manifest["corpus"]["name"]),
        ("texts", ", ".join(texts)),
        ("classes", classes),
        ("left out", reasons if left else "no row was left out"),
        ("time", f"{manifest['seconds']:.1f} s"),
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
