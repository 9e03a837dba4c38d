"""Hostile strings in every field of every page, opened in a browser: no script of them runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.explain.section.page import write_explanation
from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.testing.sections import CODES, Frames
from attlas.views import charts
from attlas.views.report import render, write_charts
from tests.attacks.payloads import ALL, PAYLOADS
from tests.builders.pages import SECTIONS, draw_all, draw_far, open_page
from tests.builders.runs import command_line
from tests.builders.served import listening, opened
from tests.builders.studies import measured, studies, study_with

ALL_CHARTS = 240_000  # milliseconds; the page of all sections has many


def hostile_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose words, but for those that sections know by name, end in a payload each."""
    known: dict[str, str] = {}
    number = count()

    def broken(value: Any) -> Any:
        if not isinstance(value, str) or value in CODES:
            return value
        if value not in known:
            known[value] = value + PAYLOADS[next(number) % len(PAYLOADS)]
        return known[value]

    out = frame.copy()
    for name in frame.columns:
        if any(isinstance(one, str) for one in frame[name]):
            out[name] = frame[name].map(broken)
    return out


def hostile_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest in which every string is hostile, the kinds of tables aside."""

    def broken(value: Any) -> Any:
        if isinstance(value, str):
            return value + ALL
        if isinstance(value, list):
            return [broken(one) for one in value]
        return {k: broken(one) for k, one in value.items()} if isinstance(value, dict) else value

    kept = ("tables", "controls", "files", "identity", "kind", "status")
    out = {name: value if name in kept else broken(value) for name, value in manifest.items()}
    labels = manifest["corpus"].get("labels") or {"a": 1}
    out["corpus"]["labels"] = {f"{name}{ALL}": n for name, n in labels.items()}
    return out


def hostile(study: Study) -> Frames:
    tables = Frames.of(study)
    return replace(
        tables.changed(lambda name, frame: hostile_frame(frame)),
        manifest=hostile_manifest(tables.manifest),
        manifests={name: hostile_manifest(one) for name, one in tables.manifests.items()},
    )


EMPTY = "WARN Infinite extent"  # what Vega says of a chart whose known words are gone


def broken(wrong: list[str]) -> list[str]:
    """What went wrong in a page, but for charts that are empty now."""
    return [one for one in wrong if not one.startswith(EMPTY)]


def assert_harmless(browser: Any, path: Path, charts: bool = False) -> None:
    """Open a page, use everything on it, and see that nothing of its data became code."""
    page, wrong = open_page(browser, path, viewport={"width": 1200, "height": 800})
    draw_far(page)
    if charts:
        draw_all(page, timeout=ALL_CHARTS)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for menu in page.locator("select").all():
        if menu.is_visible():
            values = menu.locator("option").evaluate_all("all => all.map(one => one.value)")
            for value in values[-2:]:
                menu.select_option(value)
    for words in page.locator("w, .t, mark").all()[:12]:
        if words.is_visible():
            words.click(force=True)
            words.hover(force=True)
    for button in page.locator("button, summary").all()[:12]:
        if button.is_visible():
            button.click(force=True)
    page.wait_for_timeout(150)
    assert page.evaluate("window.__hacked") is None
    assert broken(wrong) == []
    strange = "iframe, object, embed, img[onerror], [onload], [onfocus], a[href^='javascript:' i]"
    assert page.locator(strange).count() == 0
    assert page.locator("link, base, meta[http-equiv=refresh]").count() == 0
    assert page.locator("body").is_visible()
    page.context.close()


@pytest.mark.parametrize("name", SECTIONS)
def test_the_report_of_a_section(name: str, browser: Any, tmp_path: Path) -> None:
    page = render(hostile(study_with(SECTIONS[name])), {name: SECTIONS[name]})
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    assert_harmless(browser, path, charts=True)


def test_the_combined_report(browser: Any, tmp_path: Path) -> None:
    """Every section on one page, as of a tour or of several folders."""
    together = Study(measured().folder, measured().manifest, studies()[1:])
    page = render(hostile(together), SECTIONS)
    path = tmp_path / f"report {'<b>&'}.html"
    path.write_text(page, encoding="utf-8")
    assert_harmless(browser, path, charts=True)


def look_at(path: Path) -> None:
    model = tiny("bert")
    seen = attlas.attention(replace_name(model), ALL, np.ones((3, 4)))
    seen.write(path)


def long_look_at(path: Path) -> None:
    model = tiny("longformer", max_position_embeddings=4100)
    model.tokenizer.model_max_length = 4096
    loaded = attlas.load((model.network, model.tokenizer))
    attlas.attention(replace_name(loaded), f"{ALL} " * 4).write(path)


def explain_on(path: Path) -> None:
    names = {"id2label": {0: ALL, 1: "b"}, "label2id": {ALL: 0, "b": 1}}
    model = replace_name(tiny("bert", "classify", **names))
    text = attlas.Text(ALL, ALL, label=ALL)
    write_explanation(attlas.explain.explain(model, text, "saliency"), path)


def heads_of(path: Path) -> None:
    seen = attlas.attention(replace_name(tiny("bert")), ALL[:200])
    charts.export(seen.pictures(), path)


def replace_name(model: attlas.Model) -> attlas.Model:
    object.__setattr__(model, "name", ALL)
    return model


PAGES: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (look_at, long_look_at, explain_on, heads_of)
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_one_text(name: str, browser: Any, tmp_path: Path) -> None:
    PAGES[name](tmp_path / "page.html")
    assert_harmless(browser, tmp_path / "page.html")


def test_pages_of_a_server(browser: Any, tmp_path: Path) -> None:
    """Texts, ids, labels and names of a study, its folder and its model, on the workbench."""
    names = {"id2label": {0: ALL, 1: "b"}, "label2id": {ALL: 0, "b": 1}}
    model = replace_name(tiny("bert", "classify", **names))
    texts = [attlas.Text(f"{at}{ALL}", f"{ALL} a cat {at}", label=ALL) for at in range(3)]
    measures = "surface,entropy,totals,examples,betti,explanations"
    folder = tmp_path / "<b>study & 'others'"
    attlas.study(model, texts, measures, folder, workers=1, progress=False)
    with listening([tmp_path], {ALL: model}) as one:
        study = one.client().get("/api/studies").json()[0]["id"]
        text = f"text?{urlencode({'id': texts[0].id})}"
        pages = ("atlas", "head/L0H1", "texts", text, "topology", "explain", "compare", "tables")
        tables = ("tables/texts", "tables/explanations")
        for path in ("", "try", "jobs", *(f"s/{study}/{tab}" for tab in (*pages, *tables))):
            page, wrong = opened(browser, one.link(f"/{path}"))
            assert page.evaluate("window.__hacked") is None
            missing = [one for one in wrong if "404" in one]  # there are no jobs here
            assert broken([one for one in wrong if one not in missing]) == []
            assert len(missing) == (path == "jobs")
            assert page.locator("iframe, object, embed, [onload], [onerror]").count() == 0
            page.context.close()


def test_the_page_of_triples(home: Path, browser: Any, tmp_path: Path) -> None:
    text = f"Ann <b>{PAYLOADS[0]} met Ben {PAYLOADS[1]} in Rome . Eve hired Tom {PAYLOADS[5]} ."
    command = ("relations", "extract", text, "--extractor", home / "extractor")
    command_line(*command, "--html", tmp_path / "page.html")
    assert_harmless(browser, tmp_path / "page.html")


def test_charts_as_pages(browser: Any, tmp_path: Path) -> None:
    wanted = {name: SECTIONS[name] for name in ("topk", "entropy") if name in SECTIONS}
    assert wanted
    for path in write_charts(hostile(measured()), wanted, tmp_path, "html"):
        page, wrong = open_page(browser, path)
        page.wait_for_selector("svg, canvas")
        assert page.evaluate("window.__hacked") is None
        assert broken(wrong) == []
        page.context.close()
