"""Make the pictures of the docs: python docs/make_pictures.py runs/tour runs/betti/cola/topology-published runs/longformer/arxiv_long/study (needs Chromium for some)."""

from __future__ import annotations

import sys
from pathlib import Path

from attlas.studies import Study
from attlas.views.charts import export, head_pictures, top_bars
from attlas.views.report import sections

FOLDER = Path(__file__).parent / "pictures"


def charts_of(study: Study) -> None:
    """The first chart of each section that the study has."""
    for name, section in sections(study):
        figure = section.figures(study)[0]
        if figure.chart is not None:
            export(figure.chart, FOLDER / f"{name}.png")


def long_charts(study: Study) -> None:
    """The pictures of the page on long documents."""
    texts, lists = study.table("heatmap_texts"), study.table("topk")
    first = texts["text"].iloc[0]
    export(head_pictures(texts[texts["text"] == first], study.table("heatmap_uniform")), FOLDER / "long_heads.png")
    rows = lists[(lists["text"] == first) & (lists["layers"] == "all") & (lists["by"] == "type")]
    export(top_bars(rows, "type"), FOLDER / "long_lists.png")


if __name__ == "__main__":
    studies = [Study.open(folder) for folder in sys.argv[1:]]
    for one in studies:
        charts_of(one)
        if one.manifest["model"]["banded"] and one.has("heatmap_texts"):
            long_charts(one)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        page.goto(studies[0].report(studies[0].folder / "report.html").resolve().as_uri())
        page.wait_for_selector("svg.marks")
        page.locator("#totals figure").screenshot(path=FOLDER / "texts.png")
        browser.close()
