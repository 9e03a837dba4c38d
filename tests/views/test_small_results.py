"""Reports of results with little in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attlas
from attlas.syntax.examples import best_examples
from attlas.syntax.section import study_lines
from attlas.views.claims import section_verdict
from attlas.views.findings import section_findings
from tests.builders.pages import SECTIONS, draw_all, findings, open_page, sections
from tests.builders.probes import chained, document, probe, rigged

# reports of little


def test_reports_of_studies_with_little_in_them(tmp_path: Path, browser: Any) -> None:
    """One head; no relation above its offset; one kind of mention; with a map of heads."""
    one, flat = rigged((-1,)), [chained(n, -1) for n in range(12)]
    pairs = [
        document(n, "dog it was good", (0, "d", "common"), (1, "d", "pronoun")) for n in range(6)
    ]
    syntax = probe("syntax", one, flat, flat, tmp_path / "syntax", min_cases=5)
    assert not len(best_examples(syntax.table("syntax")))
    assert study_lines(syntax) == ()
    coreference = probe("coreference", one, pairs, pairs, tmp_path / "coreference")
    assert coreference.result["heads"][0]["proper"] is None
    assert coreference.result["heads"][0]["pronoun"] == 1
    tree = probe("tree", one, flat, flat, tmp_path / "tree")
    study = attlas.study(
        one,
        ["a cat sat", "the dog"],
        ["surface", "entropy", "head_distance", "special_gradient"],
        tmp_path / "study",
    )
    together = study.combined_with(syntax, tree, coreference)
    lines = findings(together)
    verdict = section_verdict(section_findings(together, "syntax", SECTIONS["syntax"]))
    assert verdict in (None, "nothing beyond chance")
    assert not any("nan" in line for line in lines)
    page, wrong = open_page(browser, together.report(tmp_path / "all.html"))
    charts = sum(
        figure.chart is not None and not figure.page
        for _, part in sections(together)
        for figure in part.figures(together)
    )
    draw_all(page)
    assert page.locator("section .chart svg.marks").count() == charts
    assert "could not be drawn" not in page.locator("body").inner_text()
    assert page.locator("[data-view='attlas/lines.js']").count() == 0
    assert wrong == []
    page.context.close()
