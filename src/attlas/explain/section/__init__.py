"""What explanations show: shaded texts, agreement, faithfulness, plausibility, types of tokens."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from attlas.explain.kinds import ANY
from attlas.explain.section.aligned import AlignedTexts, study_texts
from attlas.explain.section.findings import (
    agreement_claims,
    explained_facts,
    explained_majority,
    explained_texts,
    explanation_notes,
    faithfulness_claims,
    named,
    plausibility_claims,
)
from attlas.explain.section.texts import is_signed, methods_of, study_overlay
from attlas.explain.tokens import by_position, by_type
from attlas.views import charts
from attlas.views.charts import Estimates
from attlas.views.numbers import decimal, percent
from attlas.views.parts import TintedText
from attlas.views.section import Figure, Tables, prose
from attlas.views.texts import EXAMPLE_TEXTS, within_budget
from attlas.views.vega import alt

TEXT = prose(__file__)
# The smallest differences of interest; section.md has the reasons.
TAU, PROBABILITY, F1 = 0.1, 0.02, 0.05
ANSWERS = 3  # classes whose types are drawn
LABELS = {
    "left": "method",
    "method": "method",
    "keep": "tokens",
    "convention": "convention",
    "random": "random order",
}
METRICS = {
    "tau": "Kendall's tau-b",
    "rbo": "rank-biased overlap",
    "jaccard": "Jaccard of the top",
    "token_f1": "token F1",
    "auprc": "AUPRC",
    "iou_f1": "F1 of spans",
}
CONVENTIONS = {
    "sound": "masked tokens left out",
    "published": "masked tokens as zeros",
}


def _explanations(study: Tables) -> list[Figure]:
    explained = set(study.table("explanations", ["text"])["text"])
    own = study.study_with_table("explanations")  # perhaps of fewer texts
    source = own if own.has("texts") else study
    sample = [row for _, row in within_budget(source.sample(EXAMPLE_TEXTS))]
    rows = [row for row in sample if row["text"] in explained]
    if not rows:
        return []
    shown = tuple(
        TintedText(*study_overlay(study, row), follows=number > 0)
        for number, row in enumerate(rows)
    )
    first, words = str(rows[0]["text"]), TEXT["explanations"]
    tokens = study.table("attributions", text=first)
    method = methods_of(tokens)[0]
    pair = alt.hconcat(
        charts.ends(by_position(tokens, method), "score").properties(title="by position"),
        charts.ends(by_type(tokens, method), "score").properties(
            title="by type (sum over the text)"
        ),
    )
    out = [words.figure("explained-texts", parts=shown)]
    if aligned := study_texts(study, rows):
        out.append(words.figure("attention-and-attribution", parts=(AlignedTexts(tuple(aligned)),)))
    return [*out, words.figure("tokens", pair, text=first, method=named(method))]


def _attribution_types(study: Tables) -> list[Figure]:
    types, words = study.table("attribution_types"), TEXT["attribution_types"]
    if types.empty:
        return []
    methods = list(dict.fromkeys(types["method"]))
    method = next((name for name in methods if is_signed(name)), methods[0])
    rows = types[types["method"] == method]
    every = rows[rows["predicted"] == ANY]
    out = [words.figure("types", _over_texts(every), method=named(method))]
    answers = [str(answer) for answer in dict.fromkeys(rows["predicted"]) if answer != ANY]
    if len(answers) > 1:
        sides = [_of_answer(rows, answer) for answer in answers[:ANSWERS]]
        out.append(words.figure("types-by-answer", alt.hconcat(*sides)))
    if study.has("attribution_difference"):
        out += _difference(study.table("attribution_difference"), method)
    return out


def _over_texts(every: pd.DataFrame) -> alt.HConcatChart:
    """Means over texts, and over the texts that have the token."""
    mean = charts.ends(every, "mean", title="mean over texts")
    pair = [mean.properties(title="mean over texts, 0 where absent")]
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
    chart = charts.ends(table, "difference", title=f"{left} − {right}")
    words = TEXT["attribution_types"]
    return [words.figure("difference-between-answers", chart, left=left, right=right)]


def _agreement(study: Tables) -> list[Figure]:
    table = study.table("agreement")
    if not (table["convention"] == "sound").any():
        return []
    p = float(table[table["convention"] == "sound"]["p"].iloc[0])
    keywords = (table["keep"] == "keywords").any()
    first = "keywords" if keywords else str(table["keep"].iloc[0])
    estimates = Estimates(
        "left", "metric", "chance", series="convention", choose=("keep", first), labels=LABELS
    )
    return [
        TEXT["agreement"].figure(
            "metrics",
            charts.with_controls(_named(table, convention=CONVENTIONS), estimates),
            method=named(str(table["right"].iloc[0])),
            p=decimal(p),
            top=percent(float(table["top"].iloc[0])),
        )
    ]


def _named(table: pd.DataFrame, **names: Mapping[str, str]) -> pd.DataFrame:
    """A table with methods, metrics, and other columns, as they are called."""
    called = {
        column: table[column].map(words).fillna(table[column])
        for column, words in {"metric": METRICS, **names}.items()
        if column in table
    }
    methods = {column: table[column].map(named) for column in ("left", "method") if column in table}
    return table.assign(**called, **methods)


def _faithfulness(study: Tables) -> list[Figure]:
    table = study.table("faithfulness")
    shares = ", ".join(percent(share) for share in sorted(set(table["bin"])) if share)
    out = []
    for how in dict.fromkeys(table["how"]):
        rows = table[(table["how"] == how) & (table["bin"] == 0)]
        name = "tokens-removed" if how == "remove" else "tokens-masked"
        estimates = Estimates("method", "measured", "random", width=330, labels=LABELS)
        chart = charts.with_controls(_named(rows), estimates)
        out.append(TEXT["faithfulness"].figure(name, chart, shares=shares))
    return out


def _plausibility(study: Tables) -> list[Figure]:
    table = study.table("plausibility")
    if table.empty:
        return []
    estimates = Estimates("method", "metric", "random", width=250, labels=LABELS)
    chart = charts.with_controls(_named(table), estimates)
    return [TEXT["plausibility"].figure("rationales", chart)]


_ORDER = 3  # on the page: after what probes find, before the topology of attention
SECTIONS = {
    "explanations": TEXT["explanations"].section(
        needs=("explanations", "attributions", "texts"),
        figures=_explanations,
        texts_used=explained_texts,
        at_majority=explained_majority,
        of_predictions=True,
        notes=explanation_notes,
        facts=explained_facts,
        order=_ORDER,
    ),
    "agreement": TEXT["agreement"].section(
        needs=("agreement",),
        figures=_agreement,
        claims=agreement_claims,
        of_predictions=True,
        smallest_effect=TAU,
        order=_ORDER,
    ),
    "faithfulness": TEXT["faithfulness"].section(
        needs=("faithfulness",),
        figures=_faithfulness,
        claims=faithfulness_claims,
        of_predictions=True,
        smallest_effect=PROBABILITY,
        order=_ORDER,
    ),
    "plausibility": TEXT["plausibility"].section(
        needs=("plausibility",),
        figures=_plausibility,
        claims=plausibility_claims,
        of_predictions=True,
        smallest_effect=F1,
        order=_ORDER,
    ),
    "attribution_types": TEXT["attribution_types"].section(
        needs=("attribution_types",), figures=_attribution_types, order=_ORDER
    ),
}
