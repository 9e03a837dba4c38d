"""What fine-tuning shows: scores on dev, with the majority class as their control."""

from __future__ import annotations

from typing import Any

from attlas.views.numbers import number
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.tables import TextTable, table_html, text_table

TITLES = {"mcc": "MCC", "majority": "majority class"}


def _columns(frame: Any) -> dict[str, str]:
    return {str(name): TITLES.get(str(name), str(name)) for name in frame.columns}


def _figures(study: Tables) -> list[Figure]:
    table = study.table("finetune")
    return [Figure("Scores on dev.", html=table_html(table, _columns(table)))]


def _findings(study: Tables) -> list[str]:
    about = study.holding("finetune").manifest.get("finetune")
    if about is None:
        return []
    scores, majority = about["scores"], about["majority"]
    low, high = about["accuracy_interval"]
    beyond = low > majority
    claim = "predicts labels" if beyond else "is not significantly better than the majority class"
    return [
        f"The fine-tuned model {claim}: accuracy {number(scores['accuracy'])} "
        f"[{number(low)}, {number(high)}] on {about['counts']['dev']:,} texts of dev, "
        f"MCC {number(scores['mcc'])}; majority class {number(majority)}"
    ]


def _lines(study: Tables) -> list[TextTable]:
    table = study.table("finetune")
    if "epoch" in table:
        table = table.assign(epoch=[f"{value:g}" for value in table["epoch"]])
    if "C" in table:
        table = table.assign(C=[f"{value:g}" for value in table["C"]])
    return [text_table(table, _columns(table))]


SECTIONS = {
    "finetune": Section(
        title="Fine-tuning",
        question="How well does the fine-tuned model predict labels?",
        needs=("finetune",),
        about=prose(__file__)["finetune"],
        figures=_figures,
        findings=_findings,
        terminal=_lines,
        names_heads=False,
    )
}
