"""What Repetition shows: which heads attend to repeated tokens, with both controls."""

from __future__ import annotations

from attlas.views.numbers import head_name, number
from attlas.views.section import Figure, Section, Tables, head_figure, largest, prose
from attlas.views.tables import TextTable, text_table

COLUMNS = {
    "layer": "layer",
    "head": "head",
    "repetition": "share",
    "repetition_uniform": "uniform",
    "repetition_random": "random weights",
}


def _figures(study: Tables) -> list[Figure]:
    caption = "Attention to other occurrences: each cell a head, hover for its controls."
    return head_figure(caption, study.table("repetition_heads"), ["repetition"])


def _findings(study: Tables) -> list[str]:
    best = largest(study.table("repetition_best"), "repetition")
    if best is None:
        return []
    return [
        f"{head_name(best)} attends most to other occurrences of a token: "
        f"{number(best['repetition'])} (uniform attention {number(best['repetition_uniform'])}, "
        f"random weights {number(best['repetition_random'])})"
    ]


def _lines(study: Tables) -> list[TextTable]:
    table = study.table("repetition_best")
    return [text_table(table, COLUMNS, words=0, whole=("layer", "head"))]


SECTION = Section(
    title="Repetition",
    question="Which heads attend to other occurrences of the same token?",
    needs=("repetition_best", "repetition_heads"),
    about=prose(__file__)["repetition"],
    figures=_figures,
    findings=_findings,
    terminal=_lines,
)
