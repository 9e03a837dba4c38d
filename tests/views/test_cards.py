"""The card of a head: its sentence, its rows, and who is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attlas import catalogue
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError, StudyError
from attlas.support.heads import parse_head
from attlas.views.cards import HeadCard, head_card
from attlas.views.claims import Claim, judged_claims
from attlas.views.head_rows import column_rows
from attlas.views.section import Section
from attlas.views.tables import Column
from attlas.views.terminal import print_card
from tests.builders.studies import OLD, measured

SECTIONS = catalogue.sections()


def claim(layer: int, head: int, value: float, **more: Any) -> Claim:
    gap = value - 0.1
    ends = (value - 0.02, value + 0.02), (gap - 0.02, gap + 0.02)
    options = {"texts": 100, "head": (layer, head), "group": "a", "label": "share", **more}
    return Claim(f"L{layer}H{head} does it", value, *ends[0], 0.1, "uniform", *ends[1], **options)


def section(*claims: Claim, **more: Any) -> Section:
    options = {"title": "One", "question": "What?", "needs": ("surface",), "about": "All."}
    return Section(
        **options,
        figures=lambda study: [],
        claims=lambda study: [*claims],
        smallest_effect=0.05,
        **more,
    )


def card(*claims: Claim) -> HeadCard:
    return head_card(measured(), {"one": section(*claims)}, 0, 1)


def test_the_strongest_finding_about_a_head_names_it() -> None:
    others = [claim(0, head, 0.5, group="b") for head in range(4)]  # of all heads
    one = card(claim(0, 1, 0.3), claim(0, 2, 0.9), claim(0, 3, 0.1), *others)
    assert one.sentence == (
        "L0H1 does it: 0.30 [0.28, 0.32], uniform 0.10 (n = 100). "
        "Above the control: 2 of 3 heads. (signal)"
    )
    assert one.comparisons == 2
    assert [row.value for row in one.rows["One"]] == [0.3, 0.5]


def test_a_weak_finding_does_not_count_others_as_alike() -> None:
    claims = [claim(0, 1, 0.13), claim(0, 2, 0.9), claim(0, 3, 0.9)]
    one = card(*claims)
    assert one.finding is not None
    assert one.finding.verdict == "weak"  # a difference below the smallest effect
    assert "other heads" not in one.sentence


def test_a_head_at_its_control_is_nothing_beyond_chance() -> None:
    assert card(claim(0, 1, 0.1)).sentence == "L0H1: nothing beyond chance (comparisons: 1)."
    assert card(claim(0, 2, 0.9)).sentence == "L0H1: not compared with a control."


def test_verdicts_of_a_card_are_corrected_for_all_heads() -> None:
    """A difference that would be a signal alone is weak among many that are nothing."""
    near = replace(claim(0, 1, 0.2), difference_low=0.01, difference_high=0.19)
    others = [claim(layer, head, 0.1) for layer in range(3) for head in range(4)] * 20
    assert [card(near).rows["One"][0].verdict] == ["signal"]
    among = card(near, *[one for one in others if one.head != (0, 1)])
    assert [row.verdict for row in among.rows["One"]] == ["weak"]
    judged = judged_claims([near, *others], 0.05)
    assert judged[0].verdict == "weak"


def test_rows_of_columns_have_the_declared_control_or_the_median_head() -> None:
    frame = pd.DataFrame(
        {
            "layer": 0,
            "head": range(3),
            "gate": [1.0, 2.0, 9.0],
            "gate_error": [0.1, 0.2, np.nan],
            "cls": [0.5, np.nan, 0.1],
            "cls_all": [0.4, 0.4, 0.4],
        }
    )
    columns = (Column("gate", "gate"), Column("cls", "[CLS]", kind="above", control="cls_all"))
    rows = column_rows(frame, columns, "all tokens", 11)
    gate, cls = rows[0, 0]
    assert (gate.control, gate.control_name, gate.kind) == (2.0, "median head", "plain")
    assert gate.low == pytest.approx(1 - 0.1 * 2.228, abs=1e-3)  # t of 10 degrees of freedom
    assert (cls.control, cls.control_name, cls.low) == (0.4, "all tokens", None)
    assert [row.label for row in rows[0, 1]] == ["gate"]
    assert rows[0, 2][0].high is None
    assert set(rows) == {(0, 0), (0, 1), (0, 2)}
    assert column_rows(frame, columns)[0, 0][0].low is None


def test_every_section_with_heads_is_on_the_card() -> None:
    known = {row.section for row in chain(*measured().head(1, 2).rows.values())}
    assert known >= {
        "surface",
        "entropy",
        "positions",
        "importance",
        "head_distance",
        "special_gradient",
        "betti",
        "templates",
    }
    for name in ("syntax", "coreference"):
        study = Study.open(OLD / name)
        layer, head = study.table(name).dropna(subset=["layer"]).iloc[0][["layer", "head"]]
        rows = list(chain(*study.head(int(layer), int(head)).rows.values()))
        assert {row.section for row in rows} == {name}
        assert any(row.verdict for row in rows)
        assert all(row.verdict or row.control is not None for row in rows)
    topology = Study.open(OLD / "topology").head("L0H0")
    assert [row.section for row in chain(*topology.rows.values())] == ["topology"]


def test_the_nearest_heads_and_the_best_offset_are_those_of_the_tables() -> None:
    study = measured()
    rows = {row.label: row for row in chain(*study.head("L1H2").rows.values())}
    table = study.table("head_distance")
    own = table[(table["layer"] == 1) & (table["head"] == 2)]
    others = own[(own["other_layer"] != 1) | (own["other_head"] != 2)]
    near = others.loc[others["mean"].idxmin()]
    name = f"divergence from L{int(near['other_layer'])}H{int(near['other_head'])}"
    assert rows[name].value == near["mean"]
    positions = study.table("positions").set_index(["layer", "head"]).loc[(1, 2)]
    names = [str(one) for one in positions.index if not str(one).endswith("_uniform")]
    best = max(names, key=lambda one: positions[one] - positions[f"{one}_uniform"])
    label = next(label for label in rows if label.startswith("attention "))
    assert label.split()[-1] == best.removeprefix("offset_")
    assert rows[label].value == positions[best]


def test_sections_of_another_model_are_not_on_the_card() -> None:
    main, other = measured(), Study.open(OLD / "syntax")
    together = Study(main.folder, main.manifest, (other,))
    layer, head = other.table("syntax").iloc[0][["layer", "head"]]
    rows = chain(*together.head(int(layer), int(head)).rows.values())
    assert "syntax" not in {row.section for row in rows}


@pytest.mark.parametrize("name", ["L1H2", "L1.H2", "l1h2", " L1H2 "])
def test_names_of_heads(name: str) -> None:
    assert parse_head(name) == (1, 2)
    assert measured().head(name) == measured().head(1, 2)


@pytest.mark.parametrize("name", ["", "1.2", "L1", "L1H", "H2L1", "L1H2x", "L-1H2", "L1 H2"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttlasError, match="is not a head; write it as L2H10"):
        measured().head(name)


@pytest.mark.parametrize("wrong", [(3, 0), (0, 4), (-1, 0), (0, -1)])
def test_heads_that_the_model_does_not_have_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(StudyError, match="layers 0 to 2 with heads 0 to 3"):
        measured().head(*wrong)


def test_half_a_head_and_results_without_a_model_are_refused() -> None:
    with pytest.raises(StudyError, match=re.escape("head(1, None) is not a head")):
        measured().head(1)
    old = Study.open(OLD / "dynamics")
    without = Study(old.folder, {**old.manifest, "model": None})
    with pytest.raises(StudyError, match="no model with heads"):
        without.head(0, 0)


def test_a_card_is_shown_in_terminal_notebook_and_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = measured().head("L0H1")
    print_card(one)
    printed = capsys.readouterr().out
    page, data = one._repr_html_(), json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert str(one) == one.sentence == data["sentence"]
    assert printed.startswith(one.sentence)
    for title in one.rows:
        assert title in page
    assert {row["section"] for row in data["rows"]} <= set(SECTIONS)
    assert data["head"] == "L0H1"
