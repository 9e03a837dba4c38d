"""Make the pictures of the docs: python docs/make_pictures.py runs/tour runs/bert/parts/syntax-
ud_ewt runs/betti/parts/cola-topology-published (needs Chromium for some).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import attlas
from attlas.catalogue import sections
from attlas.core.text import Text
from attlas.dynamics.section.by_scale import separation
from attlas.measures.section.findings import position_period
from attlas.measures.section.tokens import by_position, top_bars
from attlas.models import lengthen
from attlas.studies import Study
from attlas.syntax.section import study_lines
from attlas.views.charts import export
from attlas.views.lines import lines_svg
from attlas.views.picture import write_picture
from attlas.views.section import shown

FOLDER = Path(__file__).parent / "pictures"


def charts_of(study: Study) -> None:
    """The first chart of each section that the study has."""
    for name, section in shown(study, sections()):
        figure = section.figures(study)[0]
        if figure.chart is not None:
            export(figure.chart, FOLDER / f"{name}.png")


def long_pictures(browser: Any) -> None:
    """The pictures of the page on long documents: all embedded reviews as one text."""
    text = Text("reviews", "\n\n".join(review.text for review in attlas.read("embedded:reviews")))
    model = lengthen(attlas.load())  # with positions that repeat, for the picture of their bias
    seen = attlas.attention(model, text)
    export(seen.pictures(), FOLDER / "long_heads.png")
    study = attlas.study(model, [text], ["topk", "position_bias"])
    lists = study.table("topk")
    export(
        top_bars(lists[(lists["layers"] == "all") & (lists["by"] == "type")], "type"),
        FOLDER / "long_lists.png",
    )
    export(
        by_position(study.table("position_bias"), "position", position_period(study)),
        FOLDER / "position_bias.png",
    )
    with tempfile.TemporaryDirectory() as folder:
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto(seen.write(Path(folder) / "look.html").as_uri())
        page.locator(".words w").nth(60).wait_for()
        page.select_option("[data-choose=head]", "L5")
        page.locator(".words w").nth(60).click()
        page.screenshot(path=FOLDER / "long_look.png")


def report_pictures(browser: Any, study: Study) -> None:
    """The first screen of a report, its section of all heads, and tinted texts."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(study.report(study.folder / "report.html").resolve().as_uri())
    page.locator(".attlas-heads [role=gridcell]").first.wait_for()
    page.wait_for_timeout(1_000)
    page.screenshot(path=FOLDER / "report.png")
    for name in ("all-heads", "totals"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        page.wait_for_timeout(1_000)
    page.locator("#all-heads").screenshot(path=FOLDER / "heads.png")
    for menu in page.locator("#totals figure").first.locator("select").all():
        menu.select_option(index=0)  # the mean of all heads or layers
    page.locator("#totals figure").first.screenshot(path=FOLDER / "texts.png")


def lines_picture(study: Study) -> None:
    """A sentence of the head furthest above the best offset, with lines between its words."""
    one = study_lines(study)[0]
    write_picture(lines_svg(one), FOLDER / "lines", "png")


def explained_pictures(browser: Any, study: Study) -> None:
    """The pictures of the page on explanations, from a study such as attlas explain --data
    embedded:messages --model runs/tour/parts/finetune.
    """
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto(study.report(study.folder / "report.html").resolve().as_uri())
    page.locator("#explanations w").nth(4).click()
    page.locator("#explanations figure").first.scroll_into_view_if_needed()
    page.wait_for_timeout(1_000)
    page.locator("#explanations figure").first.screenshot(path=FOLDER / "explained.png")


def dynamics_picture(study: Study) -> None:
    """Separation by scale, with its controls."""
    export(
        separation(study.table("dynamics_summary"), study.table("dynamics")),
        FOLDER / "dynamics_separation.png",
    )


if __name__ == "__main__":
    studies = [Study.open(folder) for folder in sys.argv[1:]]
    for one in studies:
        charts_of(one)
        if one.has("example_arcs"):
            lines_picture(one)
        if one.has("dynamics"):
            dynamics_picture(one)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        report_pictures(browser, studies[0].with_parts())
        for one in studies:
            if one.has("explanations"):
                explained_pictures(browser, one)
        long_pictures(browser)
        browser.close()
