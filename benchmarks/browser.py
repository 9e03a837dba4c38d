"""Pages in a browser without a graphics card: how fast they answer, how large they are.

Every page is made here: of the embedded model, lengthened, on 4,096 tokens; of a model of 12 x 12
heads with random weights on 512 tokens; of a tour. BertViz writes all weights of a text as JSON
(`attention.tolist()` in its `model_view`); the same is written here for the same weights.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attlas
from benchmarks.table import Row

TOKENS, SHORT = 4_096, 512
SECONDS = 4  # of zooming and moving
TOUR = Path(os.environ.get("ATTLAS_TOUR", "runs/tour"))

# Keys that move and zoom, one a frame; frames a second and their number.
FRAMES = """async (seconds) => {
  const canvas = document.querySelector("canvas.part");
  const press = (key, shiftKey) =>
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
  const moves = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"];
  press("0");
  const frame = () => new Promise((on) => requestAnimationFrame(on));
  for (let warm = 0; warm < 10; warm++) await frame();
  const began = performance.now();
  let count = 0;
  while (performance.now() - began < 1000 * seconds) {
    const at = count % 40;
    if (at < 6) press("+");
    else if (at >= 34) press("-");
    else press(moves[Math.floor(count / 5) % 4], true);
    await frame();
    count++;
  }
  return [(1000 * count) / (performance.now() - began), count];
}"""
# From a click on a word to the frame that shows what it chose, the median of some, in ms.
CLICKS = """async () => {
  const words = [...document.querySelectorAll("w")];
  const frame = () => new Promise((on) => requestAnimationFrame(() => setTimeout(on)));
  const times = [];
  for (const share of [0.5, 0.1, 0.3, 0.9, 0.7, 0.2, 0.8]) {
    const word = words[Math.floor(share * words.length)];
    word.scrollIntoView({ block: "center" });
    await frame();
    await frame();
    const began = performance.now();
    word.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await frame();
    times.push(performance.now() - began);
  }
  return times.slice(1).sort((a, b) => a - b)[3];
}"""
# When the views of a page are drawn and a click is answered, in ms after it was opened.
INTERACTIVE = """() => new Promise((on) => {
  const look = () => {
    const views = [...document.querySelectorAll("[data-view]")];
    const drawn = views.length && views.every((one) => "drawn" in one.dataset);
    if (drawn) requestAnimationFrame(() => setTimeout(() => on(performance.now())));
    else setTimeout(look, 5);
  };
  look();
})"""


@contextmanager
def opened() -> Iterator[Any]:
    """A browser that draws without a graphics card."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        how = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=how)
        yield browser
        browser.close()


class Clock:
    """CPU seconds of the thread that runs a page's scripts, lays it out and paints it."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    @property
    def seconds(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def page_of(browser: Any, path: Path, scale: float = 1.0) -> Any:
    view = {"width": 1_400, "height": 900}
    context = browser.new_context(offline=True, viewport=view, device_scale_factor=scale)
    page = context.new_page()
    page.goto(path.as_uri(), wait_until="commit")
    return page


def long_page(folder: Path) -> Path:
    """The page of `attlas look` of 4,096 tokens, with the whole matrix of one head."""
    text = " ".join(one.text for one in attlas.read("embedded:all"))
    how: dict[str, Any] = {"matrix": "L2H8", "matrix_tokens": TOKENS}
    seen = attlas.attention("embedded:long", text, **how)
    assert len(seen.tokens) == TOKENS
    return seen.write(folder / "long.html")


def bertviz_bytes(folder: Path) -> tuple[float, float]:
    """Bytes of a page with 144 heads of 512 tokens, and of the same weights as BertViz has them."""
    from attlas.testing import tiny

    model = tiny("bert", num_hidden_layers=12, num_attention_heads=12, hidden_size=48)
    text = " ".join(["the cat sat on a mat and it was not very good"] * 60)
    seen = attlas.attention(model, text)
    assert seen.weights.shape == (12, 12, SHORT, SHORT)
    size = sum(len(json.dumps(layer.tolist())) for layer in seen.weights)
    return seen.write(folder / "short.html").stat().st_size, size


def tour_report(folder: Path) -> Path | None:
    """The report of a finished tour, written anew; None if there is no tour."""
    if not (TOUR / "manifest.json").is_file():
        return None
    return attlas.Study.open(TOUR).with_parts().report(folder / "tour.html")


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name, opened() as browser:
        folder = Path(name)
        yield from _long(browser, long_page(folder))
        ours, theirs = bertviz_bytes(folder)
        what = f"page of 144 heads, {SHORT} tokens"
        way = "the weights as JSON, as BertViz has them"
        yield Row(what, ours / 1e6, way, theirs / 1e6, "at most 0.02", "MB")
        if (tour := tour_report(folder)) is not None:
            yield Row(
                "report of the tour", tour.stat().st_size / 1e6, "target", 2, "at most 1", "MB"
            )
            taken = sorted(_opening(browser, tour) for _ in range(3))[0]
            what = "  until its views are drawn and answer"
            yield Row(what, taken[0], "target", 1, "below 1")
            yield Row("  the same, CPU time of its thread", taken[1], "target", 1, "below 1")


def _opening(browser: Any, path: Path) -> tuple[float, float]:
    """Seconds until a page is drawn and answers, and CPU seconds of its thread."""
    page = page_of(browser, path)
    clock = Clock(page)
    taken = page.evaluate(INTERACTIVE) / 1e3
    return taken, clock.seconds


def _long(browser: Any, path: Path) -> Iterator[Row]:
    page = page_of(browser, path, 1.5)
    page.wait_for_selector("[data-ready]", timeout=60_000)
    side = page.evaluate("document.querySelector('canvas.part').width")
    page.locator("canvas.part").scroll_into_view_if_needed()
    clock = Clock(page)
    before = clock.seconds
    frames, count = page.evaluate(FRAMES, SECONDS)
    taken = (clock.seconds - before) / count
    what = f"{TOKENS:,} x {TOKENS:,} on {side:,} pixels: frames per second"
    yield Row(what, frames, "target", 30, "above 1", "fps")
    yield Row("  CPU time of a frame", 1e3 * taken, "target", 1e3 / 30, "below 1", "ms")
    page = page_of(browser, path)
    page.evaluate(INTERACTIVE)
    what = f"click on a word of {TOKENS:,} tokens"
    clock = Clock(page)
    before = clock.seconds
    yield Row(what, page.evaluate(CLICKS), "target", 100, "below 1", "ms")
    taken = (clock.seconds - before) / 7
    what = "  CPU time of a click, and of scrolling there"
    yield Row(what, 1e3 * taken, "target", 100, "below 1", "ms")
    size = path.stat().st_size / 1e6
    what, weights = "  its page, with the matrix of one head", 4 * 72 * TOKENS**2 / 1e6
    yield Row(what, size, "all weights as float32", weights, "none", "MB")


if __name__ == "__main__":
    for row in rows():
        print(row)
