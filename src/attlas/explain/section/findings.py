"""What stands out of explanations: how exact they are, whether attention agrees with them."""

from __future__ import annotations

from attlas.views.numbers import number
from attlas.views.section import Fact, Tables, largest, smallest


def named(method: str) -> str:
    """A method as it is written."""
    return method.replace("_", " ")


def explanation_findings(study: Tables) -> list[str]:
    """How many gradients integrated gradients took, and how much they miss."""
    columns = ["method", "gap", "evaluations", "converged"]
    table = study.table("explanations", columns)
    exact = table[table["method"] == "integrated_gradients"]
    if not exact["gap"].notna().any():
        return []
    late = int((~exact["converged"]).sum())
    return [
        f"Integrated gradients took {exact['evaluations'].median():.0f} gradients a text (median; "
        f"at most {exact['evaluations'].max():,}) and miss the difference they explain by "
        f"{exact['gap'].median():.2%} (at most {exact['gap'].max():.2%})"
        + (f"; {late:,} texts did not converge" if late else "")
    ]


def agreement_findings(study: Tables) -> list[str]:
    """The published number and the sound one, each with chance, under the strictest mask."""
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
    ends = f"[{number(sound['low'])}, {number(sound['high'])}]"
    return [
        f"{named(left).capitalize()} against {named(sound['right'])} on {keep}: tau "
        f"{number(sound['value'])} {ends}, chance {number(sound['chance'])}; as published (masked "
        f"tokens count as 0) tau {number(published['value'])}, of which chance gives "
        f"{number(published['chance'])} ({int(sound['texts']):,} texts)"
    ]


def faithfulness_findings(study: Tables) -> list[str]:
    """By which method the answer loses most without its top tokens, and by which least."""
    table = study.table("faithfulness")
    rows = table[(table["bin"] == 0) & (table["measured"] == "comprehensiveness")]
    rows = rows[rows["how"] == table["how"].iloc[0]] if len(table) else rows
    best, least = largest(rows, "value"), smallest(rows, "value")
    if best is None or least is None:
        return []
    if len(rows) == 1:
        lost = f"{number(best['value'])} [{number(best['low'])}, {number(best['high'])}]"
        return [
            f"Without the top tokens by {named(best['method'])} the answer loses {lost}, random "
            f"order {number(best['random'])} ({int(best['texts']):,} texts)"
        ]
    return [
        f"Without its top tokens the answer loses most by {named(best['method'])} "
        f"({number(best['value'])}) and least by {named(least['method'])} "
        f"({number(least['value'])}); random order {number(best['random'])}"
    ]


def plausibility_findings(study: Tables) -> list[str]:
    """Which method is nearest to what people marked."""
    rows = study.table("plausibility")
    best = largest(rows[rows["metric"] == "auprc"], "value")
    if best is None:
        return []
    return [
        f"Nearest to what people marked is {named(best['method'])} (area under precision and "
        f"recall {number(best['value'])}, random {number(best['random'])}, "
        f"{int(best['texts']):,} texts)"
    ]


def explained_facts(study: Tables, usual: list[Fact]) -> list[Fact]:
    """How many texts were explained, before the time that it took."""
    counts = study.manifest["counts"]
    if "explained" not in counts:
        return usual
    missed = (
        f", {counts['unexplained']:,} could not be; each with its reason in quarantine.jsonl"
        if counts["unexplained"]
        else ""
    )
    late = f", {counts['not_converged']:,} did not converge" if counts["not_converged"] else ""
    few = (
        f", {counts['not_compared']:,} have fewer than two tokens to compare under some mask"
        if counts["not_compared"]
        else ""
    )
    explained = ("explained", f"{counts['explained']:,} texts{missed}{late}{few}")
    return [*usual[:-1], explained, *usual[-1:]]
