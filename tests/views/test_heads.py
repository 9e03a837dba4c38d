"""The grid of heads and what follows it: colours from the control, one selection, keyboard only."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import attlas
from attlas.testing import tiny
from attlas.views import packing
from attlas.views.all_heads import all_heads
from attlas.views.charts import head_grid
from attlas.views.findings import findings, opening
from attlas.views.head_views import (
    FINDER,
    HEADS,
    SCATTER,
    STEPS,
    HeadGrid,
    HeadTiles,
    head_grid_part,
    packed_shades,
)
from attlas.views.modules import page_scripts
from attlas.views.page import templates
from attlas.views.placed import PageData, compressed, packed_spec
from attlas.views.section import LaterChart, Prose, head_figure
from attlas.views.shades import tint
from attlas.views.tables import Column
from tests.builders.pages import SECTIONS, draw_all, open_page, render, sections
from tests.builders.parts import COLUMNS, head_frame, parts_page

SHADE = st.floats(-1, 1, allow_nan=False)


# what is decided in Python


def unpacked(letters: str, signed: bool) -> list[float]:
    """The shades of packed letters, one by one."""
    middle = STEPS // 2 + 1 if signed else 0
    codes = [
        packing.LETTERS.index(letters[at]) * 64 + packing.LETTERS.index(letters[at + 1])
        for at in range(0, len(letters), 2)
    ]
    return [(code - middle) / (STEPS - middle) for code in codes]


@given(st.lists(SHADE, max_size=9), st.booleans())
def test_shades_survive_their_packing(shades: list[float], signed: bool) -> None:
    """To a step, and whether there is a tint at all exactly."""
    given_shades = np.array(shades if signed else np.abs(shades))
    back = unpacked(packed_shades(given_shades, signed), signed)
    assert [np.sign(one) for one in back] == [np.sign(one) for one in given_shades]
    np.testing.assert_allclose(back, given_shades, atol=1 / 2047)


def test_a_grid_has_the_values_controls_and_tints_of_its_table() -> None:
    frame = head_frame(3, 4).sample(frac=1, random_state=1)  # the order of rows does not matter
    data = head_grid_part(frame, COLUMNS, "entropy", "own").data
    assert (data["layers"], data["heads"], data["first"]) == (3, 4, "own.entropy")
    by_head = frame.set_index(["layer", "head"]).sort_index()
    for column, packed in zip(COLUMNS, data["columns"], strict=True):
        values, controls = by_head[column.name], by_head.get(column.control)
        expected = [None if np.isnan(one) else float(f"{one:.4g}") for one in values]
        assert packed["values"] == expected
        uniform = np.full(len(values), np.nan) if controls is None else controls.to_numpy()
        own = tint(column, values.tolist(), uniform.tolist())
        back = unpacked(packed["shades"], packed["signed"])
        np.testing.assert_allclose(back, np.nan_to_num(own.shades), atol=1 / 2047)
        assert packed["ticks"] == own.ticks
        assert f"{column.title}; {packed['says']}" == own.says
    share, entropy, gate, cycles, _ = data["columns"]
    assert (share["controls"], share["mark"]) == (0.05, 0.0)
    assert entropy["controls"] == [3.1] * 4 + [3.11] * 4 + [3.12] * 4
    assert (gate["mark"], cycles["mark"], cycles["control"]) == (0.5, None, "")


def test_two_columns_at_first_do_not_rank_the_heads_alike() -> None:
    frame = head_frame(3, 4).assign(half=lambda one: one["share"] / 2)
    half = Column("half", "half of the share")
    for columns, first, second in (
        ((*COLUMNS, half), "share", "entropy"),
        ((*COLUMNS, half), "entropy", "half"),
        ((COLUMNS[0], COLUMNS[3], half), "share", "cycles"),
        ((COLUMNS[0], half), "share", "half"),
    ):
        assert head_grid_part(frame, columns, first).data["second"] == second


def test_the_mark_of_a_plain_scale_is_at_its_control() -> None:
    frame = pd.DataFrame({"layer": 0, "head": [0, 1], "n": [0.0, 8.0], "n_uniform": 2.0})
    column = Column("n", "cycles", control="n_uniform")
    (packed,) = head_grid_part(frame, [column]).data["columns"]
    assert packed["mark"] == 0.25
    (far,) = head_grid_part(frame.assign(n_uniform=20.0), [column]).data["columns"]
    assert far["mark"] is None


def test_a_figure_of_heads_answers_on_a_page_and_stays_a_chart_in_a_file() -> None:
    words = Prose("Own", "What?", "Own.", {"heads": "Heads.", "signed-heads": "Signed."})
    frame = head_frame(2, 3)
    plain, signed = head_figure(words, frame, COLUMNS, "share", "own")
    for figure, columns in ((plain, COLUMNS[:2] + COLUMNS[3:]), (signed, COLUMNS[2:3])):
        (part,) = figure.page
        assert isinstance(part, HeadGrid)
        assert [one.column for one in part.columns] == list(columns)
        assert figure.chart is not None
        assert figure.chart.to_dict() == head_grid(frame, columns, "share").to_dict()
        never = replace(figure, chart=LaterChart(lambda: pytest.fail("a page draws no chart")))
        drawn = PageData().figure(never)
        assert drawn["chart"] is None
        assert HEADS.module in drawn["parts"][0]


def test_uneven_tiles_are_summed_over_keys_and_averaged_over_queries() -> None:
    tiles = np.random.default_rng(0).random((2, 64, 64))
    data = HeadTiles(1, 2, tiles, tiles[:1]).data
    assert data["side"] == 32
    packed = data["tiles"]
    slow = np.array(
        [
            [
                sum(tile[2 * q + a, 2 * k + b] for a in (0, 1) for b in (0, 1)) / 2
                for q in range(32)
                for k in range(32)
            ]
            for tile in tiles
        ]
    )
    np.testing.assert_allclose(packed["scales"], slow.max(1), rtol=1e-5)
    shares = packing.unpacked(packed["codes"]).reshape(2, -1) / 65535
    np.testing.assert_allclose(shares, np.sqrt(slow / slow.max(1, keepdims=True)), atol=1e-5)


def test_charts_are_packed_without_loss() -> None:
    rows = [{"a": "x", "b": 1.5}, {"a": "y", "b": None}, {"a": "x", "b": 2}, {"a": "x", "b": 0}]
    packed = packed_spec({"datasets": {"d": rows, "odd": [{"a": 1}, {"b": 2}]}})["datasets"]
    assert packed["odd"] == [{"a": 1}, {"b": 2}]
    words, numbers = packed["d"]["columns"]
    assert numbers == [1.5, None, 2, 0]
    assert [words["of"][index] for index in words["at"]] == ["x", "y", "x", "x"]
    assert compressed(packed) == compressed(packed)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> attlas.Study:
    words = "the dog saw a cat on the mat and it was not very good in a film"
    texts = [attlas.Text(str(n), f"{words} {n} .") for n in range(4)]
    folder = tmp_path_factory.mktemp("heads") / "study"
    measures = "surface,entropy,importance,heatmap,betti"
    model = tiny("bert", "mlm")
    return attlas.study(model, texts, measures, folder, workers=1, progress=False)


def test_a_page_opens_with_all_columns_of_its_sections(study: attlas.Study) -> None:
    drawn = [(name, one, one.figures(study)) for name, one in sections(study)]
    every = all_heads(study, SECTIONS, drawn, opening(findings(study, SECTIONS)))
    assert every is not None
    groups = {column.group for column in every.grid.columns}
    assert {"Attention targets", "Attention entropy", "Head importance"} <= groups
    names = [column.name for column in every.grid.columns]
    assert len({*names}) == len(names)
    assert {"surface.previous", "entropy.entropy", "importance.gate_signed"} <= {*names}
    assert every.grid.first in names
    assert every.tiles is not None
    page = render(study)
    data = json.loads(re.search(r'id="views">(.*?)</script>', page)[1])  # type: ignore[index]
    assert len(data[HEADS.module]) == 1  # sections take their columns from the grid of all
    assert len(data["attlas/tiles.js"]) == 1
    assert page.count('data-view="attlas/heads.js"') > 4


# in a browser


def cells(page: Any, place: str) -> list[dict[str, Any]]:
    """Each cell of a grid: its head, text, colours, and whether it is chosen."""
    found: list[dict[str, Any]] = page.locator(f"{place} [role=gridcell]").evaluate_all(
        "all => all.map(one => ({head: one.dataset.head, text: one.textContent, "
        "ground: one.style.background, chosen: one.getAttribute('aria-selected'), "
        "label: one.getAttribute('aria-label'), tab: one.tabIndex}))"
    )
    return found


def chosen(page: Any, place: str) -> list[str]:
    return [one["head"] for one in cells(page, place) if one["chosen"] == "true"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cell_has_its_value_and_the_tint_of_shades(
    tmp_path: Path, browser: Any, scheme: str
) -> None:
    frame = head_frame(4, 6)
    part = head_grid_part(frame, COLUMNS, "share", "own")
    path = parts_page(tmp_path / "page.html", [part])
    page, wrong = open_page(browser, path, color_scheme=scheme)
    colour = (
        "async ([shades, signed]) => { const { colour } = await import('attlas/colour.js'); "
        "return shades.map(one => `rgb(${colour(one, signed).join(', ')})`) }"
    )
    for column, own in zip(COLUMNS, part.columns, strict=True):
        page.select_option("#part0 select", own.name)
        shown = cells(page, "#part0")
        assert [one["head"] for one in shown] == [f"L{n // 6}H{n % 6}" for n in range(24)]
        back = unpacked(packed_shades(own.tint.shades, own.tint.signed), own.tint.signed)
        expected = page.evaluate(colour, [back, own.tint.signed])
        for cell, shade, rgb, value in zip(shown, back, expected, own.values, strict=True):
            assert cell["ground"] == (rgb if shade else ""), (column.name, cell)
            if np.isnan(value):
                assert cell["text"] == ""
            elif column.name == "share":
                assert float(cell["text"]) == pytest.approx(value, abs=0.0051)
                assert "uniform attention 0.05" in cell["label"]
            elif column.name == "tiny":
                assert float(cell["text"].replace("−", "-")) == pytest.approx(
                    value * 1e5, abs=0.051
                )
        words = page.locator("#part0 .legend").inner_text()
        assert own.data["says"] in " ".join(words.split())
        assert all(tick in words for tick in own.tint.ticks)
        assert page.locator("#part0 .mark").is_visible() == (own.mark is not None)
    page.select_option("#part0 select", "own.entropy")
    page.locator("#part0 details summary").click()
    table = page.locator("#part0 details table")
    table.locator("thead th").first.wait_for()  # filled when it is open
    assert table.locator("thead th").all_inner_texts() == [
        "head",
        "entropy (nats)",
        "uniform attention",
    ]
    known = frame.dropna(subset="entropy")
    rows = table.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(known)
    first = known.iloc[0]
    assert rows[0].split() == ["L0H0", f"{first['entropy']:.4g}", "3.1"]
    assert wrong == []


def test_every_view_follows_the_chosen_head(
    study: attlas.Study, tmp_path: Path, browser: Any
) -> None:
    """Two grids, the list, the dots and the small heat maps; at first the finding's head."""
    page, wrong = open_page(browser, study.report(tmp_path / "report.html"))
    draw_all(page)
    grids = ("main > header", "#all-heads .attlas-heads", "#surface", "#heatmap")
    page.locator("#surface [data-head=L1H2]").click()
    for place in grids:
        assert chosen(page, place) == ["L1H2"]
    assert page.locator("#all-heads tr.chosen button").inner_text() == "L1H2"
    assert page.locator("#all-heads svg text.name").text_content() == "L1H2"
    assert page.locator("#surface .read b").inner_text() == "L1H2"
    assert page.locator("#entropy .strip .chosen title").text_content().startswith("L1H2: ")
    value = study.table("surface").set_index(["layer", "head"]).loc[(1, 2), "previous"]
    says = page.locator("#surface .read").inner_text()
    number, control = re.findall(r"(?:previous token|uniform attention) ([\d.]+)", says)
    assert float(number) == pytest.approx(value, abs=0.006)
    assert float(control) > 0
    page.locator("#all-heads .attlas-finder tbody tr").first.click()
    best = page.locator("#all-heads tr.chosen button").inner_text()
    for place in grids:
        assert chosen(page, place) == [best]
    page.locator("#heatmap [data-head=L0H3]").click()
    for place in grids:
        assert chosen(page, place) == ["L0H3"]
    page.locator("#surface [data-head=L0H3]").click()  # again: none
    assert chosen(page, "main > header") == []
    assert page.locator("#surface .read b").inner_text() == "Mean of all heads"
    page.locator("main > header select").select_option("surface.next")
    for place in ("#surface", "#all-heads .attlas-heads"):
        assert page.locator(f"{place} [data-choose=column]").first.input_value() == "surface.next"
    assert "with next token at or above" in page.locator(".attlas-finder .note").first.inner_text()
    page.locator("main > header select").select_option("entropy.entropy")
    assert page.locator("#surface [data-choose=column]").input_value() == "surface.next"
    assert "with entropy (nats) at or below" in page.locator("#all-heads").inner_text()
    assert wrong == []


def test_a_grid_is_used_by_the_keyboard_alone(tmp_path: Path, browser: Any) -> None:
    part = head_grid_part(head_frame(4, 6), COLUMNS, "share", "own")
    path = parts_page(tmp_path / "page.html", [part, part])
    page, wrong = open_page(browser, path)
    page.locator("#part1 [role=gridcell]").first.wait_for()
    page.keyboard.press("Tab")  # the menu
    page.keyboard.press("Tab")  # the grid: one stop
    focus = "document.activeElement.dataset.head"
    assert page.evaluate(focus) == "L0H0"
    for key, expected in (
        ("ArrowRight", "L0H1"),
        ("ArrowDown", "L1H1"),
        ("End", "L1H5"),
        ("ArrowRight", "L1H5"),
        ("Home", "L1H0"),
        ("Control+End", "L3H5"),
        ("PageUp", "L0H5"),
        ("Control+Home", "L0H0"),
        ("ArrowUp", "L0H0"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focus) == expected
    assert chosen(page, "#part0") == chosen(page, "#part1") == ["L0H0"]
    assert [one["tab"] for one in cells(page, "#part0")].count(0) == 1
    assert page.locator("#part0 .read").get_attribute("aria-live") == "polite"
    assert page.locator("#part1 .read").get_attribute("aria-live") == "off"
    page.keyboard.press("Enter")
    assert chosen(page, "#part1") == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert wrong == []


@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (12, 12), (30, 9), (32, 32)])
def test_grids_of_every_depth_fit(tmp_path: Path, browser: Any, layers: int, heads: int) -> None:
    part = head_grid_part(head_frame(layers, heads), COLUMNS, "share", "own")
    path = parts_page(tmp_path / "page.html", [part], {"head": "L5H3"}, "body { margin: 16px }")
    for width in (1000, 390):
        page, wrong = open_page(browser, path, viewport={"width": width, "height": 800})
        page.locator("[role=gridcell]").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        sizes = page.locator("[role=gridcell]").evaluate_all(
            "all => all.map(one => { const { width, height } = one.getBoundingClientRect(); "
            "return Math.min(width, height) })"
        )
        assert len(sizes) == layers * heads
        assert min(sizes) >= 24
        texts = [one["text"] for one in cells(page, "#part0")]
        assert all(texts) == (layers * heads <= 400)
        first = page.locator("tbody th").first.inner_text()
        assert first == ("H0" if (layers, heads, width) == (30, 9, 1000) else "L0")
        assert chosen(page, "#part0") == ["L5H3"]
        assert page.locator("#part0 th.chosen").all_inner_texts() in (["H3", "L5"], ["L5", "H3"])
        assert wrong == []
        page.context.close()


def test_the_finder_counts_from_the_side_that_is_of_interest(tmp_path: Path, browser: Any) -> None:
    frame = head_frame(4, 6)
    grid = head_grid_part(frame, COLUMNS, "share", "own")
    path = finder_page(tmp_path / "page.html", grid)
    page, wrong = open_page(browser, path)
    for name, below in (("share", False), ("entropy", True)):
        page.locator("#grid select").select_option(f"own.{name}")
        values = frame.set_index(["layer", "head"])[name].dropna().sort_values(ascending=below)
        listed = page.locator("#finder tbody th").all_inner_texts()
        assert listed == [f"L{layer}H{head}" for layer, head in values.index[:10]]
        slider = page.locator("#finder input[type=range]")
        for step in (0, 60, 130, 200):
            slider.evaluate(
                "(one, step) => { one.value = step; one.dispatchEvent(new Event('input')) }", step
            )
            low, high = min(0.0, values.min()), values.max()
            threshold = low + (high - low) * step / 200
            near = (high - low) / 400
            count = (values <= threshold + near if below else values >= threshold - near).sum()
            says = page.locator("#finder .note").first.inner_text()
            assert says.startswith(f"{count} of 24 with ")
            assert f"at or {'below' if below else 'above'} {threshold:.2f}" in says
    page.get_by_role("button", name="Show all").click()
    assert page.locator("#finder tbody tr").count() == frame["entropy"].notna().sum()
    assert page.locator("#finder td.name").first.inner_text() in ("", "reads backwards")
    assert "reads backwards" in page.locator("#finder").inner_text()
    assert wrong == []


def test_dots_of_two_columns_are_where_their_numbers_are(tmp_path: Path, browser: Any) -> None:
    frame = head_frame(4, 6)
    page, wrong = open_page(
        browser, finder_page(tmp_path / "page.html", head_grid_part(frame, COLUMNS, "share", "own"))
    )
    page.locator("#scatter select").nth(1).select_option("own.cycles")
    dots = page.locator("#scatter circle").evaluate_all(
        "all => all.map(one => [one.textContent, +one.getAttribute('cx'), +one.getAttribute('cy')])"
    )
    by_name = {f"L{row.layer}H{row.head}": row for row in frame.itertuples()}
    shown = np.array([(by_name[name].cycles, by_name[name].share, x, y) for name, x, y in dots])
    assert len(shown) == 24
    for value, place, sign in ((0, 2, 1), (1, 3, -1)):
        assert np.corrcoef(shown[:, value], shown[:, place])[0, 1] * sign == pytest.approx(1)
    assert page.locator("#scatter line.control").count() == 1  # cycles have no control
    rows = numbers_of(page, "#scatter")
    assert rows.pop(0) == ["head", "share on [CLS]", "uniform attention", "cycles"]
    first = by_name["L0H0"]
    assert rows[0] == ["L0H0", f"{first.share:.4g}", "0.05", f"{first.cycles:.4g}"]
    assert len(rows) == 24
    page.locator("#scatter circle").first.click()
    assert chosen(page, "#grid") == [dots[0][0]]
    page.locator("#scatter svg").focus()
    order = [name for name, _, _ in sorted(dots, key=lambda one: one[1])]
    at = order.index(dots[0][0])
    page.keyboard.press("ArrowRight" if at < 23 else "ArrowLeft")
    assert chosen(page, "#grid") == [order[at + 1 if at < 23 else at - 1]]
    assert wrong == []


def numbers_of(page: Any, place: str) -> list[list[str]]:
    """The cells of the table of a picture, which is opened."""
    page.locator(f"{place} details summary").click()
    page.locator(f"{place} details thead th").first.wait_for()  # filled when it is open
    rows: list[list[str]] = page.locator(f"{place} details tr").evaluate_all(
        "all => all.map(one => [...one.cells].map(cell => cell.textContent))"
    )
    return rows


def finder_page(path: Path, grid: HeadGrid) -> Path:
    """A page with a grid, and the finder and the scatter of its columns."""
    data = {**grid.data, "names": {"L1H1": "reads backwards"}}
    of = {"of": HEADS.module}
    scripts = page_scripts({HEADS: [data], FINDER: [], SCATTER: []})
    shown = "".join(
        f'<div id="{name}">{view.html(0, options=None if view is HEADS else of)}</div>'
        for name, view in (("grid", HEADS), ("finder", FINDER), ("scatter", SCATTER))
    )
    body = templates().from_string('{% include "views.html" %}').render(**scripts)
    path.write_text(f"<!doctype html><meta charset=utf-8>{shown}{body}", encoding="utf-8")
    return path


def test_a_small_heat_map_is_drawn_cell_by_cell(tmp_path: Path, browser: Any) -> None:
    """The strongest cell of a head has the strongest colour; on one scale, only that of all."""
    tiles = np.zeros((2, 4, 4))
    tiles[0, 1, 2], tiles[1, 3, 0] = 0.9, 0.3
    part = HeadTiles(1, 2, tiles, np.full((1, 4, 4), 0.25))
    page, wrong = open_page(
        browser, parts_page(tmp_path / "page.html", [part]), color_scheme="light"
    )
    pixels = (
        "all => all.map(one => [...one.getContext('2d').getImageData(0, 0, 4, 4).data]"
        ".filter((_, at) => at % 4 == 0))"
    )
    page.locator("canvas").first.wait_for()
    first, second, uniform = page.locator("canvas").evaluate_all(pixels)
    darkest, ground = 0x06, 0xF6  # red of the last and the first colour
    assert [at for at, red in enumerate(first) if red == darkest] == [1 * 4 + 2]
    assert [at for at, red in enumerate(second) if red == darkest] == [3 * 4 + 0]
    assert first.count(ground) == second.count(ground) == 15
    assert len({*uniform}) == 1
    assert darkest < uniform[0] < ground
    titles, *rows = numbers_of(page, "#part0")
    assert titles == ["head", "largest cell", "uniform attention"]
    assert rows == [["L0H0", "0.9", "0.25"], ["L0H1", "0.3", "0.25"]]
    page.locator("input[type=checkbox]").check()
    first, second, _ = page.locator("canvas").evaluate_all(pixels)
    assert darkest in first
    assert darkest not in second
    assert [one for one in wrong if "getImageData" not in one] == []  # of this test
