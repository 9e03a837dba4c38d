"""Make the pictures of the docs from a tour: python docs/make_pictures.py runs/tour (needs Chromium for the last one)."""

from __future__ import annotations

import sys
from pathlib import Path

from attlas.studies import Study
from attlas.views.charts import export
from attlas.views.report import sections

if __name__ == "__main__":
    study = Study.open(sys.argv[1])
    folder = Path(__file__).parent / "pictures"
    for name, section in sections(study):
        figure = section.figures(study)[0]
        if figure.chart is not None:
            export(figure.chart, folder / f"{name}.png")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        page.goto(study.report(study.folder / "report.html").resolve().as_uri())
        page.wait_for_selector("svg.marks")
        page.locator("#totals figure").screenshot(path=folder / "texts.png")
        browser.close()
