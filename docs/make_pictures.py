"""Make the pictures of the docs: python docs/make_pictures.py runs/tour runs/betti/cola/topology-published (needs Chromium for the last one)."""

from __future__ import annotations

import sys
from pathlib import Path

from attlas.studies import Study
from attlas.views.charts import export
from attlas.views.report import sections

if __name__ == "__main__":
    studies = [Study.open(folder) for folder in sys.argv[1:]]
    study, folder = studies[0], Path(__file__).parent / "pictures"
    for one in studies:
        for name, section in sections(one):
            figure = section.figures(one)[0]
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
