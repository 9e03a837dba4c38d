"""Findings of explanations: how exact they are, whether attention agrees with them."""

from __future__ import annotations

from attlas.views.numbers import decimal, estimate, finding
from attlas.views.section import Fact, Tables, largest, smallest


def named(method: str) -> str:
    """A method as it is written."""
    return method.replace("_", " ")


def explanation_findings(study: Tables) -> list[str]:
    """How many evaluations integrated gradients needed, and their completeness gap."""
    columns = ["method", "gap", "evaluations", "converged"]
    table = study.table("explanations", columns)
    exact = table[table["method"] == "integrated_gradients"]
    if not exact["gap"].notna().any():
        return []
    late = int((~exact["converged"]).sum())
    return [
        f"Integrated gradients needed {exact['evaluations'].median():.0f} gradient evaluations per "
        f"text (median; at most {exact['evaluations'].max():,}); completeness gap "
        f"{exact['gap'].median():.2%} (at most {exact['gap'].max():.2%})"
        + (f"; {late:,} texts did not converge." if late else ".")
    ]


def agreement_findings(study: Tables) -> list[str]:
    """The corrected number and the published one, each with chance, under the strictest mask."""
    table = study.table("agreement")
    if table.empty:
        return []
    keywords = (table["keep"] == "keywords").any()
    keep = "keywords" if keywords else str(table["keep"].iloc[-1])
    every = (table["left"] == "attention_all").any()
    left = "attention_all" if every else str(table["left"].iloc[0])
    rows = table[(table["keep"] == keep) & (table["left"] == left)]
    tau = rows[rows["metric"] == "tau"].set_index("convention")
    if not {"sound", "published"} <= set(tau.index) or tau["value"].isna().all():
        return []
    sound, published = tau.loc["sound"], tau.loc["published"]
    return [
        finding(
            f"{named(left).capitalize()} and {named(sound['right'])} on {keep}, Kendall's tau",
            estimate(sound["value"], sound["low"], sound["high"]),
            f"chance {decimal(sound['chance'])}",
            f"as published (masked tokens count as 0) {decimal(published['value'])}",
            f"where chance gives {decimal(published['chance'])}",
            n=sound["texts"],
        )
    ]


def faithfulness_findings(study: Tables) -> list[str]:
    """Which method finds the tokens that the prediction depends on most, and which least."""
    table = study.table("faithfulness")
    rows = table[(table["bin"] == 0) & (table["measured"] == "comprehensiveness")]
    rows = rows[rows["how"] == table["how"].iloc[0]] if len(table) else rows
    best, least = largest(rows, "value"), smallest(rows, "value")
    if best is None or least is None:
        return []
    effect = estimate(best["value"], best["low"], best["high"])
    control = f"random order {decimal(best['random'])}"
    if len(rows) == 1:
        claim = f"Removing the top tokens by {named(best['method'])} changes the prediction"
        return [finding(claim, effect, control, n=best["texts"])]
    other = f"least for {named(least['method'])} {decimal(least['value'])}"
    claim = f"Removing the top tokens by {named(best['method'])} changes the prediction most"
    return [finding(claim, effect, other, control, n=best["texts"])]


def plausibility_findings(study: Tables) -> list[str]:
    """Which method agrees best with what people marked."""
    rows = study.table("plausibility")
    best = largest(rows[rows["metric"] == "auprc"], "value")
    if best is None:
        return []
    claim = f"{named(best['method']).capitalize()} agrees best with the human rationales"
    effect = f"AUPRC {decimal(best['value'])}"
    return [finding(claim, effect, f"random order {decimal(best['random'])}", n=best["texts"])]


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
