"""What Repetition shows: which heads attend to repeated tokens, with both controls."""

from __future__ import annotations

from attlas.views.numbers import decimal, finding, head_name
from attlas.views.section import Figure, Tables, head_figure, largest, prose
from attlas.views.tables import Column, TextTable, text_table

TEXT = prose(__file__)["repetition"]
SHARE = Column("repetition", "share", kind="above", control="repetition_uniform")
COLUMNS = (
    Column("layer", "layer", format="count"),
    Column("head", "head", format="count"),
    SHARE,
    Column("repetition_uniform", "uniform"),
    Column("repetition_random", "random weights"),
)


def _figures(study: Tables) -> list[Figure]:
    return head_figure(TEXT, study.table("repetition_heads"), [SHARE])


def _findings(study: Tables) -> list[str]:
    best = largest(study.table("repetition_best"), "repetition")
    if best is None:
        return []
    return [
        finding(
            f"{head_name(best)} attends most to other occurrences of a token",
            decimal(best["repetition"]),
            f"uniform attention {decimal(best['repetition_uniform'])}",
            f"random weights {decimal(best['repetition_random'])}",
        )
    ]


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("repetition_best"), COLUMNS)]


SECTION = TEXT.section(
    needs=("repetition_best", "repetition_heads"),
    figures=_figures,
    findings=_findings,
    terminal=_lines,
)
