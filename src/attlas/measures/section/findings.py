"""What stands out in the tables of measures, each number with its control."""

from __future__ import annotations

import pandas as pd

from attlas.stats.correlations import spearman
from attlas.views.numbers import head_name, number
from attlas.views.section import Tables, largest, smallest

TARGETS = {
    "previous": "the previous token",
    "next": "the next token",
    "self": "itself",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "punctuation": "full stops and commas",
}
HALF = 0.5
NAMED = 4  # heads that a sentence names


def surface_findings(study: Tables) -> list[str]:
    """For each simple target, which heads give it over half of their attention."""
    table, heads, out = study.table("surface"), study.n_layers * study.n_heads, []
    for column, target in TARGETS.items():
        best = largest(table, column)
        if best is None:
            continue
        strong = table[table[column] > HALF].sort_values(column, ascending=False)
        control = f"uniform {number(best[f'{column}_uniform'])}"
        if len(strong):
            out.append(f"{_over_half(strong, heads, target)} ({control}): {_some(strong, column)}")
        else:
            out.append(
                f"No head gives over half of its attention to {target}; the most is "
                f"{number(best[column])} by {head_name(best)} ({control})"
            )
    return out


def _over_half(strong: pd.DataFrame, heads: int, target: str) -> str:
    verb, whose = ("gives", "its") if len(strong) == 1 else ("give", "their")
    return f"{len(strong)} of {heads} heads {verb} over half of {whose} attention to {target}"


def _some(strong: pd.DataFrame, column: str) -> str:
    named = [
        f"{head_name(row)} ({number(row[column])})" for row in strong.head(NAMED).to_dict("records")
    ]
    return ", ".join([*named, *(["..."] if len(strong) > NAMED else [])])


def entropy_findings(study: Tables) -> list[str]:
    """The most focused head and the broadest."""
    table = study.table("entropy")
    low, high = smallest(table, "entropy"), largest(table, "entropy")
    if low is None or high is None:
        return []
    return [
        f"The most focused head is {head_name(low)} (entropy {number(low['entropy'])} nats), the "
        f"broadest {head_name(high)} ({number(high['entropy'])}); uniform "
        f"{number(low['entropy_uniform'])}"
    ]


def topk_findings(study: Tables) -> list[str]:
    """The tokens on most lists, and how many lists chance would give."""
    types = study.table("topk_types")
    first = types[(types["layers"] == "all") & (types["rank"] == 0)].set_index("direction")
    if set(first.index) != {"attended", "attending"} or first["chance"].isna().any():
        return []
    most, more = first.loc["attended"], first.loc["attending"]
    return [
        f"On most lists of attended tokens is {most['string']!r} ({int(most['count']):,} lists, "
        f"{most['chance']:,.0f} by chance), on most of attending ones {more['string']!r} "
        f"({int(more['count']):,}, {more['chance']:,.0f} by chance)"
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
        f"Ordinary tokens at multiples of {period} receive {number(multiples)} times what even "
        f"attention would give, all others {number(others)} times: the former share the first "
        "token's position embedding"
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
    alike = {name: spearman(table["importance"], table[name]) for name in ("gate", "ablation")}
    measured = f", as measured ablation does by {number(alike['ablation'])}"
    return [
        f"The most important head is {head_name(best)}; importance ranks heads as the gates' "
        f"gradients do by {number(alike['gate'])} (Spearman)"
        + ("" if pd.isna(alike["ablation"]) else measured)
    ]


def special_gradient_findings(study: Tables) -> list[str]:
    """How the gradient for special tokens compares with that for others, by layer."""
    table = study.table("special_gradient").groupby("layer")[["cls", "sep", "other"]].mean()
    out = []
    for column, name in (("cls", "[CLS]"), ("sep", "[SEP]")):
        ratio = (table[column] / table["other"]).dropna()
        if len(ratio):
            places = sorted({0, len(ratio) // 2, len(ratio) - 1})
            by_layer = [
                f"{number(value)} in layer {layer}" for layer, value in ratio.iloc[places].items()
            ]
            out.append(
                f"A weight to {name} moves the loss so many times as much as one to an ordinary "
                f"token: {', '.join(by_layer)} (the same would be 1)"
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
            f"Heads of one layer diverge by {number(row['within'])} nats a row on average, heads "
            f"of two layers by {number(row['across'])} (p {row['p']:.3f} if heads are dealt to "
            "layers at random)"
        )
    near = smallest(table[before], "mean")
    if near is not None:
        other = head_name({"layer": near["other_layer"], "head": near["other_head"]})
        out.append(
            f"Most alike are {head_name(near)} and {other} ({number(near['mean'])} nats; from even "
            f"attention {number(near['mean_uniform'])})"
        )
    return out
