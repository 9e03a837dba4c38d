"""Findings of explanations: how exact they are, whether attention agrees with them."""

from __future__ import annotations

import pandas as pd

from attlas.views.claims import Claim
from attlas.views.majority import AtMajority, at_majority, weights_of
from attlas.views.numbers import decimal, percent
from attlas.views.section import Fact, Tables

SO = "explanations of its predictions carry no weight"
METHODS = {
    "attention_last": "attention in the last layer",
    "attention_last_scaled": "importance-weighted attention in the last layer",
    "attention_all": "attention over all layers",
    "attention_all_scaled": "importance-weighted attention over all layers",
    "cls_row": "attention from [CLS]",
    "rollout": "attention rollout",
    "gradient_rollout": "gradient-weighted attention rollout",
    "attention_x_gradient": "attention times gradient",
}


def named(method: str) -> str:
    """A method as it is written.

    >>> named("attention_last"), named("integrated_gradients")
    ('attention in the last layer', 'integrated gradients')
    """
    return METHODS.get(method, method.replace("_", " "))


def _sentence_case(words: str) -> str:
    return words[:1].upper() + words[1:]


def explanation_notes(study: Tables) -> list[str]:
    """How many evaluations integrated gradients needed, and their completeness gap."""
    columns = ["method", "gap", "evaluations", "converged"]
    table = study.table("explanations", columns)
    exact = table[table["method"] == "integrated_gradients"]
    if not exact["gap"].notna().any():
        return []
    late = int((~exact["converged"]).sum())
    return [
        f"Integrated gradients needed {exact['evaluations'].median():.0f} gradient evaluations per "
        f"text (median; at most {exact['evaluations'].max():,}); completeness gap (0% is exact) "
        f"{percent(exact['gap'].median(), 2)} (at most {percent(exact['gap'].max(), 2)})"
        + (f"; {late:,} texts did not converge." if late else ".")
    ]


def explained_texts(study: Tables) -> dict[str, float]:
    """How many texts were explained."""
    return {"explained texts": study.table("explanations", ["text"])["text"].nunique()}


def explained_majority(study: Tables) -> AtMajority | None:
    """The model that is explained, if it is no better than the majority class."""
    table = study.table("explanations", ["text", "label", "predicted"]).drop_duplicates("text")
    known = table.dropna(subset=["label", "predicted"])
    known = known[known["label"].astype(str) != ""]
    if known.empty or not set(known["label"]) & set(known["predicted"]):
        return None
    right = int((known["label"] == known["predicted"]).sum())
    most = int(known["label"].value_counts().iloc[0])
    weights = weights_of(study.study_with_table("explanations").manifest)
    return at_majority("The model", right, len(known), most, SO, weights)


def agreement_claims(study: Tables) -> list[Claim]:
    """Kendall's tau of every kind of attention with the attribution, under the strictest mask."""
    table = study.table("agreement")
    rows = table[(table["metric"] == "tau") & (table["convention"] == "sound")]
    if rows.empty:
        return []
    keep = "keywords" if (rows["keep"] == "keywords").any() else str(rows["keep"].iloc[-1])
    published = table[(table["metric"] == "tau") & (table["convention"] == "published")]
    published = published[published["keep"] == keep].set_index("left")
    return [
        Claim.of_row(
            f"{_sentence_case(named(row['left']))} agrees with {named(row['right'])} on {keep}",
            row,
            "value",
            "chance",
            "chance",
            what="Kendall's tau",
            further=_as_published(published, row["left"]),
            group=str(row["left"]),
            members="methods",
            bounds=(-1.0, 1.0),
        )
        for row in rows[rows["keep"] == keep].to_dict("records")
    ]


def _as_published(published: pd.DataFrame, left: str) -> str:
    """The number as Hou 2022 computes it, with masked tokens as zeros, and its own chance."""
    if left not in published.index or pd.isna(published.loc[left, "value"]):
        return ""
    row = published.loc[left]
    value, chance = decimal(row["value"]), decimal(row["chance"])
    return f"With masked tokens counted as zeros (Hou 2022) it is {value}, and chance {chance}."


def faithfulness_claims(study: Tables) -> list[Claim]:
    """How much removing the top tokens of every method changes the prediction."""
    table = study.table("faithfulness")
    rows = table[(table["bin"] == 0) & (table["measured"] == "comprehensiveness")]
    rows = rows[rows["how"] == table["how"].iloc[0]] if len(table) else rows
    return [
        Claim.of_row(
            f"Removing the tokens that rank highest by {named(row['method'])} "
            "lowers the probability of the prediction",
            row,
            "value",
            "random",
            "random order",
            what="by",
            members="methods",
            bounds=(-1.0, 1.0),
        )
        for row in rows.to_dict("records")
        if row["method"] != "random"
    ]


def plausibility_claims(study: Tables) -> list[Claim]:
    """How well every method agrees with what people marked."""
    rows = study.table("plausibility")
    return [
        Claim.of_row(
            f"{_sentence_case(named(row['method']))} agrees with the human rationales",
            row,
            "value",
            "random",
            "random order",
            what="AUPRC",
            members="methods",
        )
        for row in rows[rows["metric"] == "auprc"].to_dict("records")
        if row["method"] != "random"
    ]


def explained_facts(study: Tables, usual: list[Fact]) -> list[Fact]:
    """How many texts were explained, before the time that it took."""
    counts = study.manifest["counts"]
    if "explained" not in counts:
        return usual
    missed = (
        f", {counts['unexplained']:,} not explained; each with its reason in quarantine.jsonl"
        if counts["unexplained"]
        else ""
    )
    late = f", {counts['not_converged']:,} did not converge" if counts["not_converged"] else ""
    few = (
        f", {counts['not_compared']:,} have fewer than two tokens to compare"
        if counts["not_compared"]
        else ""
    )
    explained = ("explained", f"{counts['explained']:,} texts{missed}{late}{few}")
    return [*usual[:-1], explained, *usual[-1:]]
