"""Examples of relations, drawn as lines between words."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas import Study, Text
from attlas.core.annotations import (
    DEPENDENCIES,
    ROOT,
)
from attlas.syntax.arcs import DIRECTIONS
from attlas.syntax.examples import FAINT, HEADS, best_examples, examples
from attlas.syntax.section import study_lines
from attlas.testing import tiny
from attlas.views.lines import Lines, lines_svg
from tests.builders.pages import draw_all, open_page, write_charts
from tests.builders.probes import PLAIN, probe, rigged, sentence, treebank
from tests.twins.syntax import between_slowly, own_words

PAIRS = "all => all.map(one => [Number(one.dataset.query), Number(one.dataset.key)])"

# examples and lines


def gold_pairs(
    model: attlas.Model, one: Text, relation: str, direction: str
) -> list[tuple[int, int]]:
    """The arcs of a relation as words of the model, as attention runs."""
    tree, own = one.annotations[DEPENDENCIES], own_words(model, one)
    pairs = [
        (own[word], own[up])
        for word, (up, kind) in enumerate(zip(tree.heads, tree.relations, strict=True))
        if kind == relation
    ]
    return [pair if direction == DIRECTIONS[0] else pair[::-1] for pair in pairs]


def test_arcs_of_examples_are_the_attention_between_these_words() -> None:
    model, words = tiny("bert", num_hidden_layers=2), (*PLAIN, "unseeing", "x1")
    texts = [
        *treebank(12, 6, words),
        sentence("long", PLAIN + PLAIN[:5], [ROOT, *[0] * 18], ["root", *["obj"] * 18]),
    ]
    rows = [
        ("obj", 1, 2, DIRECTIONS[0]),
        ("det", 0, 3, DIRECTIONS[1]),
        ("nothing", 0, 0, DIRECTIONS[0]),
    ]
    chosen = pd.DataFrame(rows, columns=["relation", "layer", "head", "direction"])
    tables = examples(model, texts, chosen, sentences=4)
    arcs, strings = tables["example_arcs"], tables["example_words"]
    by_id = {one.id: one for one in texts}
    assert sorted(set(arcs["relation"])) == ["det", "obj"]  # no sentence has the third
    assert arcs.groupby("relation")["example"].nunique().max() <= 4
    assert "long" not in set(arcs["text"])
    for relation, layer, head, direction in rows[:2]:
        means: dict[str, float] = {}
        for one in texts:
            gold = gold_pairs(model, one, relation, direction)
            if gold and 6 <= len(one.words or ()) <= 16:
                square = between_slowly(model, one)[1][layer, head]
                means[one.id] = float(np.mean([square[pair] for pair in gold]))
        best_texts = sorted(means, key=lambda name: -means[name])[:4]
        mine = arcs[arcs["relation"] == relation]
        assert mine["text"].drop_duplicates().tolist() == best_texts
        for name, example in mine.groupby("text"):
            one = by_id[str(name)]
            spelt, weights = between_slowly(model, one)
            weights = weights[layer, head]
            number = example["example"].iloc[0]
            assert (
                strings[strings["example"] == number].sort_values("word")["string"].tolist()
                == spelt
            )
            kept = {(row.query, row.key): row.weight for row in example.itertuples()}
            gold = {
                (row.query, row.key) for row in example.itertuples() if row.gold
            }  # drawn however faint
            assert set(kept) == gold | {
                (int(query), int(key))
                for query, key in zip(*np.nonzero(weights >= FAINT), strict=True)
            }
            for pair, weight in kept.items():
                assert weight == pytest.approx(weights[pair], abs=1e-5)
            assert gold == set(gold_pairs(model, one, relation, direction)) & set(kept)


def test_relations_that_tell_are_those_above_the_offset() -> None:
    rows = [
        ("all", 0.9, 0.8),
        ("a", 0.1, 0.05),
        ("b", 0.3, -0.01),
        ("c", 0.2, 0.1),
        ("d", -0.2, -0.3),
    ]
    rows += [(f"e{n}", 0.01, 0.001) for n in range(12)]
    table = pd.DataFrame(rows, columns=["relation", "difference", "difference_low"])
    assert best_examples(table)["relation"].tolist() == [
        "c",
        "a",
        *(f"e{n}" for n in range(HEADS - 2)),
    ]
    assert best_examples(table, 1)["relation"].tolist() == ["c"]


def test_examples_of_no_relation_are_empty_tables() -> None:
    tables = examples(
        rigged(),
        treebank(3),
        best_examples(pd.DataFrame(columns=["relation", "difference", "difference_low"])),
    )
    assert {name: len(table) for name, table in tables.items()} == {
        "example_words": 0,
        "example_arcs": 0,
    }


HOSTILE = (
    "<script>alert(1)</script>",
    "&amp;",
    "\"'",
    "👩‍👩‍👧",
    "\u200b",
    "</svg>",
    "שלום",
    "w" * 40,
    "]]>",
)


def test_words_of_a_picture_with_lines_are_escaped() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random((len(HOSTILE),) * 2) * 0.2
    weights[0, 1], weights[2, 3] = (
        0.001,
        0.015,
    )  # too faint to draw, but for the first, which is sought
    drawn = Lines("<b>title</b> & more", HOSTILE, weights, ((0, 1), (4, 5)))
    picture = ElementTree.fromstring(lines_svg(drawn))
    spelt = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert spelt[0] == "<b>title</b> & more"
    assert spelt[1:] == [word for word in HOSTILE for _ in range(2)]
    assert {node.tag.rpartition("}")[2] for node in picture.iter()} == {
        "svg",
        "rect",
        "g",
        "text",
        "line",
    }
    lines = list(picture.iter("{http://www.w3.org/2000/svg}line"))
    assert len(lines) == int((weights >= 0.02).sum()) + 1
    assert len({node.get("stroke") for node in lines}) == 2
    assert "sought" in "".join(ElementTree.fromstring(lines_svg(drawn, "sought")).itertext())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A probe of sentences whose words are out to break a page."""
    words = (*PLAIN, *HOSTILE[:4], "</script><img src=x onerror=alert(1)>", "$&", "{{x}}")
    out = tmp_path_factory.mktemp("hostile") / "syntax"
    return probe(
        "syntax", rigged(), treebank(40, 1, words), treebank(40, 2, words), out, min_cases=5
    )


def test_the_report_draws_lines_between_words(hostile: Study, tmp_path: Path, browser: Any) -> None:
    drawn = study_lines(hostile)
    assert len(drawn) == 3
    assert all(one.title.startswith("obj, L0H3, dependent → head: ") for one in drawn)
    page, wrong = open_page(browser, hostile.report(tmp_path / "report.html"))
    draw_all(page)
    assert page.locator("section .chart svg.marks").count() == 1
    select = page.locator("#syntax [data-choose=example]")
    groups = list(dict.fromkeys(one.about for one in drawn))
    assert select.locator("option").all_inner_texts() == groups
    panels = page.locator("#syntax .panels svg")
    assert panels.count() == len(drawn)  # all of one head
    for panel, one in zip(panels.all(), drawn, strict=True):
        assert one.special == (0, len(one.words) - 1)
        count = int((one.weights[1:-1, 1:-1] >= 0.02).sum())
        assert panel.locator("path").count() == count  # without special tokens at first
    page.locator("#syntax .attlas-lines [type=checkbox]").check()
    for panel, one in zip(panels.all(), drawn, strict=True):
        texts = panel.locator("text")
        spelt = [word if len(word) <= 15 else word[:14] + "…" for word in one.words]
        assert texts.evaluate_all("all => all.map(node => node.textContent)") == [
            word for word in spelt for _ in range(2)
        ]
        assert panel.locator("path").count() == int((one.weights >= 0.02).sum())
        gold = panel.locator("path.gold").evaluate_all(PAIRS)
        assert sorted(map(tuple, gold)) == sorted(one.gold)
        query = one.gold[0][0]
        texts.nth(2 * query).hover()  # on the left: what it attends to
        assert "attends to cat 1.00" in page.locator("#syntax .says").inner_text()
        left = panel.locator("path:not(.off)").evaluate_all(PAIRS)
        assert sorted(map(tuple, left)) == [
            (query, key) for key in np.flatnonzero(one.weights[query] >= 0.02).tolist()
        ]
        cat = one.words.index("cat")
        texts.nth(2 * cat + 1).hover()  # on the right: who attends to it
        count = int((one.weights[:, cat] >= 0.02).sum())
        assert panel.locator("path:not(.off)").count() == count
        assert "is attended to by" in page.locator("#syntax .says").inner_text()
        page.mouse.move(0, 0)
        assert panel.locator("path.off").count() == 0
    panels.first.locator("text").first.focus()
    page.keyboard.press("ArrowDown")
    assert f"“{drawn[0].words[1]}” attends to" in page.locator("#syntax .says").inner_text()
    page.locator("#syntax .attlas-lines button").click()
    assert page.locator("#syntax .panels table").count() == len(drawn)
    assert wrong == []
    page.context.close()


def test_lines_of_the_report_are_written_as_pictures(hostile: Study, tmp_path: Path) -> None:
    for kind, signature in (("svg", b"<svg"), ("png", b"\x89PNG")):
        paths = write_charts(hostile, tmp_path / kind, kind)
        assert len(paths) == 1 + 3
        assert all(path.read_bytes().startswith(signature) for path in paths)
