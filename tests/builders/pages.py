"""Reports as tests want them: drawn with the sections of the whole catalogue."""

from __future__ import annotations

import math
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from attlas import catalogue
from attlas.studies.opened import Study
from attlas.views import findings as study_findings, report
from attlas.views.section import Fact, Section, shown

SECTIONS = catalogue.sections()
PATIENCE = (
    120_000  # milliseconds for anything in a browser, on a machine that other work keeps busy
)
# views are drawn one by one, and each may add menus and buttons
VIEWS_ARE_DRAWN = """() => [...document.querySelectorAll("[data-view]")].every(
    one => "drawn" in one.dataset || one.innerText.includes("could not be drawn"))"""


def sections(study: Study) -> list[tuple[str, Section]]:
    return shown(study, SECTIONS)


def findings(study: Study) -> list[str]:
    """Warnings, the best claim of each group whatever its verdict, and notes: in sentences."""
    able = shown(study, SECTIONS)
    claims = [
        one.sentence
        for name, section in able
        for one in study_findings.section_findings(study, name, section)
    ]
    notes = [line for _, section in able for line in section.notes(study)]
    return [*study_findings.warnings(study, SECTIONS), *claims, *notes]


def findings_of(study: Study, name: str) -> list[str]:
    """The same of one section, without warnings."""
    section = SECTIONS[name]
    claims = study_findings.section_findings(study, name, section)
    return [*(one.sentence for one in claims), *section.notes(study)]


def facts(study: Study) -> list[Fact]:
    return study_findings.facts(study, SECTIONS)


def render(study: Study) -> str:
    return report.render(study, SECTIONS)


def write_charts(study: Study, folder: Path, kind: str = "svg") -> list[Path]:
    return report.write_charts(study, SECTIONS, folder, kind)


def n_pictures(study: Study) -> int:
    """How many pictures there are: every choice of the menus of a chart, every shaded text."""
    figures = [one for _, section in shown(study, SECTIONS) for one in section.figures(study)]
    charts = [figure.chart.to_dict() for figure in figures if figure.chart is not None]
    choices = [
        math.prod(len(one["bind"]["options"]) for one in chart.get("params", []) if "bind" in one)
        for chart in charts
    ]
    return sum(choices) + sum(len(part.pictures()) for one in figures for part in one.parts)


def unfold(page: Any) -> None:
    """Open the sections that are folded because nothing in them is beyond chance."""
    page.evaluate("document.querySelectorAll('details.folded').forEach((one) => one.open = true)")


def draw_far(page: Any) -> None:
    """Draw also what waits until a reader comes near it: views, with their menus, and charts."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")


def draw_all(page: Any, timeout: int = PATIENCE) -> None:
    """Open what is folded, and draw every chart, as printing does: also those far from the screen.

    A chart that cannot be drawn says so.
    """
    unfold(page)
    page.wait_for_function("() => document.documentElement.dataset.charts === 'ready'")
    draw_far(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-chart]')].every(one => "
        "one.querySelector('svg.marks') || one.innerText.includes('could not be drawn'))",
        timeout=timeout,
    )


def redrawn(page: Any, place: str, act: Callable[[], Any]) -> None:
    """Do something, and wait until what is drawn in a place is another."""
    before = page.locator(place).first.inner_html()
    act()
    changed = "([place, before]) => document.querySelector(place).innerHTML !== before"
    page.wait_for_function(changed, arg=[place, before])


def cpu_seconds(page: Any) -> float:
    """What the thread of a page's scripts has used, whatever else the machine does meanwhile."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def open_page(
    browser: Any, path: Path, context: Any = None, **options: Any
) -> tuple[Any, list[str]]:
    """A page opened from a file with the network off, its views drawn; what went wrong in it."""
    context = context or browser.new_context(offline=True, **options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("dialog", lambda dialog: (wrong.append("a script of a text ran"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: (
            wrong.append(request.url)
            if not request.url.startswith(("file:", "data:", "blob:"))
            else None
        ),
    )
    page.goto(path.as_uri())
    page.wait_for_function(VIEWS_ARE_DRAWN)
    return page, wrong


def drawn_before(out: Path) -> Callable[..., Path]:
    """Put the pictures of an earlier run where charts are drawn, without drawing them again."""

    def export(chart: Any, path: Path, **options: Any) -> Path:
        stage = next(one for one in path.parents if one.name.startswith(".attlas-"))
        path.write_bytes((out / path.relative_to(stage)).read_bytes())
        return path

    return export


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.tags.append(tag)
