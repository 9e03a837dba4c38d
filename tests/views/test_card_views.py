"""The head card in a browser: it follows and sets the chosen head, and shows what the study has."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas import catalogue
from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.views.card_parts import HeadCards
from attlas.views.cards import written
from attlas.views.head_rows import HeadRow
from attlas.views.modules import View, joined, page_scripts
from attlas.views.numbers import number
from attlas.views.page import templates
from tests.builders.pages import open_page
from tests.builders.studies import OLD, measured

SECTIONS = catalogue.sections()
MOUNT = "await mount("
TEXTS = [
    "<script>alert('x')</script> &amp; <b>bold</b> </p> {{ 7 }}",
    "שלום עולם, مرحبا, the cat sat on the mat",
    "今日は良い天気です。 a film",
    "it was " + "very " * 40 + "bad",
]


def page_with(study: Study, path: Path) -> Path:
    """A page with the card alone; its shared state is `window.shared`."""
    part = HeadCards.of(study, SECTIONS)
    assert part is not None
    scripts = page_scripts({part.view: [part.data]})
    calls = templates().get_template("views.html").render(**scripts)
    assert MOUNT in calls
    calls = calls.replace(MOUNT, f"window.shared = {MOUNT}")
    viewport = '<meta name="viewport" content="width=device-width">'
    head = f'<meta charset="utf-8">{viewport}<style>{scripts["view_css"]}</style>'
    path.write_text(f"<!doctype html>{head}{part.html(0)}{calls}", encoding="utf-8")
    return path


# The words of a picture, and whether they stand inside it; where the cells of a row begin.
ENDS = """all => all.map(one => [one.textContent,
  one.getBoundingClientRect().right <= one.ownerSVGElement.getBoundingClientRect().right + 1])"""
TOPS = "all => all.map(one => one.getBoundingClientRect().top)"


def opened(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    page, wrong = open_page(browser, path, **options)
    page.wait_for_selector("[data-drawn]")
    return page, wrong


def chosen(page: Any) -> str:
    return str(page.evaluate("shared.get('head') ?? ''"))


def cells(row: HeadRow) -> tuple[str, ...]:
    """A row as the table of a card writes it."""
    largest = max(abs(row.value), abs(row.control or 0))
    between = ",\u00a0"
    ends = [written(one, largest) for one in (row.low, row.high) if one is not None]
    return (
        f"{row.label}, {row.unit}" if row.unit else row.label,
        written(row.value, largest),
        f"[{between.join(ends)}]" if ends else "",
        "" if row.control is None else written(row.control, largest),
        row.control_name or "none",
        "" if row.n is None else f"{row.n:,}",
        row.verdict or "",
    )


@pytest.mark.parametrize("name", ["measured", "syntax", "coreference"])
def test_the_table_of_a_card_has_the_rows_of_the_study(
    name: str, tmp_path: Path, browser: Any
) -> None:
    study = measured() if name == "measured" else Study.open(OLD / name)
    page, wrong = opened(browser, page_with(study, tmp_path / "card.html"))
    shape = study.n_layers, study.n_heads
    names = [f"L{layer}H{head}" for layer in range(shape[0]) for head in range(shape[1])]
    for one in names[:: max(1, len(names) // 6)]:
        card = study.head(one)
        page.evaluate("name => shared.set('head', name)", one)
        assert page.locator("h3").inner_text() == one
        if page.get_by_role("button", name="Show as table").count():
            page.get_by_role("button", name="Show as table").click()
        shown = page.locator("table.every tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].slice(1).map(one => one.textContent))"
        )
        expected = [cells(row) for row in chain(*card.rows.values())]
        assert sorted(map(tuple, shown)) == sorted(expected)
        lead = page.locator(".lead").inner_text()
        if card.finding is not None and card.finding.verdict != "nothing beyond chance":
            assert card.finding.numbers in lead
            assert card.finding.verdict in lead
        else:
            assert lead[:20].lower() == card.sentence.partition(": ")[2][:20]
    assert wrong == []
    page.context.close()


def test_one_selection_for_all_views_of_a_page(tmp_path: Path, browser: Any) -> None:
    """The card sets the shared head in four ways and follows it; elsewhere it says what to do."""
    page, wrong = opened(browser, page_with(measured(), tmp_path / "card.html"))
    assert "Choose a head" in page.locator(".lead").inner_text()
    page.get_by_role("button", name="next head, L0H0").click()
    assert chosen(page) == "L0H0"
    page.get_by_role("button", name="previous head, L2H3").click()
    assert chosen(page) == "L2H3" == page.locator("h3").inner_text()
    page.select_option("select", "L1H2")
    assert chosen(page) == "L1H2"
    near = page.locator(".near button").first
    other = near.locator("b").inner_text()
    near.click()
    assert chosen(page) == other == page.locator("h3").inner_text()
    assert page.evaluate("document.activeElement.tagName") == "H3"  # not lost with the button
    for nothing in ("", "L9H0", "constructor"):
        page.evaluate("name => shared.set('head', name)", nothing)
        assert "Choose a head" in page.locator(".lead").inner_text()
        assert page.locator("h3").inner_text() == "Head card"
    page.evaluate("shared.set('head', 'L0H1')")
    assert page.locator("select").input_value() == "L0H1"
    assert wrong == []
    page.context.close()


def test_a_small_picture_says_its_numbers_by_keyboard_and_click(
    tmp_path: Path, browser: Any
) -> None:
    study = measured()
    page, wrong = opened(browser, page_with(study, tmp_path / "card.html"))
    page.evaluate("shared.set('head', 'L1H2')")
    row = study.table("positions").query("layer == 1 and head == 2").iloc[0]
    figure = page.locator("figure", has=page.get_by_text("Offset profile"))
    picture, says = figure.locator("svg"), figure.locator("figcaption")
    picture.focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    value, control = row["offset_-8"], row["offset_-8_uniform"]
    largest = max(value, control)
    expected = f"-8 {written(value, largest)} uniform attention {written(control, largest)}"
    assert says.inner_text() == expected == picture.get_attribute("aria-valuetext")
    assert picture.get_attribute("aria-valuenow") == "2"  # after "further left"
    box = picture.bounding_box()
    picture.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    assert says.inner_text().startswith("0 ")  # offset 0 is in the middle
    assert figure.locator("svg text.chosen").inner_html() == "0"
    targets = page.locator("figure", has=page.get_by_text("Targets"))
    targets.locator("svg").focus()
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    previous = study.table("surface").query("layer == 1 and head == 2")["previous"].iloc[0]
    assert (
        targets.locator("figcaption").inner_text().startswith(f"previous {written(previous, 1.0)}")
    )
    assert wrong == []
    page.context.close()


def test_a_word_of_an_example_text_shows_its_own_lines(tmp_path: Path, browser: Any) -> None:
    study = measured()
    page, wrong = opened(browser, page_with(study, tmp_path / "card.html"))
    page.evaluate("shared.set('head', 'L0H0')")
    best = study.head("L0H0").examples[-1]
    row = page.locator(".text-row").first
    assert row.locator("svg > *").count() == len(best.lines)
    words = row.locator(".word")
    assert words.all_inner_texts() == [one.string for one in best.tokens]
    assert row.locator("[tabindex='0']").count() == 1  # one tab stop
    query, key, weight = best.lines[0]
    words.nth(0).focus()
    for _ in range(query):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    own = [one for one in best.lines if query in one[:2]]
    assert row.locator("svg > *").count() == len(own)
    assert words.nth(query).get_attribute("aria-pressed") == "true"
    says = row.get_by_role("status").inner_text()
    assert f"attends to {best.tokens[key].string} {number(round(255 * weight) / 255)}" in says
    page.keyboard.press(" ")
    assert row.locator("svg > *").count() == len(best.lines)
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (720, "light")])
def test_hostile_texts_on_a_phone_and_at_twice_the_size(
    width: int, scheme: str, tmp_path: Path, browser: Any
) -> None:
    """Texts come through as they are, nothing is wider than the page, buttons are large enough."""
    texts = [attlas.Text(f"<i>{at}</i>", text) for at, text in enumerate(TEXTS)]
    measures = ["surface", "entropy", "positions", "heatmap", "examples", "betti", "head_distance"]
    study = attlas.study(tiny("bert"), texts, measures, workers=1, progress=False)
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    page, wrong = opened(browser, page_with(study, tmp_path / "card.html"), **options)
    for name in ("L0H0", "L2H3"):
        page.evaluate("name => shared.set('head', name)", name)
        assert page.locator(".text-row").count() == 5
        words = "".join(page.locator(".arcs").all_inner_texts())
        assert "script" in words
        assert "שלום" in words
        assert page.locator(".attlas-card :is(b b, i, script, p p)").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        curve = page.locator("figure", has=page.get_by_text("Components by weight"))
        ends = curve.locator("svg text").evaluate_all(ENDS)
        assert ["uniform", True] in ends  # the control is named, inside the picture
        if width < 500:
            row = page.locator(".comparisons tbody tr").first
            places = row.locator("th, td").evaluate_all(TOPS)
            assert places[0] < min(places[1:])  # the name has a line of its own
        buttons = page.locator("button:visible, select:visible").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect()).map(one => [one.width, one.height])"
        )
        assert min(chain(*buttons)) >= 24
        page.get_by_role("button", name="Show as table").click()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.get_by_role("button", name="Show as pictures").click()
    assert wrong == []
    page.context.close()


def test_the_card_is_whole_in_a_notebook_and_when_it_is_hidden_at_first(
    tmp_path: Path, browser: Any
) -> None:
    """One joined module, no other view, no `signal`; lines are drawn when there is room."""
    part = HeadCards.of(measured(), SECTIONS)
    assert part is not None
    (tmp_path / "page.html").write_text('<!doctype html><meta charset="utf-8"><div hidden></div>')
    page, wrong = open_page(browser, tmp_path / "page.html")
    call = """async ([text, data]) => {
      const blob = new Blob([text], { type: "text/javascript" });
      const view = (await import(URL.createObjectURL(blob))).default;
      const parts = [{ module: "attlas/card.js", kind: "" }];
      const values = { parts, stored: [JSON.stringify(data)], head: "L0H0" };
      const model = { get: (name) => values[name], set() {}, on() {}, off() {}, save_changes() {} };
      await view.render({ model, el: document.querySelector("div") });
    }"""
    page.evaluate(call, [joined(View("card")), part.data])
    assert page.locator(".arcs svg > *").count() == 0
    page.evaluate("document.querySelector('div').hidden = false")
    page.wait_for_function("document.querySelectorAll('.arcs svg > *').length > 10")
    assert page.locator("h3").inner_text() == "L0H0"
    assert wrong == []
    page.context.close()
