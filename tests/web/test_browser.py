"""The pages in a real browser: from the atlas to a head, texts, the address, keyboard, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from attlas.web.library import opaque
from tests.builders.access import offered, too_small, unnamed
from tests.builders.pages import draw_all
from tests.builders.served import listening, shown, watched
from tests.builders.studies import OLD, compared, measured

WIDE = "() => document.documentElement.scrollWidth > innerWidth"
PAGES = ("atlas", "head/L0H1", "texts", "text?id=one", "topology", "explain", "compare", "tables")
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening([measured().folder, compared().folder, OLD / "syntax"], {}) as one:
        yield one.address


@pytest.fixture(scope="module")
def study() -> str:
    return f"/s/{opaque(Path(measured().folder).resolve())}"


class Reader:
    """A page, and what went wrong in it."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address = address
        self.page, self.wrong = watched(browser, address, **options)

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path)
        return shown(self.page)

    def follow(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """The next page, once a click or a key has led there."""
        with self.page.expect_navigation():
            act(*arguments)
        return shown(self.page)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.page.url).query)


@pytest.fixture
def reader(browser: Any, address: str) -> Iterator[Reader]:
    one = Reader(browser, address)
    yield one
    one.page.context.close()
    assert not one.wrong


def cell(head: str) -> str:
    return f"#all-heads td[data-head={head}]"


def test_from_the_list_to_the_card_of_a_head(reader: Reader, study: str) -> None:
    page = reader.open("/")
    page.wait_for_function("() => !document.querySelector('.verdicts')?.innerText.includes('…')")
    reader.follow(page.click, f"a[href='{study}']")
    page.click(cell("L1H2"))
    assert page.inner_text("#card").startswith("L1H2")
    assert reader.query["head"] == ["L1H2"]
    reader.follow(page.click, "a[data-own-page]")
    page.wait_for_function("() => document.querySelector('#card').innerText.startsWith('L1H2')")
    page.click("td[data-head=L0H3]")
    assert page.url.endswith("/head/L0H3")
    assert page.inner_text("#card").startswith("L0H3")


def test_the_address_restores_what_is_chosen(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/atlas")
    page.click(cell("L1H3"))
    options = page.locator("#all-heads .controls select option")
    column = options.nth(3).get_attribute("value")
    page.select_option("#all-heads .controls select >> nth=0", column)
    assert reader.query == {"head": ["L1H3"], "column": [column]}
    chosen, values = page.url, page.inner_text("#all-heads td[data-head=L0H0]")
    reader.follow(page.click, "text=Topology")
    assert reader.query["head"] == ["L1H3"]
    reader.follow(page.go_back)
    assert page.url == chosen
    other = Reader(page.context.browser, reader.address).open(chosen.removeprefix(reader.address))
    assert other.get_attribute(cell("L1H3"), "aria-selected") == "true"
    assert other.input_value("#all-heads .controls select >> nth=0") == column
    assert other.inner_text("#all-heads td[data-head=L0H0]") == values
    other.context.close()


def test_texts_are_filtered_and_opened(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/texts")
    assert page.locator("table.texts tbody tr").count() == 3
    page.fill("input[name=words]", "bad")
    reader.follow(page.press, "input[name=words]", "Enter")
    assert reader.query["words"] == ["bad"]
    assert page.locator("table.texts tbody tr").count() == 2
    page.select_option("select[name=label]", "good")
    reader.follow(page.click, "text=filter")
    assert page.input_value("input[name=words]") == "bad"
    reader.follow(page.click, "table.texts tbody th a >> nth=0")
    assert "Text one" in page.inner_text("h1")
    page.click("[data-view='attlas/text.js'] w >> nth=2")
    assert "selection" in reader.query


def test_the_address_of_a_text_restores_how_it_is_shown(reader: Reader, study: str) -> None:
    """Tint, units and the mean of a layer; a head takes the place of that mean."""
    reader.follow(reader.open(f"{study}/texts").click, "table.texts tbody th a >> nth=0")
    page, text = reader.page, "[data-view='attlas/text.js']"
    page.click(f"{text} [data-units=tokens]")
    page.select_option(f"{text} [data-choose=head]", "L1")
    assert (reader.query["units"], reader.query["view"]) == (["tokens"], ["L1"])
    tints = page.locator(f"{text} [data-tint]").count()
    if tints > 1:
        page.click(f"{text} [data-tint] >> nth=1")
        assert "tint" in reader.query

    def state() -> list[object]:
        words = page.locator(f"{text} w").evaluate_all("all => all.map(one => one.style.cssText)")
        pressed = page.locator(f"{text} [aria-pressed=true]").all_inner_texts()
        return [words, pressed, page.input_value(f"{text} [data-choose=head]")]

    before = state()
    page.reload()
    shown(page)
    assert state() == before
    page.select_option(f"{text} [data-choose=head]", "L1H2")
    assert reader.query["head"] == ["L1H2"]
    assert "view" not in reader.query


def test_the_address_restores_the_menus_of_other_views(reader: Reader, study: str) -> None:
    """Two columns of heads; the attention next to an attribution."""
    page = reader.open(f"{study}/atlas")
    across = page.locator(".attlas-scatter [data-choose=x]")
    value = across.locator("option").nth(4).get_attribute("value")
    across.select_option(value)
    assert reader.query["across"] == [value]
    page.reload()
    assert shown(page).input_value(".attlas-scatter [data-choose=x]") == value
    page = reader.open(f"{study}/explain")
    menu = ".attlas-explanation [data-choose=attention]"
    page.locator(menu).first.select_option(index=1)
    assert "attention" in reader.query
    page.reload()
    assert shown(page).locator(menu).first.input_value() == "1"


def test_the_address_restores_the_threshold_of_heads(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/atlas")
    page.locator(".attlas-finder input").first.press("Home")
    assert "cut" in reader.query
    says = page.locator(".attlas-finder [role=status]").first.inner_text()
    page.reload()
    assert shown(page).locator(".attlas-finder [role=status]").first.inner_text() == says
    page.goto(f"{reader.address}{study}/atlas?cut=%7B%7D&selection=x&head=0&column=x")
    assert shown(page).locator(".attlas-finder tbody tr").count() > 0


def test_by_keyboard_alone(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/atlas?head=L0H0")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to content"
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.head") == "L0H0":
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert reader.query["head"] == ["L1H1"]
    assert page.inner_text("#card").startswith("L1H1")


def test_the_theme_stays(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/tables")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != light
    reader.open(f"{study}/texts")
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("path", PAGES)
def test_on_a_phone(browser: Any, address: str, study: str, path: str) -> None:
    """Nothing scrolls sideways; all that can be used is named, large enough and in view."""
    one = Reader(browser, address, viewport=PHONE, color_scheme="dark")
    page = one.open(f"{study}/{path}")
    assert not page.evaluate(WIDE), "the page scrolls sideways"
    found = offered(page)
    assert len(found) > 10
    assert unnamed(found) == []
    assert too_small(found) == []
    if tab := page.query_selector(".tabs [aria-current]"):
        box = tab.bounding_box()
        assert 0 <= box["x"] <= PHONE["width"] - box["width"]
    page.context.close()
    assert not one.wrong


def test_charts_are_drawn_with_the_library_as_a_file(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/explain")
    draw_all(page)
    assert page.locator("svg.marks").count() == page.locator("[data-chart]").count() > 0


def test_what_is_missing_says_which_command_makes_it(reader: Reader) -> None:
    study = f"/s/{opaque((OLD / 'syntax').resolve())}"
    page = reader.open(f"{study}/explain")
    assert "No explanations in this study yet" in page.inner_text("main")
    assert page.inner_text(".command code").startswith("attlas explain --data")


def test_a_table_is_taken_along(reader: Reader, study: str, tmp_path: Path) -> None:
    page = reader.open(f"{study}/tables")
    for kind in ("csv", "parquet"):
        with page.expect_download() as download:
            page.click(f"a[href='{study}/files/surface.{kind}']")
        download.value.save_as(tmp_path / f"surface.{kind}")
    expected = measured().table("surface")
    assert pd.read_parquet(tmp_path / "surface.parquet").equals(expected)
    csv = pd.read_csv(tmp_path / "surface.csv")
    assert csv["previous"].tolist() == pytest.approx(expected["previous"].tolist())


def test_the_slider_of_graphs(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/topology")
    view = page.locator("[data-view$='graph.js']")
    threshold = view.locator("input[type=number]")
    before = float(threshold.input_value())
    view.locator("input.slider").focus()
    page.keyboard.press("End")
    assert float(threshold.input_value()) > before
    assert f"threshold {threshold.input_value()}" in view.locator(".readout").inner_text()


def test_names_of_heads_in_a_comparison_lead_to_their_changes(reader: Reader) -> None:
    """It is of two models, so heads have no pages."""
    page = reader.open(f"/s/{opaque(Path(compared().folder).resolve())}/compare")
    link = page.locator(".findings a").first
    head = link.inner_text()
    reader.follow(link.click)
    assert reader.query["head"] == [head]
    chosen = page.locator(".attlas-changes td[aria-selected=true]")
    assert chosen.evaluate_all("all => all.map((one) => one.dataset.head)") == [head] * 3
    assert page.locator("a[data-own-page]").count() == 0


def test_two_studies_next_to_each_other(reader: Reader) -> None:
    page = reader.open(f"/s/{opaque(Path(compared().folder).resolve())}/compare")
    page.locator(".attlas-changes td[data-head=L1H2]").first.click()
    chosen = page.locator(".attlas-changes td[aria-selected=true]")
    assert chosen.evaluate_all("all => all.map((one) => one.dataset.head)") == ["L1H2"] * 3
    assert reader.query["head"] == ["L1H2"]
