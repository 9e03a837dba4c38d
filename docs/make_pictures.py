"""Make the pictures of the docs: python docs/make_pictures.py runs/tour runs/bert/parts/syntax-
ud_ewt runs/betti/parts/cola-topology-published (needs Chromium for some).
"""

from __future__ import annotations

import shutil
import subprocess
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
from attlas.relations import RelationExtractor
from attlas.studies import Study
from attlas.views.charts import export
from attlas.views.report import write_charts
from attlas.views.section import shown

FOLDER = Path(__file__).parent / "pictures"


def charts_of(study: Study) -> None:
    """The first picture of each section that the docs show."""
    for name, section in shown(study, sections()):
        path = FOLDER / f"{name}.png"
        if path.is_file():
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(write_charts(study, {name: section}, Path(folder), "png")[0], path)


def long_pictures(browser: Any) -> None:
    """The pictures of the page on long documents: all embedded reviews as one text."""
    text = Text("reviews", "\n\n".join(review.text for review in attlas.read("embedded:reviews")))
    model = lengthen(attlas.load())  # with positions that repeat, for the picture of their bias
    seen = attlas.attention(model, text)
    export(seen.pictures(), FOLDER / "long_heads.png", force=True)
    study = attlas.study(model, [text], ["topk", "position_bias"])
    lists = study.table("topk")
    export(
        top_bars(lists[(lists["layers"] == "all") & (lists["by"] == "type")], "type"),
        FOLDER / "long_lists.png",
        force=True,
    )
    export(
        by_position(study.table("position_bias"), "position", position_period(study)),
        FOLDER / "position_bias.png",
        force=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto(seen.write(Path(folder) / "look.html").as_uri())
        page.locator(".passage w").nth(60).wait_for()
        page.select_option("[data-choose=head]", "L5")
        page.locator(".passage w").nth(60).click()
        page.screenshot(path=FOLDER / "long_look.png")


def whole_report(study: Study) -> Path:
    """The report of a study with its parts."""
    return study.with_parts().report(study.folder / "report.html").resolve()


def report_pictures(browser: Any, study: Study) -> None:
    """The first screen of a report, its section of all heads, and tinted texts."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(whole_report(study).as_uri())
    page.locator(".attlas-heads [role=gridcell]").first.wait_for()
    page.wait_for_timeout(1_000)
    page.screenshot(path=FOLDER / "report.png")
    for name in ("all-heads", "totals"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        page.wait_for_timeout(1_000)
    page.set_viewport_size({"width": 1440, "height": 1500})  # all of it, with the card at its top
    page.locator("#all-heads").screenshot(path=FOLDER / "heads.png")
    for menu in page.locator("#totals figure").first.locator("select").all():
        menu.select_option(index=0)  # the mean of all heads or layers
    page.locator("#totals figure").first.screenshot(path=FOLDER / "texts.png")


def workbench_pictures(browser: Any, study: Study) -> None:
    """All heads, and a text with a selected word, as the server shows them."""
    command = [sys.executable, "-m", "attlas", "serve", str(study.folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1].rstrip("/")
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(120_000)
        page.goto(address)
        page.click("table.studies a")
        page.wait_for_selector("#all-heads canvas")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(1_000)
        page.screenshot(path=FOLDER / "workbench.png")
        page.click(".tabs >> text=Texts")
        page.click("text=msg-015")
        page.wait_for_selector(".attlas-look[data-drawn]")
        page.locator(".attlas-look td[data-head=L2H8]").click()
        page.locator(".attlas-look w", has_text="savings").click()
        page.wait_for_function(
            "() => !document.querySelector('.lines').innerText.includes('reading')"
        )
        page.wait_for_timeout(1_000)
        page.screenshot(path=FOLDER / "workbench_text.png")
        server.terminate()


def compare_picture(browser: Any, study: Study) -> None:
    """Two studies next to each other, with the head that changed most."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(whole_report(study).as_uri())
    page.locator(".attlas-ranking tbody button").first.click()
    page.wait_for_timeout(1_000)
    page.locator(".attlas-changes").screenshot(path=FOLDER / "compare.png")


def lines_picture(browser: Any) -> None:
    """Lines of several heads between the words of a sentence, with a selected word."""
    with tempfile.TemporaryDirectory() as folder:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        seen = attlas.attention(
            attlas.load(), "He never takes it off, because his sister knitted it."
        )
        page.goto(seen.write(Path(folder) / "look.html").as_uri())
        page.locator(".passage w", has_text="sister").click()
        page.locator(".lines").screenshot(path=FOLDER / "lines.png")


def explained_pictures(browser: Any, study: Study) -> None:
    """The pictures of the page on explanations, from a study such as attlas explain --data
    embedded:messages --model runs/tour/parts/finetune.
    """
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto(whole_report(study).as_uri())
    page.locator("#explanations w").nth(4).click()
    page.locator("#explanations figure").first.scroll_into_view_if_needed()
    page.wait_for_timeout(1_000)
    page.locator("#explanations figure").first.screenshot(path=FOLDER / "explained.png")


def triples_picture(browser: Any) -> None:
    """The page of one text with the triples that the extractor of the docs finds in it."""
    text = (
        "Ada Stone, who was born in Paris, founded Brightwave with her husband Tom Reed. "
        "The company employs Nora Field in Dover."
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "triples.html"
        fitted = RelationExtractor(progress=False, workers=1).fit("embedded:relations")
        options = ["--extractor", str(fitted.save(Path(folder) / "mine")), "--html", str(path)]
        command = [sys.executable, "-m", "attlas", "relations", "extract", text]
        subprocess.run([*command, *options], check=True)
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto(path.as_uri())
        page.locator(".phrases svg").first.wait_for()
        page.locator(".attlas-triples").screenshot(path=FOLDER / "relations_text.png")


def dynamics_picture(study: Study) -> None:
    """Separation by scale, with its controls."""
    export(
        separation(study.table("dynamics_summary"), study.table("dynamics")),
        FOLDER / "dynamics_separation.png",
        force=True,
    )


if __name__ == "__main__":
    studies = [Study.open(folder) for folder in sys.argv[1:]]
    for one in studies:
        charts_of(one)
        if one.has("dynamics"):
            dynamics_picture(one)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        report_pictures(browser, studies[0])
        workbench_pictures(browser, studies[0])
        for one in studies:
            if one.with_parts().has("explanations"):
                explained_pictures(browser, one)
            if one.has("head_changes"):
                compare_picture(browser, one)
        lines_picture(browser)
        triples_picture(browser)
        long_pictures(browser)
        browser.close()
