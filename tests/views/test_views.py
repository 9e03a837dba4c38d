"""Reports and pages: everything escaped, nothing lost, drawn by a browser without a network."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
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
from attlas.views.overlay import LETTERS, levels, overlay, pack
from attlas.views.section import Figure, Section
from attlas.views.tables import Column, text_table
from attlas.views.terminal import print_table
from tests.builders.pages import SECTIONS, Tags, n_pictures, open_page, write_charts

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


def words_of(study: attlas.Study, row: Any) -> Any:
    tokens = study.table("totals", text=row.text)
    layers = tokens[[f"L{layer}" for layer in range(study.n_layers)]].to_numpy().T[:, None]
    return overlay(row.content, tokens, layers, tokens["uniform"].to_numpy())


def test_hostile_texts_come_through_the_report_escaped_and_whole(
    hostile: attlas.Study, tmp_path: Path
) -> None:
    page = hostile.report(tmp_path / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert not {"b", "u", "img", "i"} & set(tags.tags)
    assert tags.tags.count("script") == 2
    for row in hostile.table("texts").itertuples():
        shown = re.sub(
            r"<[^>]*>",
            "",
            re.sub(r'<w class="t\d mark">[^<]*</w>', "", words_of(hostile, row).html),
        )
        for escaped, plain in (
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", '"'),
            ("&#x27;", "'"),
            ("&amp;", "&"),
        ):
            shown = shown.replace(escaped, plain)
        assert shown == row.content


def test_the_report_is_drawn_offline(hostile: attlas.Study, tmp_path: Path, browser: Any) -> None:
    for scheme, width in (("light", 1200), ("dark", 420)):
        page, wrong = open_page(
            browser,
            hostile.report(tmp_path / "report.html"),
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
        )
        page.wait_for_function("document.querySelectorAll('section .chart svg.marks').length == 19")
        assert (
            page.locator("#surface [data-chart]")
            .first.locator("svg .mark-symbol.role-mark path")
            .count()
            == 72
        )
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        before = page.locator("#totals w").evaluate_all("all => all.map(one => one.className)")
        page.locator("#totals [data-choose=layer]").first.select_option("1")
        assert (
            page.locator("#totals w").evaluate_all("all => all.map(one => one.className)") != before
        )
        page.locator("#totals w").nth(3).click()
        assert "uniform attention" in page.locator("#totals .says").first.inner_text()
        page.select_option("#surface select", "previous")
        page.wait_for_timeout(200)
        assert wrong == []
        text = page.locator("#totals").inner_text()
        assert HOSTILE[0] in text
        page.context.close()


def test_the_page_of_one_text(minilm: attlas.Model, tmp_path: Path, browser: Any) -> None:
    seen = attlas.attention(minilm, "The cat 👩‍👩‍👧 didn't sit on <b>the</b> mat.")
    page, wrong = open_page(browser, seen.write(tmp_path / "look.html"))
    shown = page.locator("#text").evaluate(
        "node => [...node.childNodes].filter(part => !part.className?.includes('mark'))"
        ".map(part => part.textContent).join('')"
    )
    assert shown == seen.text
    cat = seen.tokens.index("cat")
    page.select_option("#layer", "0")
    page.select_option("#head", "2")
    page.locator("#text .t").nth(cat).click()
    message = page.locator("#says").inner_text()
    row = seen.weights[0, 2, cat]
    best = int(row.argmax())
    even = f"(uniform {1 / len(seen.tokens):.2f})"
    assert message.startswith(f"cat attends to {even}: {seen.tokens[best]} {float(row[best]):.2f}")
    page.locator("#text .t").nth(cat).click()
    most = int(seen.received()[0, 2].argmax())
    assert (
        page.locator("#says")
        .inner_text()
        .startswith(
            f"Largest attention received (uniform 1.00): {seen.tokens[most]} "
            f"{float(seen.received()[0, 2, most]):.2f}"
        )
    )
    assert wrong == []
    assert "srcdoc=" in seen._repr_html_()


def test_uniform_attention_of_a_causal_text_is_not_one() -> None:
    seen = attlas.attention(tiny("gpt2"), "a cat sat on it")
    expected = [sum(1 / (query + 1) for query in range(key, 5)) for key in range(5)]
    np.testing.assert_allclose(seen.uniform[0], expected, rtol=1e-6)
    np.testing.assert_allclose(seen.to_dict()["uniform"], expected, atol=1e-5)


@pytest.mark.parametrize(
    "kind",
    [
        "svg",
        pytest.param("pdf", marks=pytest.mark.slow),
        pytest.param("png", marks=pytest.mark.slow),
    ],
)
def test_every_chart_is_exported(hostile: attlas.Study, tmp_path: Path, kind: str) -> None:
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


def test_packed_numbers_come_back_to_within_a_letter() -> None:
    values = np.random.default_rng(0).random((3, 50)) ** 4
    packed, tops = pack(values)
    codes = np.array([LETTERS.index(letter) for letter in packed]).reshape(3, 50)
    back = (codes / 63) ** 2 * np.array(tops)[:, None]
    assert (
        np.abs(
            np.sqrt(back / values.max(1, keepdims=True))
            - np.sqrt(values / values.max(1, keepdims=True))
        ).max()
        < 0.01
    )


def test_a_long_text_is_light_and_answers_a_click(tmp_path: Path, browser: Any) -> None:
    """2,000 words, each of two tokens: joined to words, paragraphs kept, every head to choose."""
    model = tiny("longformer", max_position_embeddings=4100)
    model.tokenizer.model_max_length = 4096
    text = "\n\n".join(" ".join(f"cat{number % 10}" for number in range(100)) for _ in range(20))
    seen = attlas.attention(
        attlas.load((model.network, model.tokenizer)), text, importance=np.ones((3, 4))
    )
    assert len(seen.tokens) == 4002
    with (
        pytest.raises(AttlasError, match=r"would take .* GB and were not kept")
        if seen.square is None
        else nullcontext()
    ):
        assert seen.weights.shape == (3, 4, 4002, 4002)
    path = seen.write(tmp_path / "long.html")
    assert path.stat().st_size < 300_000
    page, wrong = open_page(browser, path)
    assert page.locator(".words w").count() == 2002
    shown = page.locator(".words").evaluate(
        "node => [...node.childNodes].filter(part => !part.className?.includes?.('mark'))"
        ".map(part => part.textContent).join('')"
    )
    assert shown == text
    page.select_option("[data-choose=layer]", "2")
    page.select_option("[data-choose=head]", "1")
    by_word = np.zeros(2002)
    np.add.at(by_word, seen.batch.words[0].of, seen.by_head[2, 1].numpy())
    page.locator(".words w").nth(7).click()
    message = page.locator(".says").inner_text()
    received = float(re.search(r"receives ([\d.]+)", message).group(1))
    assert received == pytest.approx(by_word[7], rel=0.05, abs=0.02)
    words, weights = seen.tops
    assert f"Attends most to: {seen.words[words[0, 7, 0]]} {weights[0, 7, 0]:.2f}" in message
    page.select_option("[data-choose=layer]", "scaled")
    assert wrong == []
    for kind, signature in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert seen.write(tmp_path / f"long.{kind}").read_bytes().startswith(signature)
    assert (
        charts.export(seen.pictures(), tmp_path / "heads.svg").read_text().count("<image") == 12 + 3
    )  # and uniform attention for each layer


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


def test_what_truncation_left_out_is_struck_through() -> None:
    model = attlas.load((tiny("bert").network, tiny("bert").tokenizer), max_length=5)
    study = attlas.study(model, ["a cat sat on the mat"])
    (row,) = study.table("texts").itertuples()
    assert (
        '<span class="cut" title="not read by the model"> on the mat</span>'
        in words_of(study, row).html
    )


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
