"""Explanations to look at: escaped, shaded, drawn by a real browser without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.explain import Explanations, explain
from attlas.explain.section.page import write_explanation
from attlas.explain.section.texts import explained_line
from attlas.explain.tokens import by_position, by_type
from attlas.testing import tiny
from attlas.views import charts
from attlas.views.colours import sign_colour
from attlas.views.overlay import LEVELS, score_overlay
from attlas.views.packing import unpacked
from tests.builders.pages import draw_all, findings, n_pictures, open_page, write_charts

TEXTS = (
    "<b>good</b> film & a cat",
    "if it was not good , it was bad",
    "the dog saw </script><img src=x onerror=alert(1)> her",
    "we",
)
METHODS = ("integrated_gradients", "attention_all", "rollout", "attention_x_gradient")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> attlas.Study:
    texts = [
        attlas.Text(
            f"<i>{number}</i>", text, label="<u>1</u>", annotations={"rationale": ((0, 4),)}
        )
        for number, text in enumerate(TEXTS)
    ]
    measure = Explanations(methods=METHODS, faithfulness=("remove",), draws=2)
    return attlas.study(
        tiny("bert", "classify"), texts, [measure], tmp_path_factory.mktemp("explained") / "study"
    )


def test_the_report_tints_for_and_against_and_answers_clicks(
    done: attlas.Study, tmp_path: Path, browser: Any
) -> None:
    page, wrong = open_page(
        browser, done.report(tmp_path / "report.html"), viewport={"width": 1200, "height": 800}
    )
    draw_all(page)
    assert page.locator("section .chart svg.marks").count() == 5
    assert not wrong
    assert [one.get_attribute("id") for one in page.locator("section").all()] == [
        "explanations",
        "agreement",
        "faithfulness",
        "plausibility",
        "attribution_types",
    ]
    first = page.locator("#explanations .text").first
    line = first.locator(".id").first.inner_text()
    assert re.match(r"<i>0</i> · label <u>1</u> · predicted LABEL_\d \([01]\.\d\d\)", line)
    assert "total" in line
    assert "gap" in line
    tints = "all => all.map(one => [one.textContent, one.style.background])"
    shown = dict(first.locator("w").evaluate_all(tints))
    scores = done.table("attributions", text="<i>0</i>")
    word = scores[scores["string"] == "film"]["integrated_gradients"].sum()
    red, green, _ = map(int, re.findall(r"\d+", shown["film"]))
    assert (green > red) == (word >= 0)  # green supports, purple opposes
    first.locator("w", has_text="film").click()
    message = first.locator(".says").inner_text()
    for method in METHODS:
        assert re.search(rf"{method.replace('_', ' ')} [+−]?[\d.e-]+ \(rank \d+\)", message), (
            message
        )
    first.locator("select").select_option(label="attention all")
    assert "no control" in first.locator(".legend").inner_text()
    assert page.locator("#agreement .vega-bind select").count() == 1


def test_pictures_of_everything(done: attlas.Study, tmp_path: Path) -> None:
    files = write_charts(done, tmp_path / "pictures", "svg")
    assert len({*files}) == len(files) == n_pictures(done)
    tinted = [path for path in files if "explained-texts" in path.name]
    assert len(tinted) == len(TEXTS)
    assert len([path for path in files if "attention-and-attribution" in path.name]) == len(TEXTS)
    colours = set(re.findall(r'fill="rgb(\(.*?\))"', "".join(path.read_text() for path in tinted)))
    used = {tuple(map(int, re.findall(r"\d+", one))) for one in colours}
    scale = {sign_colour(step / (LEVELS - 1)) for step in range(1 - LEVELS, LEVELS)}
    assert used <= scale
    assert sign_colour(1) in used or sign_colour(-1) in used


def test_findings_put_the_published_number_beside_the_sound_one(done: attlas.Study) -> None:
    lines = findings(done)
    table = done.table("agreement").set_index(["left", "keep", "convention", "metric"])["value"]
    (line,) = [
        line
        for line in lines
        if line.startswith("Attention over all layers agrees with integrated gradients on keywords")
    ]
    for convention in ("sound", "published"):
        value = table["attention_all", "keywords", convention, "tau"]
        assert re.search(rf"(tau|it is) {value:.2f}\b", line), line
    assert line.count("chance ") == 2


def test_one_explanation_as_a_page_a_picture_and_in_a_notebook(
    tmp_path: Path, browser: Any
) -> None:
    one = explain(tiny("bert", "classify"), attlas.Text("x", TEXTS[0], label="<u>"), at="parts")
    page, wrong = open_page(browser, write_explanation(one, tmp_path / "one.html"))
    assert not wrong
    assert page.locator("select option").all_inner_texts() == [
        "integrated gradients",
        "word",
        "position",
        "type",
    ]
    assert re.match(r"What does LABEL_\d \(probability 0\.\d\d\)", page.locator("h1").inner_text())
    assert page.locator("header p").inner_text().startswith("label <u> · predicted")
    assert page.locator(".attlas-explanation circle.outside, circle.inside").count() > 0
    assert page.locator(".words").inner_text().count("<b>good</b>") == 1
    assert write_explanation(one, tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert one._repr_html_().startswith("<iframe srcdoc=")
    assert "<b>good" not in one._repr_html_()


def test_words_are_the_sums_of_their_tokens_with_their_signs() -> None:
    tokens = pd.DataFrame(
        {
            "start": [-1, 0, 3, 7, -1],
            "stop": [-1, 3, 6, 9, -1],
            "string": ["[CLS]", "bar", "ked", "at", "[SEP]"],
        }
    )
    shown = score_overlay(
        "barked at", tokens, {"a": np.array([0, 0.5, 0.4, -0.3, 0.0])}, {"a": True}
    )
    assert shown.tints.tolist() == [0, 9, -3, 0]
    np.testing.assert_allclose(unpacked(shown.data["scores"]), [0, 0.5, 0.4, -0.3, 0], rtol=1e-6)
    assert unpacked(shown.data["of"]).tolist() == [0, 1, 1, 2, 3]


def test_lists_by_position_and_by_type() -> None:
    tokens = pd.DataFrame(
        {
            "token": range(5),
            "start": [-1, 0, 4, 8, -1],
            "stop": [-1, 3, 7, 11, -1],
            "string": ["[CLS]", "cat", "dog", "cat", "[SEP]"],
            "m": [9.0, 0.1, -0.4, 0.2, 9.0],
        }
    )
    assert by_position(tokens, "m").to_dict("list") == {
        "string": ["cat@3", "cat@1", "dog@2"],
        "score": [0.2, 0.1, -0.4],
    }
    assert by_type(tokens, "m")["string"].tolist() == ["cat", "dog"]
    np.testing.assert_allclose(by_type(tokens, "m")["score"], [0.3, -0.4])
    assert by_type(tokens, "m")["occurrences"].tolist() == [2, 1]


@pytest.mark.parametrize("word", ["if", "datum", "\\", '"', "</script>", "null"])
def test_any_word_may_stand_in_a_list(word: str, tmp_path: Path) -> None:
    """A list to sort by that holds the word “if” was read as code by the chart's compiler."""
    frame = pd.DataFrame({"string": [word, "cat", "dog"], "score": [0.3, 0.1, -0.2]})
    drawn = charts.export(charts.ends(frame, "score"), tmp_path / "ends.svg").read_text()
    assert drawn.index(">cat<") < drawn.index(">dog<")


def test_the_line_of_an_explanation() -> None:
    row = pd.Series(
        {
            "label": None,
            "predicted": "1",
            "probability": 0.91,
            "target": "0",
            "value": 0.09,
            "baseline": 0.5,
            "total": -0.41,
            "gap": 0.0123,
            "converged": False,
            "evaluations": 500,
        }
    )
    assert (
        explained_line(row)
        == "predicted 1 (0.91) · explained 0 · probability 0.09 from 0.50 at the baseline, "
        "total -0.41, gap 1.23%, not converged · 500 evaluations"
    )
