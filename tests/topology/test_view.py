"""The view of attention graphs: at every threshold its numbers are those of `betti`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import attlas
from attlas.measures.examples import Examples
from attlas.support.errors import AttlasError
from attlas.testing import tiny
from attlas.topology import attention_graph, betti
from attlas.topology.betti import Betti
from attlas.topology.experiment import THRESHOLDS
from attlas.topology.section.graph import (
    AttentionGraphs,
    GraphText,
    HeadGraph,
    components,
    study_graphs,
)
from attlas.views.matrix import uniform_weights
from tests.builders.pages import open_page
from tests.builders.texts import sentences
from tests.builders.views import view_page

TEXT = "the cat </script><b>sat</b> on a mat & the dog saw a cat , it was good"
few = settings(max_examples=60)
MODULE = "attlas.topology.section/graph.js"


def graph_of(weights: np.ndarray, least: float = 0.0, name: str = "L0H0") -> HeadGraph:
    query, key = np.nonzero(weights >= least)
    return HeadGraph.of_weights(name, 0, (query, key, weights[query, key]), least)


@st.composite
def matrices(draw: Any) -> np.ndarray:
    """Weights in single precision, many of them equal."""
    n = draw(st.integers(1, 9))
    some = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.3, 0.7])
    return np.array(draw(st.lists(some, min_size=n * n, max_size=n * n)), np.float32).reshape(n, n)


@few
@given(matrices(), st.sampled_from([0.01, 0.05, 0.1, 0.1000001, 0.25, 0.7, 0.71]))
def test_edges_and_components_are_those_of_betti(weights: np.ndarray, threshold: float) -> None:
    edges = graph_of(weights, 0.01).at(threshold)
    beta0, beta1 = (int(one[0]) for one in betti(weights, (threshold,)))
    pieces = components(len(weights), edges)
    assert (pieces, len(edges) - len(weights) + pieces) == (beta0, beta1)


# in a browser


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> attlas.Study:
    texts = [attlas.Text(f"t{place}", text) for place, text in enumerate(sentences(12, 24))]
    folder = tmp_path_factory.mktemp("graphs") / "study"
    return attlas.study(tiny("bert"), texts, [Betti(), Examples()], folder)


def numbers(page: Any) -> tuple[int, int, int, int]:
    """Components and cycles of the head and of uniform attention, as the read-out has them."""
    line = page.locator(".readout").inner_text()
    found = re.search(
        r": (\d+) connected components? \(uniform attention (\d+)\), "
        r"(\d+) independent cycles? \(uniform attention (\d+)\)",
        line,
    )
    assert found, line
    own0, even0, own1, even1 = map(int, found.groups())
    return own0, own1, even0, even1


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_numbers_at_any_threshold_are_those_of_betti(
    family: str, tmp_path: Path, browser: Any
) -> None:
    model = tiny(family) if family == "bert" else tiny(family, "lm")
    seen = attlas.attention(model, TEXT)
    graph = attention_graph(seen)
    page, wrong = open_page(browser, graph.write(tmp_path / "graph.html"))
    weights = seen.weights.float().numpy()
    heads = graph.heads
    for at in (0, len(heads) - 1):
        page.select_option("[data-choose=head]", str(at))
        own = weights[heads[at]]
        even = uniform_weights(weights[heads[at][0]]).astype(np.float32)
        among = float(np.sort(own.reshape(-1))[-7])  # equal to a weight
        for threshold in (*THRESHOLDS, 0.0123, 0.333, among, 1.0):
            page.locator("input[type=number]").fill(repr(threshold))
            page.locator("input[type=number]").press("Enter")
            expected = [int(one[0]) for stack in (own, even) for one in betti(stack, (threshold,))]
            assert list(numbers(page)) == expected, (heads[at], threshold)
    assert not wrong


def test_the_slider_curves_edges_and_table_have_the_same_numbers(
    tmp_path: Path, browser: Any
) -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.full(14, 0.3), size=14).astype(np.float32)
    text = GraphText("x", tuple("abcdefghijklmn"), tuple((0, 13) for _ in range(14)))
    part = AttentionGraphs((text,), (graph_of(weights, 0.01),), THRESHOLDS)
    page, wrong = open_page(browser, view_page([part], tmp_path / "page.html"))
    page.locator("input.slider").focus()
    for key in ("Home", "PageUp", "ArrowRight", "PageUp", "End"):
        page.keyboard.press(key)
        threshold = float(page.locator("input[type=number]").input_value())
        assert page.locator("input.slider").get_attribute("aria-valuetext") == f"{threshold:g}"
        beta0, beta1 = (int(one[0]) for one in betti(weights, (threshold,)))
        assert numbers(page)[:2] == (beta0, beta1)
        edges = page.locator(".circle .edge").count()
        assert edges == beta1 + 14 - beta0
        alone = page.locator(".vertex.alone").count()
        joined = (np.maximum(weights, weights.T) >= np.float32(threshold)) & ~np.eye(14, dtype=bool)
        assert alone == int((~joined.any(1)).sum())
        labels = [one.get_attribute("aria-label") for one in page.locator(".curve svg").all()]
        assert re.search(rf": {beta0}, uniform", labels[0])
        assert re.search(rf": {beta1}, uniform", labels[1])
    page.locator("button", has_text="0.25").click()
    page.locator("button", has_text="Show as table").click()
    rows = page.locator(".table table").first.locator("tbody tr")
    table = {
        float(cells[0]): (int(cells[1]), int(cells[3]))
        for cells in (row.locator("th, td").all_inner_texts() for row in rows.all())
    }
    tabulated = zip(THRESHOLDS, *betti(weights, THRESHOLDS), strict=True)
    assert table == {one: (int(beta0), int(beta1)) for one, beta0, beta1 in tabulated}
    assert not wrong


def test_threshold_and_head_are_shared_and_tokens_are_chosen_by_keys(
    tmp_path: Path, browser: Any
) -> None:
    part = attention_graph(attlas.attention(tiny("bert"), TEXT)).part
    page, wrong = open_page(browser, view_page([part, part], tmp_path / "page.html"))
    first, second = page.locator("[data-view]").all()
    first.locator("button", has_text=re.compile("^0.25$")).click()
    first.locator("[data-choose=head]").select_option("3")
    assert second.locator("input[type=number]").input_value() == "0.25"
    assert second.locator("[data-choose=head]").input_value() == "3"
    assert first.locator(".readout").inner_text() == second.locator(".readout").inner_text()
    first.locator('[data-token="0"]').focus()
    page.keyboard.press("ArrowLeft")
    last = str(len(part.texts[0].tokens) - 1)
    for view in (first, second):
        assert view.locator("[aria-selected=true]").get_attribute("data-token") == last
    assert "is joined with" in second.locator(".readout").inner_text()
    assert page.evaluate("document.activeElement.dataset.token") == last
    page.keyboard.press("Escape")
    assert page.locator("[aria-selected=true]").count() == 0
    assert first.locator("[data-token][tabindex='0']").count() == 1
    assert not wrong


def test_a_graph_of_a_study_is_complete_from_where_its_slider_begins(
    study: attlas.Study, tmp_path: Path, browser: Any
) -> None:
    part = study_graphs(study, study.table("betti_heads"))
    assert part is not None
    betti_of = study.table("betti").set_index("text")
    assert len(part.graphs) == study.n_layers * study.n_heads
    page, wrong = open_page(browser, study.report(tmp_path / "report.html"))
    compared = 0
    for at, graph in enumerate(part.graphs):
        text, n = part.texts[graph.text].text, len(part.texts[graph.text].tokens)
        layer, head = graph.name[1:].split("H")
        page.select_option(".attlas-graph [data-choose=head]", str(at))
        marks = page.locator(".attlas-graph [data-threshold]")
        shown_at = [float(one.get_attribute("data-threshold")) for one in marks.all()]
        assert shown_at == [one for one in part.thresholds if one >= graph.least]
        for threshold, mark in zip(shown_at, marks.all(), strict=True):
            mark.click()
            row = betti_of.loc[text]
            names = [f"L{layer}.H{head}.b{which}@{threshold:g}" for which in (0, 1)]
            expected = [int(row[name]) for name in names]
            expected += [1, n * (n - 1) // 2 + 1] if threshold <= 1 / n else [n, 0]
            assert list(numbers(page)) == expected
            compared += 1
        if graph.least > 0:
            page.locator(".attlas-graph input[type=number]").fill("0.0001")
            page.locator(".attlas-graph input[type=number]").press("Enter")
            assert float(page.locator(".attlas-graph input[type=number]").input_value()) > 0.001
    assert compared > 3 * len(part.graphs)
    assert not wrong


def test_a_graph_fits_a_phone_in_both_themes(tmp_path: Path, browser: Any) -> None:
    part = attention_graph(attlas.attention(tiny("bert"), " ".join(["cat dog"] * 40))).part
    for scheme in ("light", "dark"):
        size: Any = {"width": 390, "height": 844}
        path = view_page([part], tmp_path / "page.html")
        page, wrong = open_page(browser, path, viewport=size, color_scheme=scheme)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
        for control in page.locator("button, select, input").all():
            assert control.bounding_box()["height"] >= 24
        assert not wrong


# pages and pictures


def test_one_head_as_a_page_a_picture_and_in_a_notebook(tmp_path: Path) -> None:
    seen = attlas.attention(tiny("bert"), TEXT)
    graph = attention_graph(seen, "L1H2")
    assert graph.heads == [(1, 2)]
    np.testing.assert_array_equal(graph.betti().beta0[0], betti(seen.weights[1, 2]).beta0)
    page = graph.write(tmp_path / "graph.html").read_text(encoding="utf-8")
    assert "</script><b>sat" not in page
    assert "&lt;/script&gt;&lt;b&gt;sat" in page
    assert graph._repr_html_().startswith("<iframe srcdoc=")
    svg = ElementTree.fromstring(graph.part.pictures()[0])
    title = next(svg.iter("{http://www.w3.org/2000/svg}text")).text
    beta0, beta1 = (int(one[0]) for one in betti(seen.weights[1, 2], (0.1,)))
    assert title == f"L1H2: {beta0} connected components, {beta1} independent cycles"
    assert graph.write(tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_heads_and_texts_without_a_graph_are_refused() -> None:
    seen = attlas.attention(tiny("bert"), TEXT)
    with pytest.raises(AttlasError, match="there is no head L9H0; the model has"):
        attention_graph(seen, "L9H0")
    with pytest.raises(AttlasError, match="give one head"):
        attention_graph(seen, 1)
    long = attlas.attention(tiny("bert"), " ".join(["cat"] * 300))
    with pytest.raises(AttlasError, match="at most 256 tokens"):
        attention_graph(long)
