"""The view of a text in a browser: tints, selection, keyboard, every script, long texts."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.models import look
from attlas.support.errors import AttlasError
from attlas.testing import tiny
from attlas.views import charts, text_page
from attlas.views.parts import TintedText
from tests.builders.pages import cpu_seconds
from tests.builders.text_views import (
    SENTENCE,
    byte_model,
    computed,
    page_of,
)
from tests.builders.views import open_views

STEPS = 24
COLOURS = """async () => {
  const { colour } = await import("attlas/colour.js");
  return Array.from({ length: 25 }, (_, at) => colour(at / 24).join(", "));
}"""
TINTS = """all => all.map(one => one.style.background.replace(/rgb\\(|\\)/g, ""))"""
WORDS = ".attlas-text .passage w"
SAID = ".attlas-text .said"
SHOWN = """node => [...node.childNodes].filter(part => !part.className?.includes?.('mark'))
  .map(part => part.textContent).join('')"""
HOSTILE = "<script>alert('x')</script> & <b>bold</b> \"quoted\" {{ x }} </p> \u2028 ${y}"


def expected_tints(received: Any, uniform: Any, special: Any) -> list[int]:
    """Loops: no tint at or below uniform; logarithms up to all but the largest hundredth."""
    sizes = [
        np.log2(one / own) if one > 1.0005 * own else 0.0
        for one, own in zip(received, uniform, strict=True)
    ]
    ordinary = sorted((size for size, mark in zip(sizes, special, strict=True) if not mark))
    top = max(1.0, ordinary[len(ordinary) - 1 - len(ordinary) // 100] if ordinary else 0.0)
    return [max(1, round(min(1.0, size / top) * STEPS)) if size > 0 else 0 for size in sizes]


def without_first(received: Any, uniform: Any, first: int) -> tuple[Any, Any]:
    """Shares of what all words but one receive, with the same sum as in uniform attention."""
    others = np.arange(len(received)) != first
    return received * others * uniform[others].sum() / received[others].sum(), uniform


@pytest.mark.parametrize(("family", "sink"), [("bert", ""), ("gpt2", "in"), ("gpt2", "out")])
def test_tints_start_at_each_words_own_uniform_attention(
    family: str, sink: str, tmp_path: Path, browser: Any
) -> None:
    seen = attlas.attention(tiny(family), SENTENCE)
    words = seen.batch.words[0]
    special = np.isin(np.arange(len(words)), words.of[seen.special])
    page = page_of(browser, seen, tmp_path)
    colours = page.evaluate(COLOURS)
    assert page.locator("[data-sink]").count() == (2 if sink else 0)
    if sink:
        assert page.locator("[data-sink=out]").get_attribute("aria-pressed") == "true"
        page.click(f"[data-sink={sink}]")
    for view, parts in (
        ("", (slice(None), slice(None))),
        ("L1", (1, slice(None))),
        ("L2H3", (2, 3)),
    ):
        page.select_option("[data-choose=head]", view)
        values = seen.by_head.numpy()[parts].reshape(-1, len(seen.tokens)).mean(0)
        own = seen.uniform.numpy()[parts[0]].reshape(-1, len(seen.tokens)).mean(0)
        received, uniform = (np.bincount(words.of, one, len(words)) for one in (values, own))
        if sink == "out":
            received, uniform = without_first(received, uniform, words.of[0])
        shown = page.locator(WORDS).evaluate_all(TINTS)
        levels = [
            colours.index(one.replace(" ", ", ").replace(",,", ",")) if one else 0 for one in shown
        ]
        expected = expected_tints(received, uniform, special)
        assert np.abs(np.array(levels) - expected).max() <= 1  # rounding, at an edge
        assert [level == 0 for level in levels] == [one == 0 for one in expected]
        assert 0 < sum(one == 0 for one in expected) < len(words)
    legend = page.locator(".attlas-text .legend").inner_text()
    assert "×1, own uniform" in legend
    assert "no tint at or below uniform attention" in legend
    assert ("without the first token" in legend) == (sink == "out")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.querySelector('.attlas-text').dataset.theme === 'dark'")
    assert page.locator(WORDS).evaluate_all(TINTS) != shown
    assert page.wrong == []
    page.context.close()


def test_lists_are_the_weights_of_the_selection(tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(tiny("bert"), SENTENCE)
    between = seen.to_words()[2, 3].numpy()
    page = page_of(browser, seen, tmp_path)
    page.select_option("[data-choose=head]", "L2H3")
    page.locator(WORDS).nth(2).click()
    page.locator(WORDS).nth(5).click(modifiers=["Shift"])
    assert page.locator(".side .chip").count() == 2
    rows = between[[2, 5]].mean(0), between[:, [2, 5]].sum(1)
    for table, row in zip(page.locator(".lists table").all(), rows, strict=True):
        order = np.argsort(-row, kind="stable")[:8]
        cells = table.locator("tbody tr").evaluate_all(
            "all => all.map(one => [...one.cells].map(cell => cell.textContent))"
        )
        assert [int(one[1]) - 1 for one in cells] == order.tolist()
        assert [one[0] for one in cells] == [seen.words[word] for word in order]
        for one, word in zip(cells, order, strict=True):
            assert one[3].startswith("<") or abs(float(one[3]) - row[word]) <= 0.006
        note = table.locator("xpath=following-sibling::p").inner_text()
        listed, others = map(float, re.findall(r"([\d.]+) (?:listed|on)", note))
        assert listed == pytest.approx(row[order].sum(), abs=0.01)
        assert listed + others == pytest.approx(row.sum(), abs=0.02)
    received = seen.by_head[2, 3].numpy()
    own = [np.isin(seen.batch.words[0].of, [2, 5])]
    together = float(received[own[0]].sum())
    assert f"received together {together:.2f}" in page.locator(".side .sum").inner_text()
    page.locator(".side .chip").first.click()
    assert page.locator(f"{WORDS}[aria-selected=true]").count() == 1
    page.context.close()


def test_a_word_and_a_head_are_chosen_by_keyboard_alone(tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(tiny("bert"), SENTENCE)
    page = page_of(browser, seen, tmp_path)
    focused = "document.activeElement.textContent"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "W":
            break
    assert page.evaluate(focused) == "[CLS]"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == "cat"
    assert page.locator(SAID).inner_text().startswith("“cat” (word 3 of")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Shift+Enter")
    chosen = page.locator(f"{WORDS}[aria-selected=true]")
    assert chosen.all_inner_texts() == ["cat", "[SEP]"]
    assert page.locator(f"{WORDS}[tabindex='0']").count() == 1
    page.keyboard.press("Escape")
    assert chosen.count() == 0
    page.keyboard.press("Home")
    page.set_viewport_size({"width": 390, "height": 800})
    page.keyboard.press("ArrowDown")
    below = page.evaluate(
        "document.activeElement.offsetTop > document.querySelector('w').offsetTop"
    )
    assert below
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == "[CLS]"
    assert page.wrong == []
    page.context.close()


SCRIPTS = {
    "hostile": HOSTILE,
    "emoji": "A cat 👩‍👩‍👧 and flags 🇳🇴, cafe\u0301, nai\u0308ve, 3 €",
    "right to left": "שלום עולם, مرحبا بالعالم",
    "chinese": "今日は良い天気です。世界、こんにちは!",
    "devanagari": "हिन्दी में लिखा हुआ वाक्य।",
    "lines": "tabs\tand\nlines\n\nparagraphs  of the cat",
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("tokens", ["pieces", "bytes"])
def test_every_script_is_shown_whole(name: str, tokens: str, tmp_path: Path, browser: Any) -> None:
    model = byte_model() if tokens == "bytes" else tiny("bert")
    seen = attlas.attention(model, SCRIPTS[name])
    page = page_of(browser, seen, tmp_path)
    words = page.locator(".attlas-text .passage")
    for level in ("words", "tokens"):
        page.click(f"[data-units={level}]")
        assert words.evaluate(SHOWN) == SCRIPTS[name]
        spelt = page.locator(WORDS).evaluate_all("all => all.map(one => one.textContent)")
        assert "\ufffd" not in "".join(spelt)
        if level == "words":
            assert [one.strip() for one in spelt] == [*seen.words]
        else:
            assert len(spelt) <= len(seen.tokens)
            assert not [one for one in spelt if unicodedata.category(one[0]).startswith("M")]
            if tokens == "bytes":
                assert len(spelt) >= len(SCRIPTS[name]) / 3
    page.locator(WORDS).nth(2).click()
    assert page.locator(f"{WORDS}[aria-selected=true]").count() == 1
    direction = "getComputedStyle(document.querySelector('.passage')).direction"
    assert page.evaluate(direction) == ("rtl" if name == "right to left" else "ltr")
    assert page.wrong == []
    page.context.close()


def test_arrows_move_as_a_text_from_right_to_left_is_read(tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(tiny("gpt2"), SCRIPTS["right to left"])
    page = page_of(browser, seen, tmp_path)
    page.locator(WORDS).nth(0).click()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.at") == 1
    page.context.close()


def test_a_text_and_the_grid_of_heads_show_the_same_head(tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(tiny("bert"), SENTENCE, matrix="L1H2")
    page = page_of(browser, seen, tmp_path)
    page.locator(".attlas-heads [role=gridcell]").nth(6).click()
    assert page.locator(".attlas-text [data-choose=head]").input_value() == "L1H2"
    assert page.locator(".lines h4").first.inner_text() == "L1H2"
    page.select_option("[data-choose=head]", "L0H1")
    chosen = page.locator(".attlas-heads [role=gridcell][aria-selected=true]")
    assert "L0H1" in (chosen.get_attribute("aria-label") or "")
    page.select_option("[data-choose=head]", "L2")  # the mean of a layer is of this view alone
    assert page.locator("[data-choose=head]").input_value() == "L2"
    assert chosen.count() == 0
    page.context.close()


def test_lines_are_the_weights_above_the_threshold_and_uniform(
    tmp_path: Path, browser: Any
) -> None:
    seen = attlas.attention(tiny("bert"), SENTENCE)
    between, pieces = seen.to_words().numpy(), np.bincount(seen.batch.words[0].of)
    uniform = np.broadcast_to(pieces / len(seen.tokens), between.shape[2:])
    page = page_of(browser, seen, tmp_path)
    titles = page.locator(".lines h4").all_inner_texts()
    assert titles[0] == "mean of all heads"
    assert len(titles) == 4
    page.select_option("[data-choose=head]", "L2H3")
    page.select_option("[data-choose=threshold]", "0.1")
    for chosen in ([], [3]):
        for word in chosen:
            page.locator(WORDS).nth(word).click()
        titles = page.locator(".lines h4").all_inner_texts()
        assert titles[0] == "L2H3"
        for title, svg in zip(titles, page.locator(".lines svg").all(), strict=True):
            layer, head = map(int, title.removeprefix("L").split("H"))
            weights = between[layer, head]
            above = (weights >= 0.1) & (weights > uniform)
            if chosen:
                touched = np.zeros_like(above)
                touched[chosen] = touched[:, chosen] = True
                above &= touched
            drawn = svg.locator("path").evaluate_all(
                "all => all.map(one => [Number(one.dataset.query), Number(one.dataset.key)])"
            )
            assert sorted(map(tuple, drawn)) == [tuple(one) for one in np.argwhere(above).tolist()]
    page.click(".lines button")
    assert page.locator(".lines table").count() == 4
    assert page.locator(".lines svg").count() == 0
    page.context.close()


def test_numbers_of_a_text_as_a_table(tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(tiny("bert"), SENTENCE)
    page = page_of(browser, seen, tmp_path)
    page.locator(".text-main .below > button").click()
    rows = page.locator(".text-main .table tbody tr")
    assert rows.count() == len(seen.words)
    received, uniform = computed(page, ("received", "", "words"), ("uniform", "", "words"))
    cells = rows.nth(2).locator("td").all_inner_texts()
    assert cells == [
        "3",
        f"{received[2]:.3f}",
        f"{uniform[2]:.3f}",
        f"{received[2] / uniform[2]:.2f}",
    ]
    page.context.close()


def test_texts_below_each_other_have_one_set_of_controls(tmp_path: Path, browser: Any) -> None:
    """Each has its own legend; what is chosen in the first holds for all."""
    shown = [
        text_page.text_overlay(attlas.attention(tiny("bert"), text).numbers)
        for text in (SENTENCE, "a dog sat on a mat", "the film was good")
    ]
    parts = [TintedText("x", one, follows=at > 0) for at, one in enumerate(shown)]
    page, wrong = open_views(browser, tmp_path, *parts)
    assert page.locator("select").count() == page.locator(".bar-of-choices").count() == 1
    assert page.locator(".legend canvas").count() == 3
    assert page.locator(SAID).all_inner_texts()[1:] == ["", ""]
    before = page.locator(WORDS).evaluate_all(TINTS)
    page.select_option("[data-choose=head]", "L2H1")
    after = page.locator(WORDS).evaluate_all(TINTS)
    count = len(shown[0].words)
    assert after[:count] != before[:count]
    assert after[count:] != before[count:]
    page.locator(WORDS).last.click()
    assert "own uniform" in page.locator(SAID).last.inner_text()
    assert wrong == []
    page.context.close()


def test_a_page_of_one_text_fits_a_phone(tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(tiny("bert"), f"{SENTENCE}. " * 8, importance=np.ones((3, 4)))
    page = page_of(browser, seen, tmp_path, viewport={"width": 390, "height": 844})
    page.locator(WORDS).nth(3).click()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.select_option("[data-choose=head]", "scaled")
    assert page.wrong == []
    assert "srcdoc=" in seen._repr_html_()
    page.context.close()


def test_a_click_on_a_word_of_a_long_text_is_answered_at_once(
    tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In CPU time of the page's thread; the bound is generous, `make bench` has the time."""
    monkeypatch.setattr(text_page, "PAGE_BYTES", 0)
    model = tiny("longformer", max_position_embeddings=4100)
    model.tokenizer.model_max_length = 4096
    text = "\n\n".join(" ".join(f"cat{number % 10}" for number in range(100)) for _ in range(20))
    seen = attlas.attention(attlas.load((model.network, model.tokenizer)), text)
    page = page_of(browser, seen, tmp_path, viewport={"width": 1200, "height": 800})
    assert page.locator(WORDS).count() == 2002
    assert page.locator(".attlas-text .passage").evaluate(SHOWN) == text
    before = cpu_seconds(page)
    page.evaluate(
        """async () => {
          const words = [...document.querySelectorAll('.attlas-text w')];
          for (const at of [7, 1000, 1900]) {
            words[at].click();
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          }
        }"""
    )
    assert (cpu_seconds(page) - before) / 3 < 0.5
    assert page.locator(".map").is_visible()
    page.locator(".map").click(position={"x": 20, "y": 400})
    assert page.locator(".attlas-text .passage").evaluate("one => one.scrollTop") > 1000
    words, weights = (
        one[0, 2 * 4 + 1, 1900] for one in (seen.head_tops.words, seen.head_tops.weights)
    )
    page.select_option("[data-choose=head]", "L2H1")
    first = page.locator(".lists table").first.locator("tbody tr").first
    assert first.locator("button").inner_text() == seen.words[words[0]]
    assert float(first.locator("td").nth(2).inner_text()) == pytest.approx(weights[0], abs=0.04)
    assert page.wrong == []
    page.context.close()


def test_views_without_a_page_draw_a_text_too(tmp_path: Path, browser: Any) -> None:
    """As a notebook does: one module, an empty element, a model of its own."""
    from attlas.views.modules import joined
    from attlas.views.page import inline_json
    from attlas.views.parts import TEXT

    seen = attlas.attention(tiny("bert"), SENTENCE)
    data = inline_json(text_page.text_data(seen.numbers))
    path = tmp_path / "own.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><div id=here></div><script id=code type=text/plain>"
        f"{joined(TEXT)}</script><script id=data type=application/json>{data}</script>",
        encoding="utf-8",
    )
    from tests.builders.pages import open_page

    page, wrong = open_page(browser, path)
    page.evaluate(
        """async () => {
          const text = document.getElementById('code').textContent;
          const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
          const stored = [document.getElementById('data').textContent];
          const values = { parts: [{ module: "attlas/text.js", kind: "" }], stored };
          const model = { get: (name) => values[name], set: (name, value) => (values[name] = value),
            on() {}, off() {}, save_changes() {} };
          window.values = values;
          await (await import(url)).default.render({ model, el: document.getElementById('here') });
        }"""
    )
    page.locator(WORDS).nth(2).click()
    assert page.evaluate("values.selection") == {
        "text": "text",
        "words": [2],
        "spans": [[2, 5]],
    }
    assert wrong == []
    page.context.close()


def test_what_was_truncated_is_struck_through(tmp_path: Path, browser: Any) -> None:
    model = attlas.load((tiny("bert").network, tiny("bert").tokenizer), max_length=5)
    page = page_of(browser, attlas.attention(model, "a cat sat on the mat"), tmp_path)
    assert page.locator(".attlas-text .cut").inner_text() == " on the mat"
    assert "3 tokens beyond" in page.locator("h1").inner_text()
    page.context.close()


def test_a_long_text_and_its_heads_as_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "MOST_BYTES", 0)
    seen = attlas.attention(tiny("longformer"), f"{SENTENCE}. " * 20)
    with pytest.raises(AttlasError, match=r"would take .* GB and were not kept"):
        assert seen.weights.numel()
    for kind, signature in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert seen.write(tmp_path / f"long.{kind}").read_bytes().startswith(signature)
    drawn = charts.export(seen.pictures(), tmp_path / "heads.svg").read_text()
    assert drawn.count("<image") == 12 + 3  # and uniform attention for each layer
