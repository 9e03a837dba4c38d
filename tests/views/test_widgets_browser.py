"""Widgets in a real browser, in a host with what anywidget promises and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import attlas
from attlas.models.look import TextAttention
from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.views import widgets
from attlas.views.notebook import WIDGET_VIEW
from tests.builders.models import shared
from tests.builders.notebook_words import words_in
from tests.builders.widgets import open_widget

TEXT = "the cat sat on the mat , it was good ."
STUDY = ["a good film , not bad .", "the dog saw a cat .", "it was a very bad film"]
GROUND = "getComputedStyle(document.querySelector('.attlas-widget')).backgroundColor"


@pytest.fixture(scope="module")
def seen() -> TextAttention:
    return attlas.attention(shared("bert"), TEXT, matrix="L1H2")


@pytest.fixture(scope="module")
def study() -> Study:
    measures = "surface,entropy,totals,examples"
    return attlas.study(tiny("bert"), STUDY, measures, workers=1, progress=False)


def test_a_text_answers_with_exact_rows(browser: Any, tmp_path: Path, seen: TextAttention) -> None:
    page, wrong = open_widget(browser, tmp_path, seen.widget)
    assert page.locator("w").all_inner_texts()[1:4] == ["the", "cat", "sat"]
    assert page.locator("td[role=gridcell]").count() == seen.n_layers * seen.n_heads
    page.wait_for_selector('[data-ready="L1H2"]')
    canvas = page.locator("canvas.part")
    side = (canvas.bounding_box()["width"] - 92) / len(seen.tokens)
    canvas.click(position={"x": 92 + 4.5 * side, "y": 92 + 2.5 * side})
    exact = page.locator(".attlas-matrix [role=status]", has_text="exactly")
    read = re.search(r": ([\d.e-]+) exactly", exact.inner_text())
    assert read is not None
    assert float(read[1]) == pytest.approx(float(seen.weights[1, 2, 2, 4]), rel=1e-5)
    assert page.evaluate("model.get('selection')") == {"text": "text", "words": [2, 4]}
    assert page.locator("w[aria-selected=true]").count() == 2
    assert page.evaluate("saved") >= 1
    assert wrong == []


def test_heads_are_chosen_in_every_part(browser: Any, tmp_path: Path, study: Study) -> None:
    page, wrong = open_widget(browser, tmp_path, study.widget)
    page.locator('td[data-head="L1H2"]').click()
    assert page.evaluate("model.get('head')") == "L1H2"
    page.get_by_role("heading", name="L1H2").wait_for()
    page.evaluate("model.set('head', 'L2H3')")  # as the kernel does
    page.get_by_role("heading", name="L2H3").wait_for()
    assert page.locator('td[data-head="L2H3"]').get_attribute("aria-selected") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.attlas-widget') !== null")
    assert wrong == []


@pytest.mark.parametrize("signal", [True, False])
def test_nothing_listens_once_a_widget_is_removed(
    browser: Any, tmp_path: Path, study: Study, signal: bool
) -> None:
    """Hosts before anywidget 0.11 give no signal; they call what render returns."""
    page, wrong = open_widget(browser, tmp_path, study.widget)
    if signal:
        page.evaluate("() => { end(); window.other = new AbortController(); draw(other.signal); }")
        page.wait_for_selector(".attlas-card")
        page.evaluate("other.abort()")
    else:
        page.evaluate("end()")
    assert page.evaluate("listening()") == 0
    assert len(page.evaluate("sent")) == 1  # the data of the card, once for both views
    assert wrong == []


@pytest.mark.parametrize(
    ("body", "scheme", "theme"),
    [
        ('data-jp-theme-light="true"', "dark", "light"),
        ('data-jp-theme-light="false"', "light", "dark"),
        ('class="vscode-dark"', "light", "dark"),
        ('class="vscode-light"', "dark", "light"),
        ('class="dark"', "light", "dark"),
        ("", "dark", "dark"),
        ("", "light", "light"),
    ],
)
def test_the_theme_is_that_of_the_host(
    browser: Any, tmp_path: Path, study: Study, body: str, scheme: str, theme: str
) -> None:
    grounds = {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 18, 22)"}
    shown = study.heads("entropy").widget
    page, wrong = open_widget(browser, tmp_path, shown, body=body, color_scheme=scheme)
    assert page.evaluate(GROUND) == grounds[theme]
    grid = "getComputedStyle(document.querySelector('.attlas-heads')).backgroundColor"
    assert page.evaluate(grid) == grounds[theme]
    other = "dark" if theme == "light" else "light"
    page.evaluate("light => (document.body.dataset.jpThemeLight = light)", other == "light")
    page.wait_for_function(f"{GROUND} === '{grounds[other]}'")
    assert page.evaluate(grid) == grounds[other]
    assert wrong == []


def test_its_rules_change_nothing_outside(
    browser: Any, tmp_path: Path, seen: TextAttention
) -> None:
    page, wrong = open_widget(browser, tmp_path, seen.widget)
    selectors = page.evaluate("[...document.styleSheets[0].cssRules].map(one => one.selectorText)")
    assert selectors == [".attlas-widget"]
    measured = """() => {
      const frame = document.body.appendChild(document.createElement("div"));
      frame.innerHTML = `<h3>a</h3><table class="lists"><tr><th>b</th></tr></table>
        <button>c</button><select><option>d</select><p class="note">e</p><div class="two">f</div>
        <details><summary>g</summary></details><div class="look">h</div>`;
      const out = [...frame.querySelectorAll("*")].map((one) =>
        [...getComputedStyle(one)].map((name) => getComputedStyle(one)[name]).join());
      frame.remove();
      return out;
    }"""
    before = page.evaluate(measured)
    page.evaluate("document.querySelector('style').remove()")
    assert page.evaluate(measured) == before
    assert wrong == []


def test_without_a_kernel_the_static_picture_stays(
    browser: Any, tmp_path: Path, seen: TextAttention
) -> None:
    """As in a notebook that is read without one: words are not stored, numbers of heads are."""
    page, wrong = open_widget(browser, tmp_path, seen.widget, kernel=False, drawn=False)
    page.get_by_text("The data of this view are not stored").first.wait_for()
    assert page.locator("figure img").first.evaluate("one => one.naturalWidth") > 100
    assert page.locator("td[role=gridcell]").count() == seen.n_layers * seen.n_heads
    assert "cat" not in page.locator("body").inner_text()
    attlas.notebook(store_texts=True)
    try:
        page, more = open_widget(browser, tmp_path, seen.widget, kernel=False)
        assert page.locator("w").all_inner_texts()[2] == "cat"
    finally:
        attlas.notebook()
    assert wrong + more == []


def test_large_data_come_in_pieces_and_a_refusal_is_one_sentence(
    browser: Any, tmp_path: Path, seen: TextAttention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widgets, "PIECE", 700)
    shown = seen.shaded("L1H2").widget
    page, wrong = open_widget(browser, tmp_path, shown)
    assert page.evaluate("sent.length") > 3
    assert page.locator("w").all_inner_texts()[2] == "cat"
    monkeypatch.setattr(widgets, "MOST_BYTES", 700)
    page, more = open_widget(browser, tmp_path, seen.shaded("L1H2").widget, drawn=False)
    page.get_by_text("could not be drawn: the data of this view take").wait_for()
    assert wrong + more == []


def test_it_fits_a_narrow_output(browser: Any, tmp_path: Path, study: Study) -> None:
    for shown in (study, study.head("L1H2")):
        page, wrong = open_widget(browser, tmp_path, shown.widget, width="360px")
        wide = "document.querySelector('.attlas-widget').scrollWidth"
        assert page.evaluate(wide) <= 360
        assert wrong == []


CELLS = (
    """import attlas
from attlas.testing import tiny
model = tiny("bert")
text = open("secret.txt").read()
seen = attlas.attention(model, text)
seen""",
    """study = attlas.study(model, "texts.txt", "surface,entropy,totals,examples",
                     workers=1, progress=False, out="runs/study")
study""",
    "study.heads()",
    'study.head("L1H2")',
    'study.text(study.table("texts")["text"][0])',
    'study.matrix(study.table("texts")["text"][0], "L1H2", model=model)',
    'attlas.explain.explain(tiny("bert", "classify"), text, progress=False)',
)


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True])
def test_a_notebook_is_executed_with_widgets_and_stores_words_only_if_asked(
    tmp_path: Path, stored: bool
) -> None:
    words = ["quokkas", "adore", "zeppelins", "over", "lagoons"]
    lines = ["walrus tickles icebergs", "marmots juggle turnips", "flamingos recite sonnets"]
    (tmp_path / "secret.txt").write_text(" ".join(words))
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    first = ["import attlas; attlas.notebook(store_texts=True)"] if stored else []
    cells = [nbformat.v4.new_code_cell(one) for one in (*first, *CELLS)]
    book = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=240, kernel_name="python3", resources=resources).execute()
    path = tmp_path / "book.ipynb"
    nbformat.write(book, path)
    content = path.read_text(encoding="utf-8")
    every = {word for one in (*words, *lines) for word in one.split() if len(word) > 4}
    found = words_in(content, every)
    assert {"zeppelins", "walrus"} <= found if stored else found == set()
    shown = [out.data for cell in book.cells for out in cell.outputs if "data" in out]
    state = book.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert len(shown) == len(CELLS)
    for data in shown:
        model = state[data[WIDGET_VIEW]["model_id"]]["state"]
        assert model["_esm"].startswith("const modules = {};")
        assert data["text/html"].startswith(("<figure", "<p", "<h3", "<table"))
    assert np.mean([len(json.dumps(one)) for one in state.values()]) < 100_000
