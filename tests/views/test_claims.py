"""Claims become findings with one verdict everywhere; warnings are raised where they belong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas import catalogue
from attlas.testing import tiny
from attlas.views.claims import Claim, best_findings, head_claims
from attlas.views.dots import dot_svg
from attlas.views.findings import findings, opening, warnings
from attlas.views.report import render, write_charts
from attlas.views.section import Section
from attlas.views.tables import Column

SECTIONS = catalogue.sections()


def claim(value: float, control: float = 0.1, half: float = 0.02, **more: Any) -> Claim:
    gap = value - control
    ends = (value - half, value + half), (gap - half, gap + half)
    options = {"texts": 100, **more}
    return Claim("L0H1 does it", value, *ends[0], control, "uniform", *ends[1], **options)


def test_a_finding_is_a_sentence_with_effect_interval_control_and_n() -> None:
    one = best_findings([claim(0.74, n=1204)], 0.05)[0]
    assert one.sentence == "L0H1 does it: 0.74 [0.72, 0.76], uniform 0.10 (n = 1,204)."
    record = json.loads(json.dumps(one.record()))
    assert (record["verdict"], record["comparisons"]) == ("signal", 1)
    assert record["headroom"] == pytest.approx((0.74 - 0.1) / 0.9)


def test_intervals_grow_with_the_number_of_comparisons() -> None:
    alone = best_findings([claim(0.74)], 0.05)[0]
    among = best_findings([claim(0.74, group="a"), *[claim(0.1, group="b")] * 99], 0.05)[0]
    assert among.verdict == "signal"
    assert among.ends[0] < alone.ends[0] < alone.ends[1] < among.ends[1]


def test_the_best_of_each_group_and_how_many_are_like_it() -> None:
    claims = [claim(0.5, group="a"), claim(0.9, group="a"), claim(0.3, group="b"), claim(0.1)]
    found = best_findings(claims, 0.05)
    assert [one.claim.value for one in found] == [0.3, 0.9, 0.1]
    assert found[1].sentence.endswith("Above the control: all 2 heads.")
    assert [one.is_general for one in found] == [False, True, False]
    assert found[-1].verdict == "nothing beyond chance"


def test_bounds_hold_the_interval_and_the_picture() -> None:
    one = best_findings([claim(0.99, half=0.2)], 0.05)[0]
    assert one.ends[1] == 1.0
    assert "nan" not in dot_svg(one)
    endless = best_findings([claim(3.0, bounds=(0.0, math.inf))], 0.05)[0]
    assert "inf" not in dot_svg(endless)


def test_heads_below_uniform_are_claims_of_kind_below() -> None:
    frame = pd.DataFrame(
        {
            "layer": [0, 0],
            "head": [0, 1],
            "entropy": [1.0, 2.9],
            "entropy_uniform": [3.0, 3.0],
            "entropy_error": [0.01, 0.2],
        }
    )
    column = Column("entropy", "entropy", "nats", kind="below", control="entropy_uniform")
    more = {"bounds": (0.0, math.inf)}
    found = best_findings(head_claims(frame, column, "is focused", 50, **more), 0.1)
    assert [one.claim.words for one in found] == ["L0H0 is focused"]
    assert found[0].verdict == "signal"
    paired = head_claims(frame.assign(entropy_difference_error=0.5), column, "is", 50, **more)
    assert paired[0].difference_high - paired[0].difference_low == pytest.approx(2.0096, abs=1e-3)


def study_of(count: int, right: bool) -> attlas.Study:
    """A classifier's explanations of texts, all of them right, or half."""
    model = tiny("bert", "classify", id2label={0: "a", 1: "b"}, label2id={"a": 0, "b": 1})
    texts = [
        attlas.Text(str(n), "a good film , not bad ." + " very" * (n % 3)) for n in range(count)
    ]
    answers = attlas.study(model, texts, "explanations", workers=1, progress=False)
    answers = answers.table("explanations").drop_duplicates("text").set_index("text")["predicted"]
    other = {"a": "b", "b": "a"}
    labels = [
        answers[one.id] if right else other[answers[one.id]] if n % 2 else answers[one.id]
        for n, one in enumerate(texts)
    ]
    labelled = [
        attlas.Text(one.id, one.text, str(label)) for one, label in zip(texts, labels, strict=True)
    ]
    return attlas.study(model, labelled, ["explanations", "surface"], workers=1, progress=False)


def test_a_model_at_majority_is_warned_of_and_a_good_one_is_not() -> None:
    poor = warnings(study_of(4, right=False), SECTIONS)
    assert any("is right on 2 of 4 texts (majority class: 2)" in line for line in poor)
    assert any("All heads (4 texts)" in line for line in poor)
    assert any("no weight" in line for line in poor)
    many = [attlas.Text(str(n), "the dog saw a cat ." + " very" * (n % 5)) for n in range(30)]
    clean = attlas.study(tiny("bert"), many, "surface", workers=1, progress=False)
    assert warnings(clean, SECTIONS) == []


def section(claims: list[Claim], **more: Any) -> Section:
    options = {"needs": ("surface",), "about": "It.", "smallest_effect": 0.05, **more}
    return Section(
        title="Own",
        question="What?",
        figures=lambda study: [],
        claims=lambda study: claims,
        **options,
    )


@pytest.fixture(scope="module")
def small() -> attlas.Study:
    texts = [attlas.Text(str(n), "the dog saw a cat .") for n in range(3)]
    return attlas.study(tiny("bert"), texts, "surface", workers=1, progress=False)


def test_a_report_opens_with_warnings_then_the_best_finding_of_each_section(
    small: attlas.Study,
) -> None:
    sections = {
        "strong": section([claim(0.9), claim(0.8, group="x")]),
        "weak": section([claim(0.12, half=0.01)], warnings=lambda study: ["Careful <b>."]),
        "none": section([claim(0.1)], notes=lambda study: ["A note."]),
    }
    found = findings(small, sections)
    assert [one.section for one in opening(found)] == ["strong", "weak"]
    page = render(small, sections)
    assert page.index("Careful &lt;b&gt;.") < page.index("<h2>Findings</h2>") < page.index("0.90 [")
    assert '<section id="none" class="folded">' in page
    assert page.count('<details class="folded">') == 1
    assert "Not beyond its control: " in page
    assert "A note." in page


def test_every_section_that_compares_declares_its_smallest_effect() -> None:
    compares = [name for name, one in SECTIONS.items() if one.smallest_effect]
    assert {"surface", "entropy", "syntax", "tree", "coreference", "agreement"} <= set(compares)
    assert all(0 < SECTIONS[name].smallest_effect <= 0.5 for name in compares)


def test_no_head_of_a_random_model_is_focused_beyond_uniform_without_reason() -> None:
    """Uniform attention itself is nothing beyond chance, in every comparison of every head."""
    frame = pd.DataFrame({"layer": [0, 0], "head": [0, 1], "self": [0.1, 0.1]})
    frame = frame.assign(self_uniform=0.1, self_error=[0.0, 0.01])
    column = Column("self", "self", kind="above", control="self_uniform")
    found = best_findings(head_claims(frame, column, "attends to itself", 50), 0.02)
    assert [one.verdict for one in found] == ["nothing beyond chance"]
    assert np.isfinite(found[0].judged.low)


def test_an_exported_picture_says_what_it_shows(small: attlas.Study, tmp_path: Path) -> None:
    """Every choice of a menu is a file of its own, with its name, model, corpus and n inside."""
    paths = write_charts(small, {"surface": SECTIONS["surface"]}, tmp_path, "json")
    (grid,) = [path for path in paths if path.stem == "surface-heads"]
    menu = json.loads(grid.read_text())["params"][0]["bind"]["options"]
    pictures = write_charts(small, {"surface": SECTIONS["surface"]}, tmp_path, "svg")
    grids = {path.stem: path.read_text() for path in pictures if path.stem.startswith(grid.stem)}
    assert len(grids) == len(menu)
    assert "Attention targets: previous token" in grids["surface-heads"]
    assert "Attention targets: next token" in grids["surface-heads-next"]
    assert all("3 texts" in picture for picture in grids.values())
