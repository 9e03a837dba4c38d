"""What stands out in the tables of measures, each number with its control."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attlas.stats.correlations import spearman
from attlas.views.numbers import decimal, finding, head_name, some
from attlas.views.section import Tables, largest, smallest

TARGETS = {
    "previous": "the previous token",
    "next": "the next token",
    "self": "the token itself",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "punctuation": "full stops and commas",
}
HALF = 0.5


def surface_findings(study: Tables) -> list[str]:
    """For each simple target, which heads give it over half of their attention."""
    table, heads, out = study.table("surface"), study.n_layers * study.n_heads, []
    for column, target in TARGETS.items():
        best = largest(table, column)
        if best is None:
            continue
        strong = table[table[column] > HALF].sort_values(column, ascending=False)
        named = some(
            f"{head_name(row)} {decimal(row[column])}" for row in strong.to_dict("records")
        )
        most = named or f"highest {head_name(best)} {decimal(best[column])}"
        claim = f"Heads with more than half of their attention on {target}"
        control = f"uniform attention {decimal(best[f'{column}_uniform'])}"
        out.append(finding(claim, f"{len(strong)} of {heads} ({most})", control))
    return out


def entropy_findings(study: Tables) -> list[str]:
    """The most focused head and the broadest."""
    table = study.table("entropy")
    low, high = smallest(table, "entropy"), largest(table, "entropy")
    if low is None or high is None:
        return []
    return [
        f"The most focused head is {head_name(low)} (entropy {decimal(low['entropy'])} nats), the "
        f"broadest {head_name(high)} ({decimal(high['entropy'])}); uniform attention has "
        f"{decimal(low['entropy_uniform'])}."
    ]


def topk_findings(study: Tables) -> list[str]:
    """The tokens on most lists, and how many lists chance would give."""
    types = study.table("topk_types")
    first = types[(types["layers"] == "all") & (types["rank"] == 0)].set_index("direction")
    if set(first.index) != {"attended", "attending"} or first["chance"].isna().any():
        return []
    attended, attending = first.loc["attended"], first.loc["attending"]

    def lists(row: pd.Series[Any]) -> str:
        return f"{int(row['count']):,} lists; {row['chance']:,.0f} expected by chance"

    return [
        f"The token on the most lists of most attended tokens is “{attended['string']}” "
        f"({lists(attended)}), on the most lists of most attending tokens "
        f"“{attending['string']}” ({lists(attending)})."
    ]


def position_period(study: Tables) -> int | None:
    """After how many tokens position embeddings repeat, if the study's model repeats them."""
    if not study.has("position_bias_period") or study.table("position_bias_period").empty:
        return None
    return int(study.table("position_bias_period")["residue"].max()) + 1


def position_bias_findings(study: Tables) -> list[str]:
    """What tokens at multiples of the period receive, where texts are long enough."""
    period = position_period(study)
    if period is None:
        return []
    table, whole = study.table("position_bias_period"), study.table("position_bias")
    at = table["residue"] == 0
    if not whole["position"].max() >= period or not at.any() or not table["all"].notna().any():
        return []
    multiples, others = (_over_uniform(part) for part in (table[at], table[~at]))
    return [
        f"Ordinary tokens at positions that are multiples of {period} receive "
        f"{decimal(multiples)} times as much attention as under uniform attention, all others "
        f"{decimal(others)} times; the former share the first token's position embedding."
    ]


def _over_uniform(rows: pd.DataFrame) -> float:
    """Attention received over what uniform attention gives, each token counting the same."""
    uniform = float((rows["uniform"] * rows["tokens"]).sum())
    received = float((rows["all"] * rows["tokens"]).sum())
    return received / uniform if uniform else float("nan")


def importance_findings(study: Tables) -> list[str]:
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
    also = f" Rank correlation of importance (Spearman): {ranked}." if ranked else ""
    return [f"The most important head is {head_name(best)}.{also}"]


def special_gradient_findings(study: Tables) -> list[str]:
    """How the gradient for special tokens compares with that for others, by layer."""
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
                f"Sensitivity of the loss to attention to {name}, relative to attention to an "
                f"ordinary token: {by_layer} (1 = no difference)."
            )
    return out


def head_distance_findings(study: Tables) -> list[str]:
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
            f"p = {row['p']:.3f})."
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
