"""The view `matrix` in a browser: what it reads is what the model gave, whatever is shown."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.views.matrices import ROUNDING, HeadCodes, HeadMatrices, weight_codes
from tests.builders.models import shared
from tests.builders.pages import open_page
from tests.builders.views import open_views

READ = re.compile(r"^“(.*)” \(token (\d+)\) → “(.*)” \(token (\d+)\): ([\d.]+) ± 2\.3%; ")
GROUND = {"light": [246, 249, 252], "dark": [26, 35, 46]}

# the bytes of a canvas, read from a copy
COPY = """(kind) => {
  const one = document.querySelector("canvas." + kind);
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [one.width, one.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(one, 0, 0);
  let out = "";
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  for (const byte of data) out += String.fromCharCode(byte);
  return [btoa(out), copy.width];
}"""


def rows(count: int, causal: bool = False, seed: int = 0) -> np.ndarray:
    """Weights that sum to one over the keys that a query sees: [query, key]."""
    cells = np.random.default_rng(seed).random((count, count)) ** 6 + 1e-4
    cells = np.tril(cells) if causal else cells
    return np.asarray(cells / cells.sum(1, keepdims=True))


def part_of(weights: list[np.ndarray], causal: bool = False, text: str = "one") -> HeadMatrices:
    """Matrices of heads L0H0, L0H1, ...; two tokens make a word."""
    count = len(weights[0])
    seen = np.tril(np.ones((count, count), bool)) if causal else np.ones((count, count), bool)
    heads = tuple(
        HeadCodes(f"L0H{head}", weight_codes(one, seen), seen.sum(1))
        for head, one in enumerate(weights)
    )
    tokens = tuple(f"t{token}" for token in range(count))
    return HeadMatrices(text, tokens, np.arange(count) // 2, count, heads)


def ready(page: Any, head: str = "L0H0") -> Any:
    """The canvas, when a head is drawn."""
    page.wait_for_selector(f'[data-ready="{head}"]')
    return page.locator("canvas.part")


def frames(page: Any) -> None:
    page.evaluate("new Promise((on) => requestAnimationFrame(() => requestAnimationFrame(on)))")


def pixels(page: Any, kind: str = "part") -> np.ndarray:
    """The colours of a canvas: [row, column, red green blue alpha]."""
    data, width = page.evaluate(COPY, kind)
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(-1, width, 4)


def cells(page: Any, count: int) -> np.ndarray:
    """The colour in the middle of each cell of a part that shows all."""
    image = pixels(page)
    side = image.shape[0] - 92
    at = 92 + ((np.arange(count) + 0.5) * side / count).astype(int)
    return np.asarray(image[np.ix_(at, at)][..., :3])


def point(canvas: Any, query: float, key: float, span: int, first: int = 0) -> dict[str, float]:
    """Where a cell is inside the canvas."""
    side = canvas.bounding_box()["width"] - 92
    x, y = ((one - first + 0.5) * side / span + 92 for one in (key, query))
    return {"x": x, "y": y}


def readout(page: Any) -> str:
    return str(page.locator('.attlas-matrix [role="status"]').inner_text())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_cell_is_tinted_above_uniform_attention_and_no_other(
    browser: Any, tmp_path: Path, theme: str
) -> None:
    weights = rows(40, causal=True)
    page, wrong = open_views(browser, tmp_path, part_of([weights], True), color_scheme=theme)
    ready(page)
    frames(page)
    shown = cells(page, 40)
    uniform = np.tril(np.ones((40, 40))) / np.arange(1, 41)[:, None]
    grey = (shown == GROUND[theme]).all(-1)
    seen = np.tril(np.ones((40, 40), bool))
    assert grey[seen & (weights <= uniform)].all()
    assert not grey[seen & (weights > uniform * (1 + 2 * ROUNDING))].any()
    ratio = np.where(seen, weights / np.maximum(uniform, 1e-9), 0)
    darkest = np.unravel_index(ratio.argmax(), ratio.shape)
    end = {"light": [6, 38, 77], "dark": [220, 238, 255]}[theme]
    assert shown[darkest].tolist() == end
    # what is not seen is a texture: the ground of the page with some dots
    box = pixels(page)[92:120, -28:, :3].reshape(-1, 3)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    paper = (box == [int(one) for one in re.findall(r"\d+", ground)]).all(-1).mean()
    assert 0.7 < paper < 0.99
    assert len(np.unique(box, axis=0)) == 2
    assert "▴ uniform ×1" in page.locator(".legend").inner_text()
    assert "not seen by the query" in page.locator(".legend").inner_text()
    assert wrong == []


def test_what_is_read_equals_the_weights_within_the_rounding(browser: Any, tmp_path: Path) -> None:
    weights = rows(300)
    page, wrong = open_views(browser, tmp_path, part_of([weights]))
    canvas = ready(page)
    for query, key in ((0, 0), (3, 60), (63, 63), (17, 40)):
        canvas.click(position=point(canvas, query, key, 64))
        read = READ.match(readout(page))
        assert read is not None, readout(page)
        assert (read[1], int(read[2]), int(read[4])) == (f"t{query}", query, key)
        assert float(read[5]) == pytest.approx(weights[query, key], rel=ROUNDING + 0.006)
        assert "uniform attention .00333 (1 of 300 keys)" in readout(page)
    words = page.evaluate("state.get('selection')")
    assert words == {"text": "one", "words": [8, 20]}
    assert wrong == []


def test_a_large_weight_is_seen_at_any_size(browser: Any, tmp_path: Path) -> None:
    """One weight in 1,500 x 1,500: a picture of the whole has a pixel of it, and reads it."""
    weights = np.full((1_500, 1_500), 1 / 1_500)
    weights[1_111, 222] = 0.9
    page, wrong = open_views(browser, tmp_path, part_of([weights]))
    canvas = ready(page)
    page.get_by_role("button", name="Show the whole matrix").click()
    frames(page)
    strong = (pixels(page)[92:, 92:, :3] == [6, 38, 77]).all(-1)
    assert strong.sum() >= 1
    assert (pixels(page, "whole")[..., :3] == [6, 38, 77]).all(-1).sum() >= 1
    canvas.hover(position=point(canvas, 1_111, 222, 1_500))
    assert readout(page).startswith("“t1111” (token 1111) → “t222” (token 222): ")
    assert wrong == []


def test_the_keyboard_does_it_all(browser: Any, tmp_path: Path) -> None:
    weights = rows(200)
    page, wrong = open_views(browser, tmp_path, part_of([weights]))
    canvas = ready(page)
    for _ in range(9):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('canvas.part')"):
            break
    outline = canvas.evaluate("(one) => getComputedStyle(one).outlineWidth")
    assert outline == "2px"
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert readout(page).startswith("“t1” (token 1) → “t1” (token 1): ")
    for _ in range(70):
        page.keyboard.press("ArrowRight")
    frames(page)
    assert readout(page).startswith("“t1” (token 1) → “t71” (token 71): ")
    page.keyboard.press("Enter")
    assert page.evaluate("state.get('selection').words") == [0, 35]
    before = pixels(page)
    page.keyboard.press("+")
    frames(page)
    assert (pixels(page) != before).any()
    page.keyboard.press("-")
    page.keyboard.press("0")
    frames(page)
    whole = pixels(page)
    page.keyboard.press("Shift+ArrowDown")  # nowhere to move
    frames(page)
    assert (pixels(page) == whole).all()
    assert wrong == []


def test_the_wheel_drags_and_fingers_move_the_part(browser: Any, tmp_path: Path) -> None:
    page, wrong = open_views(browser, tmp_path, part_of([rows(300)]), has_touch=True)
    canvas = ready(page)
    canvas.hover(position=point(canvas, 32, 32, 64))
    page.mouse.wheel(0, -200)  # scrolls the page until the picture has the focus
    frames(page)
    assert canvas_span(page) == "64"
    canvas.click(position=point(canvas, 32, 32, 64))
    page.mouse.wheel(0, -200)
    frames(page)
    assert canvas_span(page) == "32"
    canvas.click(position=point(canvas, 0, 0, 32))
    assert "(token 16) → “t16”" in readout(page)  # around the pointer: 16 to 48
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 300 - (box["width"] - 92) / 4, box["y"] + 300, steps=4)
    page.mouse.up()
    frames(page)
    canvas.click(position=point(canvas, 0, 0, 32))
    assert "(token 16) → “t24”" in readout(page)
    pinch(page, canvas)
    frames(page)
    assert canvas_span(page) == "16"
    assert wrong == []


def canvas_span(page: Any) -> str:
    """How many tokens the part shows."""
    return str(page.locator(".attlas-matrix").get_attribute("data-span"))


def pinch(page: Any, canvas: Any) -> None:
    """Two fingers that move apart to twice their distance."""
    box = canvas.bounding_box()
    x, y = box["x"] + 92 + (box["width"] - 92) / 2, box["y"] + 92 + (box["height"] - 92) / 2
    session = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 40), ("touchMove", 41), ("touchMove", 80)):
        points = [{"x": x - apart, "y": y}, {"x": x + apart, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_the_head_is_that_of_the_page(browser: Any, tmp_path: Path) -> None:
    weights = [rows(40, seed=seed) for seed in range(2)]
    page, wrong = open_views(browser, tmp_path, part_of(weights))
    canvas = ready(page)
    page.evaluate("state.set('head', 'L0H1')")
    ready(page, "L0H1")
    canvas.click(position=point(canvas, 5, 6, 40))
    read = READ.match(readout(page))
    assert read is not None
    assert float(read[5]) == pytest.approx(weights[1][5, 6], rel=ROUNDING + 0.006)
    page.evaluate("state.set('head', 'L5H5')")
    missing = page.get_by_text("The page has no matrix of L5H5, only of L0H0, L0H1")
    missing.wait_for()
    assert "--matrix L5H5" in missing.inner_text()
    page.get_by_label("head").select_option("L0H0")
    ready(page)
    assert page.evaluate("state.get('head')") == "L0H0"
    assert not missing.is_visible()
    assert wrong == []


def test_lines_are_where_positions_repeat(browser: Any, tmp_path: Path) -> None:
    even = np.full((60, 60), 1 / 60)  # nothing is tinted
    part = replace(part_of([even]), seams=(20, 50))
    page, wrong = open_views(browser, tmp_path, part)
    ready(page)
    page.locator("canvas.part").press("0")
    frames(page)
    shown = "repeat from tokens 20, 50"
    assert shown in page.locator(".legend").inner_text()
    for kind, margin in (("whole", 0), ("part", 92)):
        picture = pixels(page, kind)[margin:, margin:, :3].astype(int)
        dark = (picture.sum(2) < 3 * 200).mean(0) > 0.9  # columns of the picture
        places = np.nonzero(dark)[0] / len(dark) * 60
        assert {round(place) for place in places} == {20, 50}
    assert wrong == []


def test_a_selection_of_this_text_is_marked_and_one_of_another_is_not(
    browser: Any, tmp_path: Path
) -> None:
    page, wrong = open_views(browser, tmp_path, part_of([rows(40)]))
    ready(page)
    orange = [194, 65, 12]

    def marked() -> int:
        frames(page)
        return int((pixels(page)[..., :3] == orange).all(-1).sum())

    page.evaluate("state.set('selection', {text: 'another', words: [3]})")
    assert marked() == 0
    page.evaluate("state.set('selection', {text: 'one', words: [3]})")
    assert marked() > 20
    page.evaluate("state.set('selection', {text: 'one', words: []})")
    assert marked() == 0
    assert wrong == []


def test_the_table_has_the_largest_of_what_is_shown(browser: Any, tmp_path: Path) -> None:
    weights = rows(200)
    page, wrong = open_views(browser, tmp_path, part_of([weights]))
    ready(page)
    page.get_by_text("Show as table").click()
    lines = page.locator(".attlas-matrix tbody tr")
    lines.first.wait_for()
    assert lines.count() == 20
    largest = np.sort(weights[:64, :64].ravel())[::-1][:20]
    shown = [float(one) for one in page.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert np.allclose(shown, largest, rtol=ROUNDING + 0.006)
    query, key = np.argwhere(weights[:64, :64] > largest[1])[0]
    assert lines.first.inner_text().split("\t")[:2] == [f"t{query} ({query})", f"t{key} ({key})"]
    page.get_by_role("button", name="Show the whole matrix").click()
    page.get_by_text("queries 0 to 199").wait_for()
    first = page.locator("tbody td:nth-child(3)").first.inner_text()
    assert float(first) == pytest.approx(weights.max(), rel=ROUNDING + 0.006)
    assert wrong == []


def test_a_host_that_answers_sends_exact_rows(browser: Any, tmp_path: Path) -> None:
    weights = rows(40).astype(np.float32)
    page, wrong = open_views(browser, tmp_path, part_of([weights]), host=True)
    canvas = ready(page)
    canvas.click(position=point(canvas, 5, 6, 40))
    asked = {"kind": "row", "text": "one", "head": "L0H0", "query": 5}
    assert page.evaluate("sent") == [asked]
    assert "± 2.3%" in readout(page)
    answer = "([content, row]) => answer(content, row)"
    page.evaluate(answer, [{**asked, "text": "another"}, weights[9].tolist()])
    page.evaluate(answer, [{**asked, "head": "L9H9"}, weights[9].tolist()])
    assert "± 2.3%" in readout(page)
    page.evaluate(answer, [asked, weights[5].tolist()])
    exact = re.search(r": ([\d.e-]+) exactly", readout(page))
    assert exact is not None
    assert float(exact[1]) == pytest.approx(float(weights[5, 6]), rel=1e-5)
    canvas.click(position=point(canvas, 5, 9, 40))
    assert len(page.evaluate("sent")) == 1  # the row is there
    page.evaluate("stop.abort()")
    counts = "[...state.listeners.values()].map((one) => one.size)"
    assert set(page.evaluate(counts)) == {0}
    assert wrong == []


def test_tokens_are_words_and_never_code(browser: Any, tmp_path: Path) -> None:
    part = part_of([rows(3)])
    tokens = ("<img src=x onerror=alert(1)>", "</script>", "שלום")
    hostile = HeadMatrices(part.text, tokens, part.word_of, 3, part.heads)
    page, wrong = open_views(browser, tmp_path, hostile)
    canvas = ready(page)
    canvas.click(position=point(canvas, 0, 2, 3))
    assert tokens[0] in readout(page)
    page.get_by_text("Show as table").click()
    assert page.locator("img").count() == 0
    assert wrong == []


@pytest.mark.parametrize("count", [1, 2, 40, 300])
def test_it_fits_a_phone_and_appears_when_shown(browser: Any, tmp_path: Path, count: int) -> None:
    view = {"width": 390, "height": 800}
    page, wrong = open_views(browser, tmp_path, part_of([rows(count)]), viewport=view)
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for one in page.locator(".attlas-matrix button, .attlas-matrix summary").all():
        assert one.bounding_box()["height"] >= 24
    page.evaluate("document.querySelector('main').hidden = true")
    page.set_viewport_size({"width": 1000, "height": 800})
    page.evaluate("document.querySelector('main').hidden = false")
    page.wait_for_function(
        f"document.querySelector('canvas.part').clientWidth > {390 if count > 1 else 0}"
    )
    assert wrong == []


def test_a_cell_and_the_words_of_the_text_are_one_selection(browser: Any, tmp_path: Path) -> None:
    text = "the cat sat on the mat , it was good ."
    seen = attlas.attention(shared("bert"), text, matrix="L1H2")
    page, wrong = open_page(browser, seen.write(tmp_path / "look.html"))
    canvas = ready(page, "L1H2")
    count = len(seen.tokens)
    canvas.click(position=point(canvas, 2, 6, count))
    read = READ.match(readout(page))
    assert read is not None
    assert (read[1], read[3]) == (seen.tokens[2], seen.tokens[6])
    assert float(read[5]) == pytest.approx(float(seen.weights[1, 2, 2, 6]), rel=ROUNDING + 0.006)
    assert page.locator("w[aria-selected=true]").all_inner_texts() == [seen.words[2], seen.words[6]]
    page.locator("w").nth(3).click()
    frames(page)
    assert page.locator("w[aria-selected=true]").all_inner_texts() == [seen.words[3]]
    assert (pixels(page)[..., :3] == [194, 65, 12]).all(-1).sum() > 20
    assert wrong == []
