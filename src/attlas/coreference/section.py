"""What coreference heads show: whose antecedents they find, next to rules and baselines."""

from __future__ import annotations

import altair as alt
import pandas as pd

from attlas.views.charts import Estimates, with_controls
from attlas.views.findings import excluded
from attlas.views.numbers import decimal, estimate, finding, head_name
from attlas.views.section import Figure, Tables, head_figure, prose
from attlas.views.tables import Column, TextTable, text_table

TEXT = prose(__file__)["coreference"]
WHO = {
    "head": "best head (chosen on train)",
    "head_by_kind": "best head for the kind",
    "head_back": "best head, antecedent to mention",
    "random": "random weights, best head",
    "nearest": "nearest mention",
    "head_match": "same head word",
    "rules": "rules",
}
BASELINES = {
    "nearest": "nearest mention",
    "head_match": "same head word",
    "rules": "rules",
    "random": "random weights",
}
KINDS = {"all": "all mentions", "pronoun": "pronouns", "proper": "names", "common": "noun phrases"}
COLUMNS = (
    Column("who", "method", format="words", words=WHO),
    Column("kind", "mentions", format="words", words=KINDS),
    Column("accuracy", "accuracy", interval=("low", "high")),
    Column("n", "n", format="count"),
)
HEADS = tuple(
    Column(f"{name}{end}", f"{label}{way}", kind="above", control=f"{name}{end}_random")
    for end, way in (("", ""), ("_from", ", antecedent to mention"))
    for name, label in KINDS.items()
)


def coreference(frame: pd.DataFrame) -> alt.HConcatChart:
    """Heads and baselines by kind of mention; the grey tick is what rules reach."""
    rules = frame[frame["who"] == "rules"].set_index("kind")["accuracy"]
    names = frame["who"].map(WHO).fillna(frame["who"])
    kinds = frame["kind"].map(KINDS).fillna(frame["kind"])
    values = {"value": frame["accuracy"], "rules": frame["kind"].map(rules)}
    labels = {"who": "method"}
    return with_controls(
        frame.assign(**values, who=names, kind=kinds),
        Estimates("who", "kind", "rules", width=180, labels=labels),
    )


def _figures(study: Tables) -> list[Figure]:
    table = study.table("coreference")
    if table.empty:
        return []
    heads = head_figure(TEXT, study.table("coreference_heads"), HEADS, first="all")
    scores = TEXT.figure("mentions", coreference(table), table=text_table(table, COLUMNS))
    return [scores, *heads]


def _findings(study: Tables) -> list[str]:
    table = study.table("coreference")
    every = table[table["kind"] == "all"].set_index("who")
    left = excluded(study.study_with_table("coreference").manifest)
    if "head" not in every.index or not every["accuracy"].notna().any():
        return left
    head = every.loc["head"]
    controls = [
        f"{name} {decimal(every.loc[who, 'accuracy'])}"
        for who, name in BASELINES.items()
        if who in every.index
    ]
    effect = estimate(head["accuracy"], head["low"], head["high"])
    return [
        finding(f"{head_name(head)} finds the antecedent", effect, *controls, n=head["n"]),
        *left,
    ]


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("coreference"), COLUMNS)]


SECTIONS = {
    "coreference": TEXT.section(
        needs=("coreference", "coreference_heads"),
        figures=_figures,
        findings=_findings,
        terminal=_lines,
    )
}
