"""Attention above, attribution below: its numbers are those of the tables, in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.explain import Explanations, explain
from attlas.explain.section.aligned import (
    AlignedText,
    AlignedTexts,
    TextAgreement,
    aligned_text,
    explanation_text,
    study_texts,
)
from attlas.explain.section.picture import aligned_svg, ratios
from attlas.testing import tiny
from tests.builders.pages import open_page
from tests.builders.views import view_page

TEXTS = (
    "the cat </script><b>sat</b> on a mat & the dog saw a cat , it was good",
    "<img src=x onerror=alert(1)> a dog",
    "a film was not good , it was bad",
)
METHODS = ("integrated_gradients", "attention_all", "rollout")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> attlas.Study:
    texts = [attlas.Text(f"<i>{place}</i>", text) for place, text in enumerate(TEXTS)]
    measure = Explanations(methods=METHODS)
    folder = tmp_path_factory.mktemp("aligned") / "study"
    return attlas.study(tiny("bert", "classify"), texts, [measure], folder)


@pytest.fixture(scope="module")
def texts(study: attlas.Study) -> AlignedTexts:
    return AlignedTexts(tuple(study_texts(study, [row for _, row in study.first(3)])))


def long_text(n: int = 1500) -> AlignedText:
    words = [f"word{place}" for place in range(n)]
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
    rng = np.random.default_rng(0)
    tokens = pd.DataFrame(
        {
            "text": "long",
            "token": range(n),
            "start": starts,
            "stop": starts + [len(word) for word in words],
            "string": words,
            "saliency": rng.random(n),
            "attention_last": 2 * rng.random(n),
            "attention_last_uniform": np.linspace(2, 0.5, n),
        }
    )
    return aligned_text("long", "long", "positive", " ".join(words), tokens)


# what is drawn


def test_words_are_sums_of_tokens_each_with_its_own_uniform_attention() -> None:
    tokens = pd.DataFrame(
        {
            "token": range(5),
            "start": [-1, 0, 3, 7, -1],
            "stop": [-1, 3, 6, 9, -1],
            "string": ["[CLS]", "bar", "ked", "at", "[SEP]"],
            "saliency": [0.0, 0.5, 0.4, 0.3, 0.0],
            "input_x_gradient": [0.0, 0.5, -0.9, 0.3, 0.0],
            "rollout": [0.5, 0.2, 0.1, 0.1, 0.1],
            "rollout_uniform": [0.2, 0.2, 0.1, 0.4, 0.1],
        }
    )
    one = aligned_text("x", "x", "positive", "barked at", tokens)
    assert one.words == ("[CLS]", "barked", "at", "[SEP]")
    assert one.special == (0, 3)
    (row,) = one.attention
    np.testing.assert_allclose(ratios(row), [2.5, 1.0, 0.25, 1.0])
    assert one.attribution is not None
    assert (one.attribution.method, one.attribution.signed) == ("saliency", False)
    np.testing.assert_allclose(one.attribution.values, [0, 0.9, 0.3, 0])


def test_attention_without_its_control_is_not_drawn(study: attlas.Study) -> None:
    """Results of earlier versions have no uniform attention, and no band."""

    class Earlier:
        def __getattr__(self, name: str) -> Any:
            return getattr(study, name)

        def table(self, name: str, *args: Any, **options: Any) -> pd.DataFrame:
            table = study.table(name, *args, **options)
            return table[[one for one in table if not re.search("_uniform$|tau_|shifts", one)]]

    assert study_texts(Earlier(), [row for _, row in study.first(3)]) == []


def test_a_dot_is_outside_only_of_a_band_that_is_wide_enough(texts: AlignedTexts) -> None:
    rows = [row for one in texts.texts for row in one.agreement]
    assert {row.keep for row in rows} == {"all", "ordinary", "keywords"}
    assert {(row.left, row.right) for row in rows} == {
        ("attention_all", "integrated_gradients"),
        ("rollout", "integrated_gradients"),
    }
    row = replace(rows[0], tau=0.5, low=-0.1, high=0.4, level=0.95, shifts=39)
    assert row.outside
    assert not replace(row, tau=0.3).outside
    assert replace(row, tau=-0.2).outside
    assert not replace(row, level=0.8, shifts=9).outside
    assert not replace(row, tau=float("nan"), low=float("nan"), level=float("nan")).outside


def test_a_picture_of_every_text(texts: AlignedTexts) -> None:
    for one in (*texts.texts, long_text()):
        svg = ElementTree.fromstring(aligned_svg(one))
        names = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert one.words[1][:12] in {(name or "").rstrip("…")[:12] for name in names}
    assert "The first 240 of 1,500 words." in names


def test_a_picture_names_its_method_its_axis_and_the_level_of_its_band() -> None:
    one = long_text()
    band: dict[str, Any] = {"low": -0.1, "high": 0.3, "level": 0.92, "shifts": 23, "kept": 24}
    row = TextAgreement("rollout", "saliency", "all", 0.4, **band)
    svg = ElementTree.fromstring(aligned_svg(replace(one, agreement=(row,))))
    names = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "Kendall's tau in this text; band: 92% of circular shifts (grey)" in names
    assert {"0.0", "0.2", "0.4"} <= set(names)


def test_one_explanation_has_the_attention_of_all_heads() -> None:
    model, text = tiny("bert", "classify"), attlas.Text("x", TEXTS[0])
    whole = explanation_text(explain(model, text, "saliency"))
    assert [row.method for row in whole.attention] == ["attention_all"]
    assert whole.attribution is not None
    assert whole.attribution.method == "saliency"
    assert [row.keep for row in whole.agreement] == ["ordinary"]
    rolled = explanation_text(explain(model, text, "rollout"))
    assert [row.method for row in rolled.attention] == ["rollout", "attention_all"]
    assert (rolled.attribution, rolled.agreement) == (None, ())
    assert [row.method for row in explanation_text(explain(model, text, "attention_all")).attention]


# in a browser


def numbers(line: str) -> list[float]:
    return [float(one.replace("−", "-")) for one in re.findall(r"[+−]?\d+\.\d+(?:e[+−]\d+)?", line)]


def test_bars_table_and_read_out_are_the_numbers_of_the_tables(
    study: attlas.Study, texts: AlignedTexts, tmp_path: Path, browser: Any
) -> None:
    page, wrong = open_page(browser, view_page([texts], tmp_path / "page.html"))
    page.select_option("[data-choose=text]", "2")
    one = texts.texts[2]
    assert one.attribution is not None
    tokens = study.table("attributions", text=one.text)
    assert len(tokens) == len(one.words), "the words of this text are its tokens"
    for method in METHODS[1:]:
        page.select_option("[data-choose=attention]", str(METHODS[1:].index(method)))
        ratio = (tokens[method] / tokens[f"{method}_uniform"]).tolist()
        ticks = page.locator(".strip text.tick").all_text_contents()
        top = float(next(tick for tick in ticks if tick.startswith("×") and tick != "×1")[1:])
        for word, expected in enumerate(ratio):
            node = page.locator(f'[data-word="{word}"]')
            grey = float(node.locator("rect.control").get_attribute("height"))
            blue = node.locator("rect.amount")
            height = grey + sum(float(one.get_attribute("height")) for one in blue.all())
            assert height / 96 * top == pytest.approx(min(expected, top), abs=2e-3 * expected)
            assert (blue.count() > 0) == (expected > 1.0001) or abs(expected - 1) < 1e-3
            value = one.attribution.values[word]
            kinds = [name for name in ("supports", "opposes") if node.locator(f".{name}").count()]
            assert kinds == ["supports" if value > 0 else "opposes"] or value == 0
        page.locator('[data-word="2"]').press("Escape")
        page.locator('[data-word="2"]').click()
        line = page.locator(".readout").inner_text()
        assert line.startswith(f"“{one.words[2]}” (word 3 of {len(one.words)}): ")
        value, uniform, read_ratio, score = numbers(line)
        row = tokens.iloc[2]
        assert value == pytest.approx(row[method], rel=0.06)
        assert uniform == pytest.approx(row[f"{method}_uniform"], rel=0.06)
        assert read_ratio == pytest.approx(row[method] / row[f"{method}_uniform"], abs=0.006)
        assert score == pytest.approx(row["integrated_gradients"], rel=0.06, abs=6e-4)
    page.locator("button", has_text="Show as table").first.click()
    rows = page.locator(".table").first.locator("tbody tr")
    assert rows.count() == len(one.words)
    cells = rows.nth(2).locator("th, td").all_inner_texts()
    assert cells[0] == one.words[2]
    assert float(cells[3]) == pytest.approx(ratios(one.attention[1])[2], abs=0.006)
    assert not wrong


def test_words_are_chosen_by_keys_and_shared_by_all_views(
    texts: AlignedTexts, tmp_path: Path, browser: Any
) -> None:
    page, wrong = open_page(browser, view_page([texts, texts], tmp_path / "page.html"))
    first, second = page.locator("[data-view]").all()
    page.keyboard.press("Tab")  # text
    page.keyboard.press("Tab")  # attention
    page.keyboard.press("Tab")  # table
    page.keyboard.press("Tab")  # words: one stop
    assert page.evaluate("document.activeElement.dataset.word") == "0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    chosen = "[...e.querySelectorAll('[aria-selected=true]')].map((one) => one.dataset.word)"
    for view in (first, second):
        assert view.evaluate(f"e => {chosen}") == ["2", "3"]
    same = [view.locator(".readout").inner_text() for view in (first, second)]
    assert same[0] == same[1]
    words = texts.texts[0].words
    assert same[0].startswith(f"“{words[2]}”, “{words[3]}”: ")
    page.keyboard.press("Escape")
    assert first.evaluate(f"e => {chosen}") == second.evaluate(f"e => {chosen}") == []
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.word") == str(len(words) - 1)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") in ("SELECT", "BUTTON", "INPUT")
    # a word of another text is shown by both
    first.locator("[data-choose=text]").select_option("1")
    first.locator('[data-word="1"]').click()
    assert second.locator("[data-choose=text]").input_value() == "1"
    assert second.evaluate(f"e => {chosen}") == ["1"]
    assert not wrong


def test_dots_are_filled_outside_their_band(tmp_path: Path, browser: Any) -> None:
    base = long_text(60)
    row = explanation_text(explain(tiny("bert", "classify"), TEXTS[0], "saliency")).agreement[0]
    rows = [
        replace(
            row,
            tau=0.5,
            low=-0.1,
            high=0.2,
            level=0.95,
            shifts=59,
            published=0.8,
            published_chance=0.6,
        ),
        replace(row, left="rollout", tau=0.1, low=-0.1, high=0.2, level=0.95, shifts=59),
        replace(row, left="cls_row", tau=0.4, low=-0.1, high=0.2, level=0.8, shifts=9),
    ]
    part = AlignedTexts((replace(base, agreement=tuple(rows)),))
    page, wrong = open_page(browser, view_page([part], tmp_path / "page.html"))
    dots = page.locator("svg.agreement")
    kinds = [one.get_attribute("class") for one in dots.locator("circle").all()]
    assert kinds == ["other", "outside", "inside", "inside"]
    band, dot = (
        dots.locator(name).first.evaluate("e => e.getBoundingClientRect().toJSON()")
        for name in ("rect.band", "circle.outside")
    )
    scale = band["width"] / 0.3
    middle = dot["left"] + dot["width"] / 2
    assert (middle - band["left"]) / scale - 0.1 == pytest.approx(0.5, abs=0.01)
    assert "shifted along" in page.locator(".note").inner_text()
    assert "tau 0.50, outside the band from −0.10 to 0.20" in dots.get_attribute("aria-label")
    page.locator(".agree button").click()
    cells = page.locator(".agree tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["0.50", "−0.10 to 0.20", "59", "0.80", "0.60"]
    assert not wrong


def test_few_shifts_are_said(tmp_path: Path, browser: Any) -> None:
    row = explanation_text(explain(tiny("bert", "classify"), "a cat sat", "saliency"))
    page, wrong = open_page(browser, view_page([AlignedTexts((row,))], tmp_path / "page.html"))
    assert "only 2 shifts, so the band is their whole range (33%, not 95%): too few" in (
        page.locator(".note").inner_text()
    )
    assert not wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_long_text_has_a_window_and_fits_a_phone(
    scheme: Any, tmp_path: Path, browser: Any
) -> None:
    path = view_page([AlignedTexts((long_text(),))], tmp_path / "page.html")
    size = {"width": 390, "height": 844}
    page, wrong = open_page(browser, path, viewport=size, color_scheme=scheme)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    options = page.locator("[role=option]")
    assert options.count() < 20
    assert options.first.evaluate("e => e.getBoundingClientRect().width") >= 24
    assert page.locator(".span").inner_text().strip() == f"words 1 to {options.count()} of 1,500"
    options.first.focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.word") == "1499"
    page.keyboard.press("PageUp")
    assert int(page.evaluate("document.activeElement.dataset.word")) == 1499 - options.count()
    page.locator(".span input").fill("700")
    assert options.first.get_attribute("data-word") == "700"
    page.set_viewport_size({"width": 1200, "height": 800})
    page.wait_for_function("document.querySelectorAll('[role=option]').length > 100")
    assert not wrong


def test_a_view_that_is_hidden_at_first_is_drawn_when_it_is_shown(
    texts: AlignedTexts, tmp_path: Path, browser: Any
) -> None:
    path = view_page([texts], tmp_path / "page.html", "[data-view] { display: none }")
    page, wrong = open_page(browser, path)
    assert page.locator("[role=option]").count() == 0
    page.evaluate("document.querySelector('[data-view]').style.display = 'block'")
    page.wait_for_selector("[role=option]")
    assert page.locator("svg.agreement circle").count() > 0
    assert not wrong
