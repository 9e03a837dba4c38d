"""Reports and pages: everything escaped, nothing lost, drawn by a browser without a network."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.support.errors import AttlasError
from attlas.testing import tiny
from attlas.views import charts
from attlas.views.overlay import levels
from attlas.views.section import Figure, Section
from attlas.views.tables import Column, text_table
from attlas.views.terminal import print_table
from attlas.views.texts import EXAMPLE_TEXTS
from tests.builders.pages import (
    SECTIONS,
    Tags,
    draw_all,
    n_pictures,
    open_page,
    redrawn,
    write_charts,
)

HOSTILE = [
    "<script>alert('x')</script> & <b>bold</b> \"quoted\" 'single' </p>",
    "Emoji 👩‍👩‍👧 and flags 🇳🇴, café, naïve, 3 €",
    "שלום עולם, زه دوستت دارم، مرحبا",
    "今日は良い天気です。世界、こんにちは!",
    "w" * 10_000 + " end",
    "हिन्दी में लिखा हुआ वाक्य।",
    "tabs\tand\nlines\n\nparagraphs",
    "{{ template }} ${value} </script><img src=x onerror=alert(1)> \u2028 end",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, minilm: attlas.Model) -> attlas.Study:
    """A study whose texts, ids and labels are all out to break a page."""
    texts = [
        attlas.Text(f"<i>{number}</i>", text, label="<u>label</u>")
        for number, text in enumerate(HOSTILE)
    ]
    return attlas.study(minilm, texts, out=tmp_path_factory.mktemp("hostile") / "study")


def test_hostile_texts_come_through_the_report_escaped_and_whole(
    hostile: attlas.Study, tmp_path: Path
) -> None:
    page = hostile.report(tmp_path / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert not {"b", "u", "img", "i"} & set(tags.tags)
    assert tags.tags.count("script") == 5  # charts, their data, modules, their data, one call
    views = re.search(r'<script type="application/json" id="views">(.*?)</script>', page, re.DOTALL)
    assert views is not None
    shown = {one["content"] for one in json.loads(views[1])["attlas/text.js"]}
    assert shown == set(hostile.table("texts")["content"][: len(shown)])
    assert len(shown) == EXAMPLE_TEXTS


def test_the_report_is_drawn_offline(hostile: attlas.Study, tmp_path: Path, browser: Any) -> None:
    for scheme, width in (("light", 1200), ("dark", 420)):
        page, wrong = open_page(
            browser,
            hostile.report(tmp_path / "report.html"),
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
        )
        draw_all(page)
        assert page.locator("section .chart svg.marks").count() == 12
        assert page.locator("#surface [role=gridcell]").count() == 72
        assert page.locator("#surface .strip circle").count() == 72
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        tints = "all => all.map(one => one.style.background)"
        before = page.locator("#totals w").evaluate_all(tints)
        page.locator("#totals [data-choose=head]").first.select_option("L1")
        assert page.locator("#totals w").evaluate_all(tints) != before
        page.locator("#totals w").nth(3).click()
        assert "own uniform" in page.locator("#totals .says").first.inner_text()
        menu = page.locator("#surface select")
        redrawn(page, "#surface .strip", partial(menu.select_option, "surface.next"))
        assert wrong == []
        text = page.locator("#totals").inner_text()
        assert HOSTILE[0] in text
        page.context.close()


def test_uniform_attention_of_a_causal_text_is_not_one() -> None:
    seen = attlas.attention(tiny("gpt2"), "a cat sat on it")
    expected = [sum(1 / (query + 1) for query in range(key, 5)) for key in range(5)]
    np.testing.assert_allclose(seen.uniform[0], expected, rtol=1e-6)
    np.testing.assert_allclose(seen.to_dict()["uniform"], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_every_chart_is_exported(hostile: attlas.Study, tmp_path: Path, kind: str) -> None:
    """Those of a smaller study are exported in `test_captions_name_every_file`."""
    paths = write_charts(hostile, tmp_path / "charts", kind)
    signature = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}[kind]
    assert len({*paths}) == len(paths) == n_pictures(hostile)
    assert all(path.read_bytes().startswith(signature) for path in paths)


def test_unknown_formats_are_refused(hostile: attlas.Study, tmp_path: Path) -> None:
    with pytest.raises(
        AttlasError, match="format is 'gif'; it must be svg or pdf or png or html or json"
    ):
        write_charts(hostile, tmp_path, "gif")
    with pytest.raises(
        AttlasError, match=r"has no ending; name a file that ends in \.svg or \.pdf"
    ):
        charts.export(charts.head_grid(hostile.table("entropy")), tmp_path / "chart")


@pytest.mark.parametrize("kind", ["html", "json"])
def test_words_do_not_end_the_script_of_a_chart(kind: str, tmp_path: Path) -> None:
    word = "</script><script>alert(1)</script>\u2028"
    chart = (
        alt.Chart(pd.DataFrame({"word": [word], "n": [1]})).mark_bar().encode(x="n:Q", y="word:N")
    )
    content = charts.export(chart, tmp_path / f"chart.{kind}").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in content
    assert "\u2028" not in content
    if kind == "json":
        (rows,) = json.loads(content)["datasets"].values()
        assert rows == [{"word": word.replace("\u2028", " "), "n": 1}]


def test_a_report_needs_no_labels_and_no_particular_measure(tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), ["a cat sat", "the dog"], out=tmp_path / "study")
    assert "a cat sat" in re.sub(r"<[^>]*>", "", study.report(tmp_path / "all.html").read_text())
    few = attlas.study(tiny("gpt2"), ["a cat sat", "the dog"], ["positions"], out=tmp_path / "few")
    page = few.report(tmp_path / "few.html").read_text()
    assert "Attention distance" in page
    assert "Attention targets" not in page
    assert (
        "entropy of [CLS]"
        not in attlas.study(tiny("gpt2"), ["a cat"], ["entropy"], out=tmp_path / "gpt")
        .report(tmp_path / "gpt.html")
        .read_text()
    )


def test_a_section_of_ones_own_is_drawn(
    hostile: attlas.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Section(
        title="A section of one's own",
        question="What?",
        needs=("entropy",),
        about="About it.",
        figures=lambda study: [Figure("Caption.", html="<p>drawn</p>")],
        notes=lambda study: ["It stands out."],
    )
    monkeypatch.setattr("attlas.catalogue.sections", lambda: {**SECTIONS, "own": own})
    page = hostile.report(tmp_path / "own.html").read_text()
    assert "A section of one&#39;s own" in page
    assert "<li>It stands out.</li>" in page


def test_tints_are_scaled_by_ordinary_tokens() -> None:
    values = np.array([[9.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    special = np.array([True, False, False, False])
    assert levels(values, special).tolist() == [[9, 5, 9, 0], [0, 0, 0, 0]]
    assert levels(values[:, :1], special[:1]).tolist() == [[9], [0]]
    long = np.array(
        [[100.0, *np.linspace(0, 1, 200)]]
    )  # one word in a hundred may exceed the darkest tint
    tints = levels(long, np.zeros(201, dtype=bool))[0]
    assert tints[0] == 9
    assert tints[101] in (4, 5)


def test_words_that_go_with_a_word_are_those_of_the_mean_of_all_heads() -> None:
    model = tiny("longformer")
    seen = attlas.attention(
        model, "the cat sat on a mat, and it was not very good in the film of a dog"
    )
    between = seen.to_words().mean((0, 1)).numpy()
    words, weights = seen.tops
    for side, matrix in enumerate((between, between.T)):
        for word, row in enumerate(matrix):
            order = np.lexsort([np.arange(len(row)), -row])[:6]
            np.testing.assert_allclose(weights[side, word][: len(order)], row[order], atol=1e-6)
            assert weights[side, word, 0] == pytest.approx(row[words[side, word, 0]], abs=1e-6)


def test_a_study_in_a_notebook_is_escaped(hostile: attlas.Study) -> None:
    html = hostile._repr_html_()
    assert "8 of 8 read" in html
    assert isinstance(hostile.to_frame(), pd.DataFrame)


def test_a_line_separator_in_a_sorted_name_does_not_break_its_chart(tmp_path: Path) -> None:
    """Vega-Lite puts the names of a sort order into expressions, whose strings end at U+2028."""
    names = ["b\u2028c", "a\u2029"]
    frame = pd.DataFrame({"name": names, "value": [1.0, 2.0]})
    chart = alt.Chart(frame).mark_bar().encode(alt.X("value:Q"), alt.Y("name:N", sort=names))
    path = charts.export(chart, tmp_path / "chart.svg")
    assert "b c" in path.read_text()


def test_one_declaration_writes_a_table_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(
        {"who": ["a", "<b>|"], "f1": [0.5, np.nan], "low": 0.4, "high": 0.6, "n": [1200, 3]}
    )
    columns = (
        Column("who", "method", format="words", words={"a": "attention"}),
        Column("f1", "F1", interval=("low", "high")),
        Column("absent", "absent"),
        Column("n", "texts", format="count"),
    )
    table = text_table(frame, columns)
    assert table.titles == ("method", "F1", "texts")
    assert table.rows == (("attention", ".50\u00a0[.40,\u00a0.60]", "1,200"), ("<b>|", "-", "3"))
    assert "<td class=words>&lt;b&gt;|</td><td>-</td><td>3</td>" in table.html()
    assert table.markdown().splitlines()[-1] == "| &lt;b&gt;\\| | - | 3 |"
    print_table(table)
    assert capsys.readouterr().out.split()[:4] == ["method", "F1", "texts", "attention"]
