"""What sections say about rankings of heads: a note where they are reliable, else a warning."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pytest

import attlas
from attlas.measures.section import SECTIONS
from attlas.studies import Study
from attlas.testing import tiny
from attlas.views.report import render
from tests.builders.texts import sentences

HEADS = {"surface": pd.DataFrame([{"cls": 0.5, "first": 0.5}])}


@dataclass
class Planted:
    """Tables of one study."""

    tables: dict[str, pd.DataFrame]

    def has(self, name: str) -> bool:
        return name in self.tables

    def table(self, name: str) -> pd.DataFrame:
        return self.tables[name]


def planted(table: str, **reliabilities: float) -> Planted:
    rows = [
        {"column": name, "reliability": value, "first_texts": 40.0, "second_texts": 38.0}
        for name, value in reliabilities.items()
    ]
    return Planted({**HEADS, f"{table}_reliability": pd.DataFrame(rows)})


def test_a_ranking_that_halves_do_not_share_is_warned_of() -> None:
    nan = float("nan")
    surface = planted("surface", previous=0.98, next=0.31, first=-0.5, sep=nan)
    (note,) = SECTIONS["surface"].notes(surface)
    assert note == (
        "Split-half reliability of the ranking of heads by attention to: the previous token 0.98, "
        "the next token 0.31 (n = 40 and 38 texts; 0 is chance)."
    )
    (warning,) = SECTIONS["surface"].warnings(surface)  # nothing is claimed of the first token
    assert warning.startswith("Heads cannot be ranked by attention to the next token: the ranking")
    assert "reliability of 0.31 (below 0.5)" in warning
    entropy = planted("entropy", entropy=0.5, cls_entropy=0.49)
    assert (
        "by: entropy 0.50, entropy in the row of [CLS] 0.49"
        in SECTIONS["entropy"].notes(entropy)[0]
    )
    (warning,) = SECTIONS["entropy"].warnings(entropy)
    assert "in the row of [CLS]" in warning


@pytest.mark.parametrize("name", ["surface", "entropy"])
def test_tables_of_earlier_versions_say_nothing(name: str) -> None:
    for tables in (Planted(HEADS), planted(name, previous=float("nan"))):
        assert SECTIONS[name].notes(tables) == SECTIONS[name].warnings(tables) == []


def test_a_report_has_the_note_and_a_reliable_study_no_warning() -> None:
    texts = sentences(60, longest=9)
    study: Study = attlas.study(tiny("bert"), texts, "surface,entropy", workers=1, progress=False)
    sections = {name: SECTIONS[name] for name in ("surface", "entropy")}
    assert [line for one in sections.values() for line in one.warnings(study)] == []
    assert render(study, sections).count("Split-half reliability") == 2
