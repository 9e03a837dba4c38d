"""What Repetition shows: which heads attend to repeated tokens, with both controls."""

from __future__ import annotations

from attlas.views.claims import Claim, head_claims
from attlas.views.section import Figure, Tables, head_figure, prose
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


def _claims(study: Tables) -> list[Claim]:
    """Every head against uniform attention; they are judged together."""
    heads = study.study_with_table("repetition_heads")
    texts = int(heads.manifest["counts"].get("analysed", 0))
    words = "attends to other occurrences of a token"
    return head_claims(study.table("repetition_heads"), SHARE, words, texts)


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("repetition_best"), COLUMNS)]


SECTION = TEXT.section(
    needs=("repetition_best", "repetition_heads"),
    figures=_figures,
    claims=_claims,
    smallest_effect=0.02,
    terminal=_lines,
)
