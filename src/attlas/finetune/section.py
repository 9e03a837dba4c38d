"""What fine-tuning shows: scores on dev, with the majority class as their control."""

from __future__ import annotations

from attlas.views.numbers import decimal, estimate, finding
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import Column, TextTable, declared, text_table

TEXT = prose(__file__)["finetune"]
COLUMNS = (
    Column("epoch", "epoch", format="general"),
    Column("C", "C", format="general"),
    Column("mcc", "MCC"),
    Column("accuracy", "accuracy", control="majority"),
    Column("majority", "majority class"),
)


def _table(study: Tables) -> TextTable:
    table = study.table("finetune")
    return text_table(table, declared(COLUMNS, map(str, table.columns)))


def _figures(study: Tables) -> list[Figure]:
    return [TEXT.figure("scores", table=_table(study))]


def _findings(study: Tables) -> list[str]:
    about = study.study_with_table("finetune").manifest.get("finetune")
    if about is None:
        return []
    scores, majority = about["scores"], about["majority"]
    low, high = about["accuracy_interval"]
    beyond = low > majority
    claim = "predicts labels" if beyond else "is not significantly better than the majority class"
    return [
        finding(
            f"The fine-tuned model {claim}",
            f"accuracy on dev {estimate(scores['accuracy'], low, high)}",
            f"MCC {decimal(scores['mcc'])}",
            f"majority class {decimal(majority)}",
            n=about["counts"]["dev"],
        )
    ]


SECTIONS = {
    "finetune": TEXT.section(
        needs=("finetune",),
        figures=_figures,
        findings=_findings,
        terminal=lambda study: [_table(study)],
        names_heads=False,
    )
}
