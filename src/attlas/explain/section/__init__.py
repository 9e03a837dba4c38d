"""What explanations show: tinted texts, agreement, faithfulness, plausibility, types of tokens."""

from __future__ import annotations

import altair as alt
import pandas as pd

from attlas.explain.kinds import ANY
from attlas.explain.section.findings import (
    agreement_findings,
    explained_facts,
    explanation_findings,
    faithfulness_findings,
    named,
    plausibility_findings,
)
from attlas.explain.section.texts import is_signed, methods_of, study_overlay
from attlas.explain.tokens import by_position, by_type
from attlas.views import charts
from attlas.views.charts import Estimates
from attlas.views.numbers import number
from attlas.views.parts import TintedText
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.texts import EXAMPLE_TEXTS, within_budget

ABOUT = prose(__file__)
ANSWERS = 3  # classes whose types are drawn


def _explanations(study: Tables) -> list[Figure]:
    explained = set(study.table("explanations", ["text"])["text"])
    sample = [row for _, row in within_budget(study.sample(EXAMPLE_TEXTS))]
    rows = [row for row in sample if row["text"] in explained]
    if not rows:
        return []
    caption = (
        "Explained texts: words tinted by the first method; choose another, click a word for its "
        "score by every method."
    )
    shown = tuple(TintedText(*study_overlay(study, row)) for row in rows)
    first = str(rows[0]["text"])
    tokens = study.table("attributions", text=first)
    method = methods_of(tokens)[0]
    pair = alt.hconcat(
        charts.ends(by_position(tokens, method), "score").properties(title="by position"),
        charts.ends(by_type(tokens, method), "score").properties(
            title="by type (sum over the text)"
        ),
    )
    one = f"One text's tokens ({first}): the most for and the most against, {named(method)}."
    return [Figure(caption, parts=shown), Figure(one, pair)]


def _attribution_types(study: Tables) -> list[Figure]:
    types = study.table("attribution_types")
    if types.empty:
        return []
    methods = list(dict.fromkeys(types["method"]))
    method = next((name for name in methods if is_signed(name)), methods[0])
    rows = types[types["method"] == method]
    caption = (
        "Types over the corpus: tokens that speak most for and against the explained answers, "
        f"{named(method)}."
    )
    out = [Figure(caption, _over_texts(rows[rows["predicted"] == ANY]))]
    answers = [str(answer) for answer in dict.fromkeys(rows["predicted"]) if answer != ANY]
    if len(answers) > 1:
        sides = [_of_answer(rows, answer) for answer in answers[:ANSWERS]]
        caption = "Types by answer: the same among texts of each predicted class."
        out.append(Figure(caption, alt.hconcat(*sides)))
    if study.has("attribution_difference"):
        out += _difference(study.table("attribution_difference"), method)
    return out


def _over_texts(every: pd.DataFrame) -> alt.HConcatChart:
    """Means over texts, and over the texts that have the token."""
    mean = charts.ends(every, "mean", title="mean over texts")
    pair = [mean.properties(title="mean over texts, absent is 0")]
    often = every[every["texts"] > 1]
    if len(often):
        chart = charts.ends(often, "per_occurrence", title="per occurrence")
        pair.append(chart.properties(title="per occurrence, in more than one text"))
    return alt.hconcat(*pair)


def _of_answer(rows: pd.DataFrame, answer: str) -> alt.LayerChart | alt.FacetChart:
    chart = charts.ends(rows[rows["predicted"] == answer], "mean", title="mean over texts")
    return chart.properties(title=f"predicted {answer}")


def _difference(table: pd.DataFrame, method: str) -> list[Figure]:
    table = table[table["method"] == method]
    if table.empty:
        return []
    left, right = table["left"].iloc[0], table["right"].iloc[0]
    caption = (
        f"Difference between answers: mean where {left} was predicted less mean where {right} was."
    )
    return [Figure(caption, charts.ends(table, "difference", title=f"{left} less {right}"))]


def _agreement(study: Tables) -> list[Figure]:
    table = study.table("agreement")
    if not (table["convention"] == "sound").any():
        return []
    right = named(str(table["right"].iloc[0]))
    p = float(table[table["convention"] == "sound"]["p"].iloc[0])
    keywords = (table["keep"] == "keywords").any()
    first = "keywords" if keywords else str(table["keep"].iloc[0])
    estimates = Estimates("left", "metric", "chance", series="convention", choose=("keep", first))
    caption = (
        f"Agreement with {right}: mean over texts with its 95 % interval, grey is chance (scores "
        f"shuffled among kept tokens); rbo has p {number(p)}, as published 1; jaccard is of the "
        f"top {float(table['top'].iloc[0]):.0%}. Choose which tokens take part."
    )
    return [Figure(caption, charts.beside_control(table, estimates))]


def _faithfulness(study: Tables) -> list[Figure]:
    table = study.table("faithfulness")
    shares = ", ".join(f"{share:.0%}" for share in sorted(set(table["bin"])) if share)
    out = []
    for how in dict.fromkeys(table["how"]):
        rows = table[(table["how"] == how) & (table["bin"] == 0)]
        done = "removed" if how == "remove" else "replaced by the mask token"
        caption = (
            f"Tokens {done}: what the answer loses, mean over {shares} of tokens; grey is a random "
            "order. Comprehensiveness should be high, sufficiency low."
        )
        estimates = Estimates("method", "measured", "random", width=330)
        out.append(Figure(caption, charts.beside_control(rows, estimates)))
    return out


def _plausibility(study: Tables) -> list[Figure]:
    table = study.table("plausibility")
    if table.empty:
        return []
    caption = (
        "Against human rationales: words of highest score beside the words people marked; grey is "
        "a random order."
    )
    estimates = Estimates("method", "metric", "random", width=250)
    return [Figure(caption, charts.beside_control(table, estimates))]


_ORDER = 3  # on the page: after what probes find, before the shape of attention
SECTIONS = {
    "explanations": Section(
        title="Why the model says so",
        question="Which tokens does an answer rest on?",
        needs=("explanations", "attributions", "texts"),
        about=ABOUT["explanations"],
        figures=_explanations,
        findings=explanation_findings,
        facts=explained_facts,
        order=_ORDER,
    ),
    "agreement": Section(
        title="Does attention agree?",
        question="Does attention agree with attribution?",
        needs=("agreement",),
        about=ABOUT["agreement"],
        figures=_agreement,
        findings=agreement_findings,
        order=_ORDER,
    ),
    "faithfulness": Section(
        title="Does the answer rest on these tokens?",
        question="Does the model need the tokens it is said to use?",
        needs=("faithfulness",),
        about=ABOUT["faithfulness"],
        figures=_faithfulness,
        findings=faithfulness_findings,
        order=_ORDER,
    ),
    "plausibility": Section(
        title="Do people agree?",
        question="Do people mark the same words?",
        needs=("plausibility",),
        about=ABOUT["plausibility"],
        figures=_plausibility,
        findings=plausibility_findings,
        order=_ORDER,
    ),
    "attribution_types": Section(
        title="Words that speak for and against",
        question="Which words speak for and against?",
        needs=("attribution_types",),
        about=ABOUT["attribution_types"],
        figures=_attribution_types,
        order=_ORDER,
    ),
}
