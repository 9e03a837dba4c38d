"""The pages in a real browser: from the atlas to a head, texts, the address, keyboard, themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from attlas.web.library import opaque
from tests.builders.pages import VIEWS_ARE_DRAWN
from tests.builders.served import listening
from tests.builders.studies import OLD, measured

READY = "() => 'ready' in document.documentElement.dataset"
WIDE = "() => document.documentElement.scrollWidth > innerWidth"
PAGES = ("atlas", "head/L0H1", "texts", "text?id=one", "topology", "explain", "compare", "tables")
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening([measured().folder, OLD / "syntax"], {}) as one:
        yield one.address


@pytest.fixture(scope="module")
def study() -> str:
    return f"/s/{opaque(Path(measured().folder).resolve())}"


class Reader:
    """A page, and what went wrong in it."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address, self.wrong = address, list[str]()
        self.page = browser.new_context(**options).new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(request.url)

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path)
        self.page.wait_for_function(READY, timeout=90_000)
        self.page.wait_for_function(VIEWS_ARE_DRAWN)
        return self.page

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
    page.click(f"a[href='{study}/atlas']")
    page.wait_for_function(READY)
    page.click(cell("L1H2"))
    assert page.inner_text("#card").startswith("L1H2")
    assert reader.query["head"] == ["L1H2"]
    page.click("a[data-own-page]")
    page.wait_for_function(READY)
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
    page.click("text=Topology")
    page.wait_for_function(READY)
    assert reader.query["head"] == ["L1H3"]
    page.go_back()
    page.wait_for_function(READY)
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
    page.press("input[name=words]", "Enter")
    page.wait_for_function(READY)
    assert reader.query["words"] == ["bad"]
    assert page.locator("table.texts tbody tr").count() == 2
    page.select_option("select[name=label]", "good")
    page.click("text=filter")
    page.wait_for_function(READY)
    assert page.input_value("input[name=words]") == "bad"
    page.click("table.texts tbody th a >> nth=0")
    page.wait_for_function(READY)
    page.wait_for_function(VIEWS_ARE_DRAWN)
    assert "Text one" in page.inner_text("h1")
    page.click("[data-view='attlas/text.js'] w >> nth=2")
    assert "selection" in reader.query


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
    one = Reader(browser, address, viewport=PHONE, color_scheme="dark")
    page = one.open(f"{study}/{path}")
    assert not page.evaluate(WIDE), "the page scrolls sideways"
    page.context.close()
    assert not one.wrong


def test_charts_are_drawn_with_the_library_as_a_file(reader: Reader, study: str) -> None:
    page = reader.open(f"{study}/topology")
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-chart]')].every((one) => "
        "one.querySelector('svg.marks'))",
        timeout=60_000,
    )


def test_what_is_missing_says_which_command_makes_it(reader: Reader) -> None:
    study = f"/s/{opaque((OLD / 'syntax').resolve())}"
    page = reader.open(f"{study}/explain")
    assert "No explanations in this study yet" in page.inner_text("main")
    assert page.inner_text(".command code").startswith("attlas explain --data")
