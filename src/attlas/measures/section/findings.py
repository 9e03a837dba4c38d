"""What stands out in the tables of measures, each number with its control."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_low
from typing import Any

import pandas as pd

from attlas.measures.section.columns import (
    ENTROPY,
    IMPORTANCE,
    SHARE,
    SURFACE,
    offset_columns,
)
from attlas.stats.correlations import spearman
from attlas.views.claims import Claim, head_claims, whole
from attlas.views.findings import analysed
from attlas.views.numbers import decimal, head_name, percent
from attlas.views.section import HeadKind, Tables, largest, smallest
from attlas.views.tables import Column

TARGETS = {
    "previous": "the previous token",
    "next": "the next token",
    "self": "the token itself",
    "first": "the first token",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "punctuation": "full stops and commas",
}


_LABELS = {column.name: column.label for column in SURFACE}
KINDS = tuple(HeadKind(name, _LABELS[name], words) for name, words in TARGETS.items())
BROAD = HeadKind(
    "entropy", "many tokens", "attention spread over at least half of the tokens", is_breadth=True
)
ENTROPIES = {"entropy": "entropy", "cls_entropy": "entropy in the row of [CLS]"}
FEW_HEADS = 3  # with fewer, most heads are one
HALF = 0.5  # of a head's attention: it attends mostly there
RELIABLE = 0.5  # split-half reliability: below, another half of the texts ranks heads otherwise
NEAR_CHANCE = 0.05  # of the lists that chance gives
REPEATS = 1.5  # times as much attention at multiples of the period as elsewhere: a warning


def surface_claims(study: Tables) -> list[Claim]:
    """Every head, and most heads, against uniform attention, for every simple target."""
    table, texts = study.table("surface"), analysed(study, "surface")
    columns = {column.name: column for column in SURFACE}
    out = []
    for name, target in targets_of(table).items():
        about = {"fact": "first token" if _is_first(table, name) else columns[name].label}
        one = head_claims(table, columns[name], f"attends to {target}", texts, **about)
        out += [*most_heads(one, f"Most heads attend to {target}"), *one]
    return out


def targets_of(table: pd.DataFrame) -> dict[str, str]:
    """The simple targets that a model has: [CLS], or in its place the first token."""
    has_cls = "cls" in table and table["cls"].notna().any()
    other = "first" if has_cls else "cls"
    return {name: words for name, words in TARGETS.items() if name != other}


def _is_first(table: pd.DataFrame, name: str) -> bool:
    """Whether a target is the first token of every text."""
    known = {name, "first"} <= set(table.columns)
    return known and bool((table[name] == table["first"]).all())


def most_heads(claims: Sequence[Claim], words: str) -> list[Claim]:
    """What more than half of the heads reach, from the claims about each of them.

    That is the lower median. The ends of its interval are the lower medians of the heads' ends,
    which is no narrower than if the heads' errors were one error.
    """
    known = [one for one in claims if one.comparison.has_interval]
    if len(known) < FEW_HEADS:
        return []

    def median(name: str) -> float:
        return median_low([float(getattr(one, name)) for one in known])

    many = sum(one.value >= HALF and one.difference_low > 0 for one in known)
    best = max(known, key=lambda one: one.value)
    typical = replace(
        known[0],
        words=words,
        value=median("value"),
        low=median("low"),
        high=median("high"),
        control=median("control"),
        difference_low=median("difference_low"),
        difference_high=median("difference_high"),
    )
    return [
        replace(
            typical,
            head=None,
            group="most heads",
            members="targets",
            what="half of them give it at least",
            further=f"{many:,} of {len(known):,} heads give it at least half of their attention; "
            f"the strongest is {best.words.partition(' ')[0]} ({decimal(best.value)}).",
            is_of_most=True,
        )
    ]


def entropy_claims(study: Tables) -> list[Claim]:
    """Every head against uniform attention: over all rows, and in the row of [CLS]."""
    table, texts = study.table("entropy"), analysed(study, "entropy")
    return [
        claim
        for column, words in zip(
            ENTROPY,
            ("has low entropy", "has low entropy at [CLS]"),
            strict=True,
        )
        for claim in head_claims(table, column, words, texts, bounds=(0.0, math.inf))
    ]


def surface_notes(study: Tables) -> list[str]:
    """How reliable the rankings of heads by attention to simple targets are."""
    names = targets_of(study.table("surface"))
    return _reliability_notes(study, "surface", "by attention to", names)


def surface_warnings(study: Tables) -> list[str]:
    """A warning about every target by which heads cannot be ranked."""
    names = targets_of(study.table("surface"))
    return _reliability_warnings(study, "surface", "by attention to", names)


def entropy_notes(study: Tables) -> list[str]:
    """How reliable the rankings of heads by entropy are."""
    return _reliability_notes(study, "entropy", "by", ENTROPIES)


def entropy_warnings(study: Tables) -> list[str]:
    """A warning if heads cannot be ranked by their entropy."""
    return _reliability_warnings(study, "entropy", "by", ENTROPIES)


def _reliabilities(study: Tables, table: str, names: Mapping[str, str]) -> pd.DataFrame:
    """The reliability of rankings by these columns, where it is known; none in earlier versions."""
    if not study.has(f"{table}_reliability"):
        return pd.DataFrame(columns=["column", "reliability", "first_texts", "second_texts"])
    rows = study.table(f"{table}_reliability")
    return rows[rows["column"].isin(names) & rows["reliability"].notna()]


def _reliability_notes(study: Tables, table: str, by: str, names: Mapping[str, str]) -> list[str]:
    rows = _reliabilities(study, table, names)
    if rows.empty:
        return []
    each = [
        f"{names[row['column']]} {decimal(row['reliability'])}" for row in rows.to_dict("records")
    ]
    texts = " and ".join(f"{whole(rows[name].max()):,}" for name in ("first_texts", "second_texts"))
    return [
        f"Split-half reliability of the ranking of heads {by}: {', '.join(each)} (n = {texts} "
        "texts; 0 is chance)."
    ]


def _reliability_warnings(
    study: Tables, table: str, by: str, names: Mapping[str, str]
) -> list[str]:
    rows = _reliabilities(study, table, names)
    rows = rows[rows["reliability"] < RELIABLE]
    return [
        f"Heads cannot be ranked {by} {names[row['column']]}: the ranking has a split-half "
        f"reliability of {decimal(row['reliability'])} (below {RELIABLE}); read more texts."
        for row in rows.to_dict("records")
    ]


MATCHED = "words of similar frequency"


def stronger_control(table: pd.DataFrame) -> pd.DataFrame:
    """The table of targets with the larger of the two controls as `target_stronger`."""
    controls = table[["target_uniform", "target_matched"]]
    return table.assign(target_stronger=controls.max(axis=1))


def target_texts(study: Tables) -> int:
    """How many texts have a target."""
    return whole(study.table("targets")["target_texts"].max())


def target_claims(study: Tables) -> list[Claim]:
    """Every head against the control that it is less far above."""
    table, texts = study.table("targets"), target_texts(study)
    matched = table.assign(target_difference_error=table["target_matched_difference_error"])
    words = "attends to a target word"
    each = (
        head_claims(table, Column("target", "", control="target_uniform"), words, texts),
        head_claims(matched, Column("target", "", control="target_matched"), words, texts, MATCHED),
    )
    return [_harder(uniform, similar) for uniform, similar in zip(*each, strict=True)]


def _harder(uniform: Claim, similar: Claim) -> Claim:
    """The claim with the stronger control; the other control is named with it."""
    if not similar.comparison.has_interval:
        return uniform
    hard, easy = sorted((uniform, similar), key=lambda one: one.difference_low)
    return replace(hard, also=(f"{easy.control_name} {decimal(easy.control)}",))


def target_warnings(study: Tables) -> list[str]:
    """A warning if there is no target, or nothing to match it with."""
    words = study.table("targets_words")
    if words.empty:
        return ["No text has a target word: there is nothing to compare."]
    lost = words[words["matched"] == 0]
    if lost.empty:
        return []
    share = lost["occurrences"].sum() / words["occurrences"].sum()
    return [
        f"No other words of similar frequency for {percent(share)} of the occurrences of target "
        "words: for these, uniform attention is the only control."
    ]


def target_notes(study: Tables) -> list[str]:
    """How many texts the numbers are of, and how much attention target words get in all heads."""
    texts, table = target_texts(study), study.table("targets")
    with_target = f"{texts:,} of {analysed(study, 'targets'):,} texts have a target word"
    if not table["target"].notna().any():
        return [f"{with_target}."]
    mean, uniform = (float(table[name].mean()) for name in ("target", "target_uniform"))
    return [
        f"{with_target}; in the mean of all heads a row gives it {decimal(mean)} "
        f"(uniform attention {decimal(uniform)})."
    ]


def topk_notes(study: Tables) -> list[str]:
    """The tokens on most lists and how many chance would give, unless all are as by chance."""
    types = study.table("topk_types")
    first = types[(types["layers"] == "all") & (types["rank"] == 0)].set_index("direction")
    known = set(first.index) == {"attended", "attending"} and first["chance"].notna().all()
    if not known or topk_at_chance(study):
        return []
    attended, attending = first.loc["attended"], first.loc["attending"]

    def lists(row: pd.Series[Any]) -> str:
        return f"{int(row['count']):,} lists; {row['chance']:,.0f} expected by chance"

    return [
        f"“{attended['string']}” is most often among the most attended tokens "
        f"({lists(attended)}), “{attending['string']}” among the tokens that attend most "
        f"({lists(attending)})."
    ]


def topk_at_chance(study: Tables) -> bool:
    """Whether every token that is shown is on as many lists as chance gives, but for 5%."""
    types = study.table("topk_types")
    shown = types[(types["layers"] == "all") & (types["rank"] < 10)].dropna(subset=["chance"])
    apart = (shown["count"] - shown["chance"]).abs()
    return len(shown) > 0 and bool((apart <= NEAR_CHANCE * shown["chance"]).all())


def positions_at_chance(study: Tables) -> bool:
    """Whether no head exceeds uniform attention at any offset by enough to be tinted."""
    table = study.table("positions")
    pairs = [(table[one.name], table[one.control]) for one in offset_columns(map(str, table))]
    known = [(value - control).dropna() for value, control in pairs]
    return any(map(len, known)) and all((one < SHARE).all() for one in known)


def position_period(study: Tables) -> int | None:
    """After how many tokens position embeddings repeat, if the study's model repeats them."""
    if not study.has("position_bias_period") or study.table("position_bias_period").empty:
        return None
    return int(study.table("position_bias_period")["residue"].max()) + 1


def position_bias_notes(study: Tables) -> list[str]:
    """What tokens at multiples of the period receive, where texts are long enough."""
    if (ratio := period_ratio(study)) is None:
        return []
    return [
        f"Ordinary tokens at positions that are multiples of {position_period(study)} receive "
        f"{decimal(ratio[0])} times as much attention as under uniform attention, all others "
        f"{decimal(ratio[1])} times; the former share the first token's position embedding."
    ]


def position_bias_warnings(study: Tables) -> list[str]:
    """A warning if tokens receive attention because their position embedding repeats."""
    ratio = period_ratio(study)
    if ratio is None or not ratio[0] > REPEATS * ratio[1]:
        return []
    return [
        f"Position embeddings repeat every {position_period(study):,} tokens, and tokens at "
        f"multiples receive {ratio[0] / ratio[1]:.0f} times as much attention as others: "
        "their attention is due to their position, not to their meaning."
    ]


def period_ratio(study: Tables) -> tuple[float, float] | None:
    """What tokens at multiples of the period, and others, receive relative to uniform attention."""
    period = position_period(study)
    if period is None:
        return None
    table, whole = study.table("position_bias_period"), study.table("position_bias")
    at = table["residue"] == 0
    if not whole["position"].max() >= period or not at.any() or not table["all"].notna().any():
        return None
    return _over_uniform(table[at]), _over_uniform(table[~at])


def _over_uniform(rows: pd.DataFrame) -> float:
    """Attention received over what uniform attention gives, each token counting the same."""
    uniform = float((rows["uniform"] * rows["tokens"]).sum())
    received = float((rows["all"] * rows["tokens"]).sum())
    return received / uniform if uniform else float("nan")


def with_median_head(table: pd.DataFrame) -> pd.DataFrame:
    """The table `importance` with the control of ablation, which earlier versions lack."""
    if "ablation" not in table or "ablation_median" in table:
        return table
    return table.assign(ablation_median=table["ablation"].median())


def importance_claims(study: Tables) -> list[Claim]:
    """What removing each head does to the loss, against the median head."""
    table, texts = with_median_head(study.table("importance")), analysed(study, "importance")
    if "ablation" not in table or table["ablation"].isna().all():
        return []
    if "ablation_texts" in table:  # fewer than the study has
        texts = whole(table["ablation_texts"].max())
    column = next(one for one in IMPORTANCE if one.name == "ablation")
    return head_claims(
        table,
        column,
        "matters for the loss",
        texts,
        "median head",
        what="growth of the loss without it",
        bounds=(-math.inf, math.inf),
    )


def importance_notes(study: Tables) -> list[str]:
    """The most important head, and whether other estimates rank heads alike."""
    table = study.table("importance")
    best = largest(table, "importance")
    if best is None:
        return []
    by = {name: spearman(table["importance"], table[name]) for name in ("gate", "ablation")}
    names = {"gate": "gate gradients", "ablation": "measured ablation"}
    ranked = ", ".join(
        f"{decimal(value)} with {names[name]}" for name, value in by.items() if not pd.isna(value)
    )
    also = f" Rank correlation with other estimates (Spearman): {ranked}." if ranked else ""
    return [f"The most important head by Taylor importance is {head_name(best)}.{also}"]


def special_gradient_notes(study: Tables) -> list[str]:
    """How the gradient for special tokens compares with that for others, by layer."""
    model = study.study_with_table("special_gradient").manifest.get("model") or {}
    loss = "a pseudo-loss (the model has no head)" if model.get("task") == "base" else "the loss"
    table = study.table("special_gradient").groupby("layer")[["cls", "sep", "other"]].mean()
    out = []
    for column, name in (("cls", "[CLS]"), ("sep", "[SEP]")):
        ratio = (table[column] / table["other"]).dropna()
        if len(ratio):
            some_layers = sorted({0, len(ratio) // 2, len(ratio) - 1})
            by_layer = ", ".join(
                f"{decimal(value)} in layer {layer}"
                for layer, value in ratio.iloc[some_layers].items()
            )
            out.append(
                f"Sensitivity of {loss} to attention to {name}, relative to attention to an "
                f"ordinary token: {by_layer} (1 = no difference)."
            )
    return out


def head_distance_notes(study: Tables) -> list[str]:
    """Whether heads of one layer are alike, and which two are most alike."""
    table, out = study.table("head_distance"), []
    same = table["layer"] == table["other_layer"]
    before = (table["layer"] < table["other_layer"]) | (
        same & (table["head"] < table["other_head"])
    )
    layers = study.table("head_layers")
    if len(layers) and not pd.isna(layers["p"].iloc[0]):
        row = layers.iloc[0]
        out.append(
            f"Heads of the same layer diverge by {decimal(row['within'])} nats on average, heads "
            f"of different layers by {decimal(row['across'])} (permutation test, "
            f"p = {decimal(row['p'], 3)})."
        )
    near = smallest(table[before], "mean")
    if near is not None:
        other = head_name({"layer": near["other_layer"], "head": near["other_head"]})
        out.append(
            f"The most similar heads are {head_name(near)} and {other} (Jensen-Shannon divergence "
            f"{decimal(near['mean'])} nats; that of the first from uniform attention "
            f"{decimal(near['mean_uniform'])})."
        )
    return out
