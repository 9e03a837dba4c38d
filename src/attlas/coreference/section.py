"""What coreference heads show: whose antecedents they find, next to rules and baselines."""

from __future__ import annotations

import altair as alt
import pandas as pd

from attlas.views.charts import Estimates, beside_control
from attlas.views.findings import excluded
from attlas.views.numbers import head_name, number
from attlas.views.section import Figure, Section, Tables, head_figure, prose
from attlas.views.tables import TextTable, text_table

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
PRINTED = {
    "who": "who",
    "kind": "mentions",
    "accuracy": "accuracy",
    "low": "from",
    "high": "to",
    "n": "n",
}


def coreference(frame: pd.DataFrame) -> alt.HConcatChart:
    """Heads and baselines by kind of mention; the grey tick is what rules reach."""
    rules = frame[frame["who"] == "rules"].set_index("kind")["accuracy"]
    names = frame["who"].map(WHO).fillna(frame["who"])
    data = frame.assign(value=frame["accuracy"], rules=frame["kind"].map(rules), who=names)
    return beside_control(data, Estimates("who", "kind", "rules", width=180))


def _figures(study: Tables) -> list[Figure]:
    table = study.table("coreference")
    if table.empty:
        return []
    caption = (
        "Antecedents: the share of mentions whose antecedent is found, by kind of mention, with "
        "95 % intervals over windows; the grey tick is what rules reach (Table 2 of the paper)."
    )
    every = "Every head: the share of mentions that attend most to an antecedent; _from is the other way round."
    heads = head_figure(every, study.table("coreference_heads"), first="all")
    return [Figure(caption, coreference(table)), *heads]


def _findings(study: Tables) -> list[str]:
    table = study.table("coreference")
    every = table[table["kind"] == "all"].set_index("who")
    left = excluded(study.holding("coreference").manifest)
    if "head" not in every.index or not every["accuracy"].notna().any():
        return left
    head = every.loc["head"]
    beside = [f"{what} {_accuracy(every, who)}" for who, what in BASELINES.items()]
    found = f"{number(head['accuracy'])} [{number(head['low'])}, {number(head['high'])}]"
    return [
        f"{head_name(head)} finds the antecedent of {found} of {int(head['n']):,} mentions; "
        + ", ".join(beside),
        *left,
    ]


def _accuracy(every: pd.DataFrame, who: str) -> str:
    return number(every.loc[who, "accuracy"]) if who in every.index else "-"


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("coreference"), PRINTED, words=2, whole=("n",))]


SECTIONS = {
    "coreference": Section(
        title="Who is meant",
        question="Do heads find antecedents?",
        needs=("coreference", "coreference_heads"),
        about=prose(__file__)["coreference"],
        figures=_figures,
        findings=_findings,
        terminal=_lines,
    )
}
