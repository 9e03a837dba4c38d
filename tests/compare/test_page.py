"""The changes of heads on a page: one head and one measure for all pictures, by mouse and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from attlas.views.numbers import decimal
from tests.builders.pages import draw_all, open_page
from tests.builders.studies import compared

GRIDS = ".attlas-changes table[role='grid']"


@pytest.fixture(scope="module", params=[1280, 390])
def page(request: Any, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = compared().report(tmp_path_factory.mktemp("page") / "report.html")
    opened, wrong = open_page(browser, path, viewport={"width": request.param, "height": 900})
    draw_all(opened)
    yield opened
    assert wrong == []
    opened.close()


def choose_column(page: Any, name: str) -> None:
    page.select_option(".attlas-changes .choose select", name)


def test_a_head_is_chosen_in_all_pictures(page: Any) -> None:
    """A cell of A chooses it in B, in B minus A, in the list and in the line of numbers."""
    choose_column(page, "entropy.entropy")
    page.locator(GRIDS).first.locator("td[data-head='L1H2']").click()
    chosen = page.locator(f"{GRIDS} td[aria-selected='true']")
    assert chosen.evaluate_all("all => all.map(one => one.dataset.head)") == ["L1H2"] * 3
    assert page.locator(".attlas-ranking tr.chosen button").inner_text() == "L1H2"
    table = compared().table("head_changes").set_index(["column", "layer", "head"])
    row = table.loc[("entropy", 1, 2)]
    words = page.locator(".attlas-changes .read-out").inner_text()
    assert words.startswith("L1H2 A ")
    for value in (row["value_a"], row["value_b"], row["halves"]):
        assert decimal(value) in words
    page.keyboard.press("ArrowRight")
    assert page.locator(".attlas-ranking tr.chosen button").inner_text() == "L1H3"
    page.locator(".attlas-ranking tbody button").first.click()
    name = page.locator(".attlas-ranking tbody button").first.inner_text()
    assert page.locator(".attlas-changes .read-out b").inner_text() == name


def test_the_measure_is_that_of_all_pictures(page: Any) -> None:
    table = compared().table("head_changes")
    for key in ("surface.previous", "entropy.cls_entropy"):
        choose_column(page, key)
        rows = table[table["measure"] + "." + table["column"] == key]
        cells = page.locator(GRIDS).nth(0).locator("td[data-head]")
        first = cells.first.get_attribute("aria-label")
        assert decimal(rows.iloc[0]["value_a"]) in first
        marks = page.locator(GRIDS).nth(2).locator("td.marked").count()
        least = 0.1 if key.startswith("entropy") else 0.02
        assert marks == (~rows["significant"] | (rows["beyond"].abs() < least)).sum()
        ranked = page.locator(".attlas-ranking tbody button").all_inner_texts()
        counts = rows[rows["significant"] & (rows["beyond"].abs() >= least)]
        names = [f"L{one.layer}H{one.head}" for one in counts.itertuples()]
        assert set(ranked[: len(names)]) == set(names) or len(names) > 14
        assert len(ranked) - min(14, max(5, len(names))) in (0, 1)  # the chosen head is there too


def test_what_does_not_count_has_no_tint(page: Any) -> None:
    """A picture never contradicts its control."""
    marked = page.locator(GRIDS).nth(2).locator("td.marked")
    assert marked.evaluate_all("all => all.filter(one => one.style.background).length") == 0


def test_the_list_is_a_table_too_and_nothing_scrolls_sideways(page: Any) -> None:
    page.locator(".attlas-ranking summary").click()
    head = page.locator(".attlas-ranking .window thead").inner_text()
    assert "corrected interval" in head
    assert "another seed" in head
    assert page.locator(".attlas-ranking .window tbody tr").count() == 12
    width, room = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert width <= room
