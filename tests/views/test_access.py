"""Can everyone read and reach it? Contrast of every colour; keyboard, names and sizes of a page."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas.studies.opened import Study
from attlas.views import charts, colours
from attlas.views.modules import import_map, source
from tests.builders.access import offered, tabbed, too_small, unnamed
from tests.builders.contrast import contrast, rgb
from tests.builders.models import shared
from tests.builders.pages import open_page, render, unfold
from tests.builders.studies import measured, studies

TEXT, MARK = 4.5, 3.0  # what letters need, and what marks and outlines need
STYLE = (files("attlas.views") / "templates" / "style.css").read_text(encoding="utf-8")
THEMES = ("light", "dark")
STOPS = {
    name: dict(
        zip(
            THEMES,
            [
                re.findall(r"#[0-9a-f]{6}", line)
                for line in re.findall(r"(?:light|dark): \[.*", body)
            ],
            strict=True,
        )
    )
    for name, body in re.findall(
        r"const (AMOUNT|SIGN) = \{(.*?)\};", source("attlas/colour.js"), re.S
    )
}


def tokens(theme: str) -> dict[str, str]:
    """The colours that style.css names, in a theme: plain, by light-dark(), or in a media query."""
    light, _, dark = STYLE.partition("prefers-color-scheme: dark")
    out: dict[str, str] = {}
    named = r"--([\w-]+): (#[0-9a-f]{6}|light-dark\([^)]*\))"
    for name, value in [*re.findall(named, light), *(re.findall(named, dark) * (theme == "dark"))]:
        both = re.findall(r"#[0-9a-f]{6}", value)
        out[name] = both[-1] if theme == "dark" else both[0]
    return out


def test_the_colours_of_scales_are_found() -> None:
    assert {name: [len(one) for one in by.values()] for name, by in STOPS.items()} == {
        "AMOUNT": [8, 8],
        "SIGN": [7, 7],
    }
    assert {"light": [*colours.SIGN], "dark": [*colours.SIGN_DARK]} == STOPS["SIGN"]
    assert {"ink", "second", "soft", "paper", "accent", "amber", "amber-ground"} <= {
        *tokens("light")
    }
    assert tokens("light")["ink"] != tokens("dark")["ink"]


@pytest.mark.parametrize("theme", THEMES)
def test_letters_can_be_read_on_their_grounds(theme: str) -> None:
    found = tokens(theme)
    pairs = [
        (name, ground)
        for name in ("ink", "second", "soft", "grey", "accent", "amount", "chosen")
        for ground in ("paper", "band")
    ]
    pairs += [("amber", "amber-ground"), ("chosen", "wash"), ("ink", "wash"), ("inverse", "ink")]
    weak = {
        f"{name} on {ground}": round(contrast(found[name], found[ground]), 2)
        for name, ground in pairs
        if name in found and ground in found and contrast(found[name], found[ground]) < TEXT
    }
    assert weak == {}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("scale", STOPS)
def test_the_outline_of_a_chosen_cell_is_seen_on_every_colour(scale: str, theme: str) -> None:
    """Two pixels of the ground inside two pixels of ink: one of them is seen on any colour."""
    found = tokens(theme)
    for stop in STOPS[scale][theme]:
        rings = [contrast(found[name], stop) for name in ("paper", "ink")]
        assert max(rings) >= MARK, stop
    assert contrast(found["paper"], found["ink"]) >= MARK


@pytest.mark.parametrize("theme", THEMES)
def test_marks_and_letters_of_charts_are_seen(theme: str) -> None:
    ground = tokens(theme)["paper"]
    config = charts.theme(theme == "dark")
    letters = [config[part]["labelColor"] for part in ("axis", "legend", "header")]
    letters += [config[part]["titleColor"] for part in ("axis", "legend", "header")]
    letters += [config["title"]["color"], config["text"]["color"]]
    assert [one for one in letters if contrast(one, ground) < TEXT] == []
    marks = [*charts.COLOURS, charts.GREY, charts.ACCENT, charts.SECOND, charts.FOR, charts.AGAINST]
    marks += [config["axis"]["domainColor"], config["axis"]["tickColor"]]
    assert [one for one in marks if contrast(one, ground) < MARK] == []


INKS = """async () => {
  const { colour, ink } = await import("attlas/colour.js");
  const out = [];
  for (const theme of ["light", "dark"]) {
    document.documentElement.dataset.theme = theme;
    for (const signed of [false, true]) {
      for (let step = 0; step <= 200; step++) {
        const shade = signed ? step / 100 - 1 : step / 200;
        out.push([colour(shade, signed), ink(colour(shade, signed)), theme, signed, shade]);
      }
    }
  }
  return out;
}"""


def test_letters_can_be_read_on_every_shade(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    script = f'<script type="importmap">{import_map(["attlas/colour.js"])}</script>'
    path.write_text(f"<!doctype html><title>colours</title>{script}", encoding="utf-8")
    page, wrong = open_page(browser, path)
    shades = page.evaluate(INKS)
    assert len(shades) == 804
    ends = {tuple(shades[at][0]) for at in (0, 200)}
    assert ends == {rgb(STOPS["AMOUNT"]["light"][at]) for at in (0, -1)}
    weak = [one for one in shades if contrast(tuple(one[0]), one[1]) < TEXT]
    assert weak == []
    assert wrong == []


def phone(browser: Any, path: Path) -> Any:
    """A page on a phone, with every section open and every view drawn."""
    page, wrong = open_page(browser, path, viewport={"width": 390, "height": 800})
    page.wait_for_function(
        "[...document.querySelectorAll('[data-view]')].every((one) => 'drawn' in one.dataset)"
    )
    unfold(page)
    for chart in page.locator("[data-chart]").all():  # drawn when they are near
        if chart.is_visible():
            chart.scroll_into_view_if_needed()
            chart.locator("svg").first.wait_for()
    page.evaluate("scrollTo(0, 0)")
    assert wrong == []
    return page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of every section, and the page of a text with matrices."""
    folder = tmp_path_factory.mktemp("pages")
    together = Study(measured().folder, measured().manifest, studies()[1:])
    (folder / "report.html").write_text(render(together), encoding="utf-8")
    seen = attlas.attention(shared("bert"), "the cat sat on the mat .", matrix="L1H2,L0H0")
    return {"report": folder / "report.html", "look": seen.write(folder / "look.html")}


@pytest.mark.parametrize("kind", ["report", "look"])
def test_everything_that_can_be_used_is_named_and_large_enough(
    kind: str, pages: dict[str, Path], browser: Any
) -> None:
    found = offered(phone(browser, pages[kind]))
    assert len(found) > 10
    assert unnamed(found) == []
    assert too_small(found) == []


@pytest.mark.parametrize("kind", ["report", "look"])
def test_tab_reaches_everything_and_shows_where_it_is(
    kind: str, pages: dict[str, Path], browser: Any
) -> None:
    page = phone(browser, pages[kind])
    found = offered(page)
    reached = tabbed(page)
    names = [f"{one['view']}: {one['what']} {one['name']!r}" for one in found]
    stops = [at for at, one in enumerate(found) if one["stop"]]
    assert [names[at] for at in stops if at not in reached] == []
    assert [names[at] for at, seen in reached.items() if not seen] == []


BAD = """<!doctype html><title>bad</title><style>.quiet:focus { outline: none }
button, input { height: 30px; min-width: 30px }</style>
<button style="height: 9px"></button><p>a <a href="#x">link</a> here</p>
<button class="quiet">quiet</button><button tabindex="-1">never by Tab</button>
<label>name <input></label><div hidden><button></button></div>"""


def test_an_audit_sees_what_is_wrong(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(BAD, encoding="utf-8")
    page, _ = open_page(browser, tmp_path / "bad.html")
    found = offered(page)
    assert unnamed(found) == ["page: button.null"]
    assert [one.split()[1] for one in too_small(found)] == ["button.null"]
    reached = tabbed(page)
    assert [found[at]["name"] for at, seen in reached.items() if not seen] == ["quiet"]
    assert {found[at]["name"] for at in reached} == {"", "link", "quiet", "name"}
