"""What coreference heads show: whose antecedents they find, next to rules and baselines."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from attlas.views.charts import Estimates, with_controls
from attlas.views.claims import Claim, paired_ends, whole
from attlas.views.head_rows import Head, HeadRow, column_rows
from attlas.views.numbers import decimal, head_name, head_of
from attlas.views.probes import probe_section
from attlas.views.section import Figure, Tables, head_figure, prose
from attlas.views.tables import Column, TextTable, text_table
from attlas.views.vega import alt

TEXT = prose(__file__)["coreference"]
# The smallest difference of interest; section.md has the reason.
ACCURACY = 0.05
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
    Column(
        "accuracy",
        "accuracy",
        kind="above",
        interval=("low", "high"),
        control_row={"who": "rules"},
    ),
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
    name = "coreference_heads"
    heads = head_figure(TEXT, study.table(name), HEADS, first="all", table=name)
    scores = TEXT.figure("mentions", coreference(table), table=text_table(table, COLUMNS))
    return [scores, *heads]


def _claims(study: Tables) -> list[Claim]:
    """The chosen head against the strongest baseline, over all mentions and by kind."""
    table, out = study.table("coreference"), []
    name = "coreference_differences"
    apart = study.table(name) if study.has(name) else None
    for kind, label in KINDS.items():
        rows = table[table["kind"] == kind].set_index("who")
        who = "head" if kind == "all" else "head_by_kind"
        rivals = rows[rows.index.isin(list(BASELINES))]["accuracy"].dropna()
        if who not in rows.index or pd.isna(rows.loc[who, "accuracy"]) or rivals.empty:
            continue
        head, rival = rows.loc[who], str(rivals.idxmax())
        others = tuple(
            f"{BASELINES[name]} {decimal(value)}" for name, value in rivals.items() if name != rival
        )
        out.append(
            Claim.against(
                f"{head_name(head)} finds the antecedents of {label}",
                head,
                rows.loc[rival],
                BASELINES[rival],
                ("accuracy", "low", "high"),
                paired_ends(apart, who=who, kind=kind, control=rival),
                texts=whole(head["texts"]),
                n=head["n"],
                also=others,
                group=kind,
                head=head_of(head),
                label=f"accuracy: antecedents of {label}",
            )
        )
    return out


def _head_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """Accuracy of every head by kind of mention, against that of random weights."""
    columns = [replace(one, label=f"accuracy: antecedents of {one.label}") for one in HEADS]
    return column_rows(study.table("coreference_heads"), columns, "random weights")


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("coreference"), COLUMNS)]


SECTIONS = {
    "coreference": probe_section(
        TEXT,
        ("coreference", "coreference_heads"),
        figures=_figures,
        claims=_claims,
        smallest_effect=ACCURACY,
        head_rows=_head_rows,
        terminal=_lines,
        columns={"coreference_heads": HEADS},
    )
}
