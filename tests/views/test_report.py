"""The frame of a report in a browser: themes, phones, folds, charts without `eval`, printing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest

import attlas
from attlas.testing import tiny
from attlas.views.claims import Claim
from attlas.views.findings import findings, opening
from attlas.views.report import finding_table, render
from attlas.views.section import Figure, Section
from tests.builders.pages import SECTIONS, draw_all, open_page

POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
POLICY += "img-src data: blob:"


def bars(menu: bool = False) -> alt.Chart:
    frame = pd.DataFrame({"word": ["a", "b", "a"], "n": [0.5, 2.25, 1.0], "side": ["x", "x", "y"]})
    tooltip = [alt.Tooltip("word:N", title="the word"), alt.Tooltip("n:Q", title="how often")]
    chart = alt.Chart(frame).mark_bar().encode(x="n:Q", y="word:N", tooltip=tooltip)
    if not menu:
        return chart
    bind = alt.binding_select(options=["x", "y"], name="side ")
    side = alt.param(name="shown", value="x", bind=bind)
    return chart.transform_filter("datum.side == shown").add_params(side)


def section(title: str, figures: list[Figure], **options: Any) -> Section:
    words = {"title": title, "question": "What?", "about": "About it.", "needs": ("surface",)}
    return Section(**{**words, "figures": lambda study: figures, **options})


def claim(value: float) -> Claim:
    ends = (value - 0.1, value + 0.1)
    apart = (value - 0.6, value - 0.4)
    return Claim("It holds", value, *ends, 0.5, "chance", *apart, 50)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with real sections, a chart with a menu, one far below, and one that is folded."""
    texts = [attlas.Text(str(n), f"the dog saw a cat {n} .") for n in range(4)]
    folder = tmp_path_factory.mktemp("report")
    measures = "surface,entropy"
    study = attlas.study(tiny("bert"), texts, measures, folder / "study", progress=False)
    sections = {
        "chart": section("Bars", [Figure("Bars.", bars(menu=True))], group="First", order=-1),
        **{name: SECTIONS[name] for name in ("surface", "entropy")},
        "space": section("Space", [Figure("Far.", html='<p style="height:9000px">down</p>')]),
        "far": section("Far", [Figure("Far.", bars())], order=8),
        "folded": section(
            "Folded",
            [Figure("Folded.", bars())],
            order=9,
            claims=lambda study: [claim(0.5)],
            smallest_effect=0.1,
        ),
    }
    page = folder / "report.html"
    page.write_text(render(study, sections), encoding="utf-8")
    return page


def charts(page: Any) -> list[str]:
    """The sections whose chart is drawn."""
    found: list[str] = page.locator("section svg.marks").evaluate_all(
        "all => all.map(one => one.closest('section').id)"
    )
    return found


def test_charts_are_drawn_when_they_come_near(path: Path, browser: Any) -> None:
    page, wrong = open_page(browser, path, viewport={"width": 1280, "height": 720})
    page.locator("#chart").scroll_into_view_if_needed()
    page.locator("#chart svg.marks").wait_for()
    assert "far" not in charts(page)
    page.locator("#far").scroll_into_view_if_needed()
    page.locator("#far svg.marks").wait_for()
    assert "folded" not in charts(page)
    page.locator("#folded summary").first.click()
    page.locator("#folded svg.marks").wait_for()
    assert wrong == []


def test_printing_draws_what_is_far(path: Path, browser: Any) -> None:
    page, wrong = open_page(browser, path, viewport={"width": 1280, "height": 720})
    draw_all(page)
    assert {"chart", "surface", "entropy", "far", "folded"} == {*charts(page)}
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert wrong == []


def test_nothing_needs_eval_or_a_network(path: Path, tmp_path: Path, browser: Any) -> None:
    """Under a policy without unsafe-eval everything is drawn, and a menu still works."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    strict = tmp_path / "strict.html"
    tried = "<script>try { new Function('') } catch { window.strict = true }</script>"
    whole = path.read_text("utf-8").replace("<head>", f"<head>{policy}{tried}", 1)
    strict.write_text(whole, "utf-8")
    page, wrong = open_page(browser, strict)
    draw_all(page)
    assert "could not be drawn" not in page.locator("body").inner_text()
    assert page.locator("#chart .role-mark path").count() == 2
    page.locator("#chart select").select_option("y")
    page.wait_for_function("() => document.querySelectorAll('#chart .role-mark path').length === 1")
    assert page.locator("#surface [role=gridcell]").count() == 12
    assert page.evaluate("window.strict") is True
    assert len([one for one in wrong if "unsafe-eval" in one]) <= 1  # the one that was tried
    assert [one for one in wrong if "unsafe-eval" not in one] == []


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_reader_chooses_the_theme(path: Path, browser: Any, system: str) -> None:
    page, wrong = open_page(browser, path, color_scheme=system)
    page.locator("#chart").scroll_into_view_if_needed()
    page.locator("#chart svg.marks").wait_for()
    page.locator("#chart select").select_option("y")
    ground = "getComputedStyle(document.body).backgroundColor"
    paper = {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 18, 22)"}
    letters = "getComputedStyle(document.querySelector('#chart svg.marks text')).fill"
    cells = "[...document.querySelectorAll('main > header td')].map(one => one.style.background)"
    other = "dark" if system == "light" else "light"
    assert page.evaluate(ground) == paper[system]
    before, tints = page.evaluate(letters), page.evaluate(cells)
    page.locator("#theme").click()
    assert page.evaluate(ground) == paper[other]
    page.wait_for_function(f"{letters} !== {json.dumps(before)}")
    assert page.evaluate(cells) != tints
    page.wait_for_function("document.querySelectorAll('#chart .role-mark path').length === 1")
    assert page.locator("#chart select").input_value() == "y"  # what was chosen stays
    page.locator("#theme").click()
    assert page.evaluate(ground) == paper[system]
    assert page.evaluate(cells) == tints
    assert wrong == []


@pytest.mark.parametrize("width", [390, 720, 1440])
def test_the_page_never_scrolls_sideways(path: Path, browser: Any, width: int) -> None:
    page, wrong = open_page(browser, path, viewport={"width": width, "height": 800})
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    contents = page.locator("nav")
    assert contents.is_visible() == (width > 760)
    if width <= 760:
        page.locator(".contents > summary").click()
        page.locator("nav a", has_text="Attention entropy").click()
        assert not contents.is_visible()
        small = page.locator("main button, main select, main summary, [role=gridcell]")
        heights = small.evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().height).filter(one => one)"
        )
        assert min(heights) >= 24
    page.wait_for_function("document.querySelector('nav a[aria-current]') !== null")
    assert wrong == []


def test_contents_lead_to_sections_by_group(path: Path, browser: Any) -> None:
    page, wrong = open_page(browser, path, viewport={"width": 1280, "height": 720})
    assert page.locator("nav h2").all_inner_texts() == ["First", "Attention"]
    links = page.locator("nav a:not(.home)").all_inner_texts()
    assert links[:3] == ["Findings", "Heads", "Bars"]
    assert "folded" in page.locator("nav a.nothing").get_attribute("href")
    assert not page.locator("#folded figure").is_visible()
    assert "nothing beyond the control" in page.locator("#folded summary").first.inner_text()
    page.locator("nav a.nothing").click()
    page.locator("#folded figure").wait_for()  # a link opens what is folded
    page.wait_for_function("document.querySelector('nav a[aria-current]')?.hash === '#folded'")
    assert wrong == []


def test_every_chart_is_also_a_table(path: Path, browser: Any) -> None:
    page, wrong = open_page(browser, path)
    draw_all(page)
    page.locator("#far details[data-rows] summary").click()
    table = page.locator("#far details[data-rows] table")
    table.wait_for()
    assert table.locator("th[scope=col]").all_inner_texts() == ["the word", "how often"]
    rows = [row.split() for row in table.locator("tbody tr").all_inner_texts()]
    assert rows == [["a", "0.50"], ["b", "2.25"], ["a", "1"]]
    assert wrong == []


def test_the_findings_are_also_a_table(path: Path) -> None:
    study = attlas.Study.open(path.parent / "study")
    own = section("Own", [], claims=lambda study: [claim(0.9)], smallest_effect=0.1)
    found = opening(findings(study, {"own": own}))
    (row,) = finding_table(found).rows
    assert row == ("It holds", ".90", "[.80,\u00a01.00]", "chance .50", "signal")
    assert finding_table(found).html() in render(study, {"own": own})
