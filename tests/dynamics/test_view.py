"""The training path: at every epoch its numbers are those of the table, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from attlas.dynamics.section.cells import kinds_of
from attlas.dynamics.section.path import NUMBERS, TrainingPaths, path_svg, training_paths
from tests.builders.pages import open_page
from tests.builders.views import view_page

KINDS = ("positive", "negative", "neutral")


def kinds_table(epochs: int = 5, kinds: tuple[str, ...] = KINDS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            "attention": "dot",
            "encoder": encoder,
            "scale": 10.0,
            "epoch": epoch,
            "kind": kind,
            "tokens": 9,
            **{name: float(f"{rng.normal(0, 2):.3f}") for name in NUMBERS},
        }
        for encoder in ("none", "lstm")
        for epoch in range(epochs)
        for kind in kinds
    ]
    return pd.DataFrame(rows)


def paths_of(frame: pd.DataFrame) -> TrainingPaths:
    paths = training_paths(frame)
    assert paths is not None
    return paths


def test_epochs_without_all_numbers_are_not_drawn() -> None:
    frame = kinds_table()
    frame.loc[(frame["epoch"] == 2) & (frame["kind"] == "neutral"), "polarity"] = np.nan
    paths = paths_of(frame)
    assert [one.name for one in paths.paths] == ["dot, scale 10", "dot, LSTM, scale 10"]
    for one in paths.data:
        assert [kind["kind"] for kind in one["kinds"]] == list(KINDS)
        assert all(kind["epoch"] == [0, 1, 3, 4] for kind in one["kinds"])
    assert training_paths(frame.assign(attention_score=np.nan)) is None
    assert training_paths(frame[:0]) is None


def test_a_picture_has_every_kind() -> None:
    frame = kinds_table(kinds=("<b>one</b>", "two", "neutral"))
    for one in paths_of(frame).paths:
        svg = ElementTree.fromstring(path_svg(one))
        names = {node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")}
        assert {"<b>one</b>", "two", "neutral"} <= names


def test_kinds_have_the_colours_that_they_have_in_charts(tmp_path: Path, browser: Any) -> None:
    frame = kinds_table(kinds=("left", "right", "centre"))
    paths = paths_of(frame)
    expected = dict(zip(*kinds_of(frame), strict=True))
    assert len(set(expected.values())) == 3
    for one in paths.paths:
        drawn = ElementTree.fromstring(path_svg(one)).iter("{http://www.w3.org/2000/svg}path")
        assert [*expected.values()] == [node.get("stroke") for node in drawn][1:]
    page, wrong = open_page(browser, view_page([paths], tmp_path / "page.html"))
    name = "one => [one.querySelector('.name').textContent, one.style.getPropertyValue('--kind')]"
    assert expected == dict(page.eval_on_selector_all(".plane g.kind", f"all => all.map({name})"))
    assert wrong == []
    page.context.close()


def numbers(line: str) -> list[float]:
    return [float(one.replace("−", "-")) for one in re.findall(r"[−]?\d+\.?\d*", line)]


@pytest.mark.parametrize("width", [1200, 390])
def test_the_slider_reads_out_and_draws_the_table(width: int, tmp_path: Path, browser: Any) -> None:
    frame = kinds_table()
    path = view_page([paths_of(frame)], tmp_path / "page.html")
    size: Any = {"width": width, "height": 800}
    page, wrong = open_page(browser, path, viewport=size)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    slider = page.locator("input[type=range]")
    for at, encoder in enumerate(("none", "lstm")):
        page.select_option("[data-choose=classifier]", str(at))
        slider.focus()
        for key, epoch in (("Home", 0), ("ArrowRight", 1), ("End", 4)):
            page.keyboard.press(key)
            line = page.locator(".readout").inner_text()
            assert line.startswith(f"Epoch {epoch}: " if epoch else "Before training")
            rows = frame[(frame["encoder"] == encoder) & (frame["epoch"] == epoch)]
            rows = rows.set_index("kind").loc[list(KINDS)]
            expected = rows[["polarity", "attention_score"]].to_numpy().reshape(-1)
            read = numbers(line.partition(":")[2])
            np.testing.assert_allclose(read, expected, atol=0.00501)
            dots = page.locator(".plane .now") if epoch else page.locator(".plane .start")
            places = [float(one.get_attribute("cx")) for one in dots.all()][-3:]
            if epoch:
                assert np.argsort(places).tolist() == np.argsort(rows["polarity"]).tolist()
    page.locator("label", has_text="neutral").locator("input").uncheck()
    assert page.locator(".plane .kind").count() == 2
    assert "neutral" not in page.locator(".readout").inner_text()
    page.locator("button", has_text="Show as table").click()
    assert page.locator("tbody tr").count() == 2 * 5
    assert not wrong


SEEN = """() => {
  window.seen = [];
  const line = document.querySelector(".readout");
  const epoch = () => line.textContent.match(/^(Before training|Epoch \\d+)/)[0];
  const note = () => seen.at(-1) !== epoch() && seen.push(epoch());
  new MutationObserver(note).observe(line, { childList: true, characterData: true, subtree: true });
}"""


def test_it_plays_unless_motion_is_reduced(tmp_path: Path, browser: Any) -> None:
    path = view_page([paths_of(kinds_table(3))], tmp_path / "page.html")
    page, wrong = open_page(browser, path)
    page.evaluate(SEEN)
    page.locator("button", has_text="Play").click()
    page.wait_for_function("seen.at(-1) === 'Epoch 2'")
    assert page.evaluate("seen") == ["Before training", "Epoch 1", "Epoch 2"]
    page.wait_for_function("document.querySelector('.attlas-path button').isConnected")
    assert page.locator("button", has_text="Play").is_visible()
    still, also = open_page(browser, path, reduced_motion="reduce")
    assert not still.locator("button", has_text="Play").is_visible()
    assert wrong == also == []
