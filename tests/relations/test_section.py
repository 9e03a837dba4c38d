"""Views of relations: everything escaped, trees and graphs drawn as they are."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.cluster.hierarchy import dendrogram as scipy_dendrogram, linkage

from attlas.relations.extractor import RelationExtractor
from attlas.relations.matching import ExtractedTriple
from attlas.relations.page import by_sentence, write_text_page
from attlas.relations.section.charts import LAYERS
from attlas.relations.section.dendrogram import dendrogram, tree
from attlas.relations.section.graph import graph, graph_svg
from attlas.relations.section.names import READERS
from attlas.relations.section.picture import text_picture
from attlas.relations.section.texts import Shown, TripleText, texts_of
from attlas.relations.section.triples import TripleTexts, text_html
from attlas.studies.folder import Folder
from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.views import charts
from attlas.views.overlay import score_overlay
from attlas.views.parts import TintedText
from tests.builders.pages import (
    SECTIONS,
    Tags,
    draw_all,
    findings,
    findings_of,
    n_pictures,
    open_page,
    redrawn,
    render,
    sections,
    write_charts,
)
from tests.builders.studies import write_result
from tests.builders.views import view_page

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single'",
    "שלום עולם",
    "👩‍👩‍👧 if",
    "</svg><img src=x onerror=alert(1)>",
    "{{ x }} ${y}",
    "今日は世界",
    "plain",
)
IDS = [f"P{number}<b>" for number in range(len(HOSTILE))]
SCORES = ("binary_accuracy", "precision", "recall", "f1")
PARTS = {
    "relations": ("relations", "relations_each"),
    "relation_texts": ("relation_texts", "relation_triples", "relation_lines"),
    "relations_directions": ("relations_directions",),
    "relations_layers": ("relations_layers",),
    "relations_path": ("relations_path",),
    "relations_tree": ("relations_tree",),
}


def scores(readers: list[str], rng: np.random.Generator) -> pd.DataFrame:
    rows = []
    for reader in readers:
        row: dict[str, Any] = {"reader": reader}
        for name in SCORES:
            row[name] = float(rng.uniform(0.4, 0.9))
        for name in ("binary_accuracy", "f1"):
            row |= {f"{name}_low": row[name] - 0.1, f"{name}_high": row[name] + 0.1}
            ahead = rows[0][name] - row[name] if rows else 0.0
            row |= {
                f"{name}_ahead": ahead,
                f"{name}_ahead_low": ahead - 0.05,
                f"{name}_ahead_high": ahead + 0.05,
            }
        rows.append(row)
    return pd.DataFrame(rows)


def tree_of(vectors: np.ndarray, names: list[str]) -> pd.DataFrame:
    """Both dendrograms, as the pipeline writes them."""
    rows = []
    count = len(names)
    for how, made in (
        ("cosine", linkage(vectors, "average", "cosine")),
        ("ward", linkage(vectors, "ward")),
    ):
        for number, (left, right, distance, size) in enumerate(made):
            message = [names[int(node)] if node < count else "" for node in (left, right)]
            rows.append(
                {
                    "linkage": how,
                    "node": count + number,
                    "left": int(left),
                    "right": int(right),
                    "left_name": message[0],
                    "right_name": message[1],
                    "distance": distance,
                    "size": int(size),
                }
            )
    return pd.DataFrame(rows)


def drawn_texts() -> dict[str, pd.DataFrame]:
    """One text of every hostile string: each points to the next."""
    string, spans = "", []
    for word in HOSTILE:
        spans.append((len(string), len(string) + len(word)))
        string += word + " "
    triples, lines = [], []
    for number in range(len(HOSTILE) - 2):
        head, words, tail = spans[number : number + 3]
        words = words if number % 2 else (-1, -1)
        missed = number == len(HOSTILE) - 3
        triples.append(
            {
                "text": "<i>id</i>",
                "triple": -1 if missed else number,
                "head_start": head[0],
                "head_stop": head[1],
                "tail_start": tail[0],
                "tail_stop": tail[1],
                "words_start": words[0],
                "words_stop": words[1],
                "relation": IDS[number],
                "name": HOSTILE[number] if number % 3 else "",
                "probability": float("nan") if missed else 0.9,
                "status": "missed" if missed else ("right", "found")[number % 2],
            }
        )
        for one in (head, tail, words):
            for other in (head, tail, words):
                if one != other and min(one[0], other[0]) >= 0 and not missed:
                    lines.append(
                        {
                            "text": "<i>id</i>",
                            "triple": number,
                            "from_start": one[0],
                            "from_stop": one[1],
                            "to_start": other[0],
                            "to_stop": other[1],
                            "mean": 0.02,
                            "weight": 0.31,
                            "strongest_layer": 1,
                            "strongest_head": 2,
                        }
                    )
    return {
        "relation_texts": pd.DataFrame([{"text": "<i>id</i>", "string": string}]),
        "relation_triples": pd.DataFrame(triples),
        "relation_lines": pd.DataFrame(lines),
    }


NAMED = [name if number != 2 else "" for number, name in enumerate(HOSTILE)]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """Every table of relations, with strings that are out to break a page."""
    rng = np.random.default_rng(0)
    return {**score_tables(rng), **interpretation_tables(rng), **head_tables(), **drawn_texts()}


def score_tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    scored = ("precision", "recall", "f1")
    columns = (*scored, "f1_random_model", "f1_relation_words", "f1_word_embeddings")
    each = {"relation": IDS, "name": NAMED, "n": 9}
    each |= {column: rng.random(len(IDS)) for column in columns}
    unseen = ["attention", "random_model", "relation_words", "word_embeddings"]
    unseen.append("attention_and_words")
    extraction = dict.fromkeys((*scored, *(f"macro_{name}" for name in scored)), 0.5)
    return {
        "relations": scores(list(READERS), rng).assign(cases=1234, texts=1000),
        "relations_each": pd.DataFrame(each).assign(
            taken_for=[*IDS[1:], ""], taken=[*[1] * (len(IDS) - 1), 0]
        ),
        "relations_unseen": scores(unseen, rng).assign(
            accuracy=0.5, cases=28, phrases=27, relations=8
        ),
        "relations_extraction": pd.DataFrame(
            [
                {"match": name, **extraction, "predicted": 1600, "gold": 69}
                for name in ("exact", "published", "published_any_relation")
            ]
        ),
    }


def interpretation_tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    directions = ["h-r", "r-t", "h-t", "r-h", "t-r", "t-h"]
    parts = [
        f"{score}_{way}"
        for way in ("alone", "without", "alone_random")
        for score in ("binary_accuracy", "f1")
    ]
    weights = {name: rng.random(6) for name in ("weight_related", "weight_named", *parts)}
    called = [name or id for name, id in zip(NAMED, IDS, strict=True)]
    return {
        "relations_directions": pd.DataFrame({"direction": directions, **weights}),
        "relations_layers": pd.DataFrame(
            [
                {"layer": layer, "reader": reader, "relation": relation, "f1": float(rng.random())}
                for layer in range(3)
                for reader in LAYERS
                for relation in IDS
            ]
        ),
        "relations_path": pd.DataFrame(
            {
                "heads": [1, 2, 4, 12],
                "f1": [0.2, 0.4, 0.5, 0.6],
                "f1_random": [0.1, 0.2, 0.4, 0.6],
                "f1_random_low": [0.05, 0.1, 0.3, 0.6],
                "f1_random_high": [0.2, 0.3, 0.5, 0.6],
            }
        ),
        "relations_entered": pd.DataFrame(
            {"layer": np.arange(12) // 4, "head": np.arange(12) % 4, "entered": rng.permutation(12)}
        ),
        "relations_tree": tree_of(rng.normal(size=(len(IDS), 12)), called),
        "relations_merged": pd.DataFrame(
            {"classes": [8, 4, 2], "f1": [0.5, 0.6, 0.7], "f1_random": [0.5, 0.5, 0.6]}
        ),
    }


def head_tables() -> dict[str, pd.DataFrame]:
    weight = {"share": 0.1, "share_uniform": 1 / 12}
    pair = {"left": IDS[0], "right": IDS[1], "left_name": NAMED[0], "right_name": ""}
    shared = {"shared": 6, "shared_uniform": 1.39, "p": 0.00023, "pairs": 4465}
    return {
        "relation_heads": pd.DataFrame(
            [
                {"relation": id, "name": name, "rank": n, "layer": n, "head": n, **weight}
                for id, name in zip(IDS, NAMED, strict=True)
                for n in range(3)
            ]
        ),
        "relations_shared": pd.DataFrame([pair | shared]),
        "relations_likeness": pd.DataFrame(
            {
                "reader": ["attention", "random_model"],
                "correlation": [0.3, -0.1],
                "p": [0.002, 0.7],
                "relations": 8,
            }
        ),
    }


def study_of(folder: Path, tables: dict[str, pd.DataFrame], **about: Any) -> Study:
    scored = {
        "best_control": "word_embeddings",
        "adds": {},
        "lost": {"dev": {}},
        "texts": {"dev": 9},
        **about,
    }
    manifest = {
        "model": {
            "name": "m",
            "class": "BertModel",
            "n_layers": 3,
            "n_heads": 4,
            "max_length": 64,
            "sha256": None,
            "state_sha256": "0",
        },
        "corpus": {"name": "c", "fingerprint": "0" * 20, "labels": {}},
        "counts": {"analysed": 9, "read": 9, "tokens": 90, "truncated": 0, "quarantined": 0},
        "versions": {"torch": "2", "transformers": "5"},
        "identity": {"kind": "relations"},
        "relations": scored,
        "seconds": 1.0,
    }
    place = Folder(folder, "relations")
    with place.claim({}):
        return write_result(place, manifest, tables)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, pd.DataFrame]) -> Study:
    return study_of(tmp_path_factory.mktemp("relations"), tables)


# sections


def test_every_section_appears_with_its_tables_and_not_without(
    tmp_path: Path, study: Study, tables: dict[str, pd.DataFrame]
) -> None:
    assert [name for name, _ in sections(study)] == list(PARTS)
    assert all(SECTIONS[name].needs == needs for name, needs in PARTS.items())
    few = study_of(
        tmp_path / "few", {name: tables[name] for name in ("relations", "relations_each")}
    )
    assert [name for name, _ in sections(few)] == ["relations"]
    assert len(SECTIONS["relations"].figures(few)) == 3
    assert "plain-text" not in [one.name for one in SECTIONS["relations"].figures(few)]
    assert SECTIONS["relations"].figures(study)[-1].name == "plain-text"


def test_optional_tables_bring_figures(
    tmp_path: Path, study: Study, tables: dict[str, pd.DataFrame]
) -> None:
    needed = {table for needs in PARTS.values() for table in needs}
    bare = study_of(
        tmp_path / "bare", {name: table for name, table in tables.items() if name in needed}
    )
    figures = {name: [len(SECTIONS[name].figures(one)) for one in (bare, study)] for name in PARTS}
    assert figures == {
        "relations": [3, 5],
        "relation_texts": [1, 1],
        "relations_directions": [1, 1],
        "relations_layers": [1, 1],
        "relations_path": [1, 2],
        "relations_tree": [1, 5],
    }
    empty = {
        "relations_likeness": pd.DataFrame(columns=["reader", "correlation", "p"]),
        "relations_shared": tables["relations_shared"][:0],
    }
    empty |= {name: tables[name][:0] for name in PARTS["relation_texts"]}
    none = study_of(tmp_path / "none", {**tables, **empty})
    assert len(SECTIONS["relations_tree"].figures(none)) == 3
    assert SECTIONS["relation_texts"].figures(none) == []
    assert "triples.js" not in render(none).split("<script>")[0]


def test_what_attention_adds_is_told_with_its_sign(
    tmp_path: Path, tables: dict[str, pd.DataFrame]
) -> None:
    table = tables["relations"].set_index("reader")
    columns = ["f1", "f1_low", "f1_high", "f1_ahead", "f1_ahead_low", "f1_ahead_high"]
    table.loc["attention", columns[:3]] = 0.6, 0.55, 0.65
    table.loc["word_embeddings", columns] = 0.7, 0.65, 0.75, -0.1, -0.15, -0.05
    table.loc["random_model", columns] = 0.58, 0.53, 0.63, 0.02, -0.03, 0.07
    study = study_of(
        tmp_path,
        {**tables, "relations": table.reset_index()},
        lost={"test": {"cut off": 3}},
        texts={"test": 9, "in_both": 2},
        relations_never_learnt=["x"],
    )
    lines = findings_of(study, "relations")
    predicted = next(line for line in lines if line.startswith("Attention predicts which relation"))
    assert "macro F1 0.60 [" in predicted
    assert "best control (word vectors of the phrases) 0.70, random weights 0.58" in predicted
    assert predicted.endswith("(n = 1,234).")
    claims = SECTIONS["relations"].claims(study)
    assert (claims[0].difference_low, claims[0].difference_high) == (-0.15, -0.05)
    assert "Triples not scored: 3 cut off." in lines
    assert "Relations without training data, which cannot be predicted: 1." in lines
    warning = "Relations: 2 test texts also appear in the training data, so scores are optimistic."
    assert warning in findings(study)
    assert set(lines) <= set(findings(study))


def test_hostile_strings_are_escaped_everywhere(study: Study) -> None:
    page = render(study)
    tags = Tags()
    tags.feed(page)
    assert not {"img", "i"} & set(tags.tags)
    assert tags.tags.count("script") == 5
    for name in HOSTILE[:5]:
        if "<" in name:
            assert name not in page
    html = "".join(
        figure.table.html()
        for part in PARTS
        for figure in SECTIONS[part].figures(study)
        if figure.table
    )
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3  # each, heads, shared
    assert html.count("P2&lt;b&gt;") == 3  # without a name the id is shown: each, taken for, heads
    assert "1,600" in html


def test_triples_are_chosen_by_keys_shared_and_shown_as_a_table(
    tables: dict[str, pd.DataFrame], tmp_path: Path, browser: Any
) -> None:
    names = ("relation_texts", "relation_triples", "relation_lines")
    part = TripleTexts(texts_of(*(tables[name] for name in names)))
    size: Any = {"width": 390, "height": 844}
    page, wrong = open_page(browser, view_page([part, part], tmp_path / "page.html"), viewport=size)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    first, second = page.locator("[data-view]").all()
    buttons = first.locator("[data-triple]")
    assert first.locator("[data-triple][tabindex='0']").count() == 1  # one stop
    buttons.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.triple") == "2"
    for view in (first, second):
        chosen = view.locator("[data-triple][aria-pressed=true]")
        assert chosen.get_attribute("data-triple") == "2"
        role = view.locator(".says").get_attribute("role")
        assert role == "status"
        assert [view.locator(f".phrases mark.{one}").inner_text() for one in "ht"] == [
            HOSTILE[2],
            HOSTILE[4],
        ]
    page.keyboard.press("End")
    assert second.locator("[aria-pressed=true]").get_attribute("data-triple") == str(
        buttons.count() - 1
    )
    first.locator(".toggle").click()
    rows = first.locator(".numbers tbody tr")
    assert rows.count() == len(tables["relation_lines"])
    assert rows.first.locator("th, td").all_inner_texts() == [
        "1",
        "head",
        "tail",
        "0.02",
        "0.31",
        "L1H2",
    ]
    assert not wrong


def test_a_triple_and_the_words_of_its_text_are_one_selection(tmp_path: Path, browser: Any) -> None:
    """The text counts [CLS] as a word, the triples do not: characters join them."""
    string = "Anna Berg met Carlos. Eva sang."
    found = ({"h": (0, 9), "t": (14, 20)}, {"h": (22, 25), "t": (26, 30)})
    triples = TripleTexts(
        (TripleText("x", string, tuple(Shown(one, "met", 0.9, "found") for one in found)),)
    )
    pieces = ["[CLS]", "Anna", "Berg", "met", "Carlos", ".", "Eva", "sang", "."]
    starts = [-1, *(string.index(one) for one in pieces[1:-1]), len(string) - 1]
    stops = [-1, *(start + len(one) for start, one in zip(starts[1:], pieces[1:], strict=True))]
    tokens = pd.DataFrame({"text": "x", "start": starts, "stop": stops, "string": pieces})
    scores = {"gradient": np.linspace(-1, 1, len(pieces))}
    text = TintedText("x", score_overlay(string, tokens, scores, {"gradient": True}))
    page, wrong = open_page(browser, view_page([triples, text], tmp_path / "page.html"))
    chosen = page.locator("w[aria-selected=true]")
    page.locator("[data-triple]").nth(1).click()
    assert chosen.all_inner_texts() == ["Eva", "sang"]
    page.locator("[data-triple]").nth(0).click()
    assert chosen.all_inner_texts() == ["Anna", "Berg", "Carlos"]
    page.locator("w", has_text="Eva").click()
    assert page.locator("[data-triple][aria-pressed=true]").get_attribute("data-triple") == "1"
    page.locator("w", has_text="met").click()  # of no triple: the last one stays
    assert page.locator("[data-triple][aria-pressed=true]").get_attribute("data-triple") == "1"
    assert chosen.all_inner_texts() == ["met"]
    assert wrong == []
    page.context.close()


def test_the_report_is_drawn_in_a_browser(study: Study, tmp_path: Path, browser: Any) -> None:
    for scheme, width in (("light", 1280), ("dark", 420)):
        page, wrong = open_page(
            browser,
            study.report(tmp_path / "report.html"),
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
        )
        draw_all(page)
        assert page.locator("section .chart svg.marks").count() == 8
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        string = drawn_texts()["relation_texts"]["string"][0]
        assert page.locator(".phrases p").evaluate("node => node.textContent") == string
        assert page.locator(".phrases svg path").count() == 2  # head and tail: no words
        assert page.locator(".phrases mark.h").inner_text() == HOSTILE[0]
        page.locator("[data-triple='1']").click()
        assert page.locator(".phrases svg path").count() == 6
        assert [page.locator(f".phrases mark.{role}").inner_text() for role in "hrt"] == list(
            HOSTILE[1:4]
        )
        assert "Attention by L1H2: head → tail 0.31" in page.locator(".says").inner_text()
        page.select_option("#relation_texts [data-choose=lines]", "mean")
        assert "mean of all heads: head → tail 0.02" in page.locator(".says").inner_text()
        page.locator("[data-triple]").last.click()  # one that was missed
        assert page.locator(".phrases svg path").count() == 0
        leaves = page.locator("#relations_tree .chart").first.locator(
            "svg .mark-text.role-mark text"
        )
        assert sorted(leaves.evaluate_all("all => all.map(node => node.textContent)")) == sorted(
            name if number != 2 else IDS[2] for number, name in enumerate(HOSTILE)
        )
        choose = partial(page.select_option, "#relations_tree select", "ward")
        redrawn(page, "#relations_tree svg.marks", choose)
        assert leaves.count() == len(HOSTILE)
        assert wrong == []
        page.context.close()


@pytest.mark.parametrize("kind", ["svg", pytest.param("pdf", marks=pytest.mark.slow)])
def test_every_chart_is_exported(study: Study, tmp_path: Path, kind: str) -> None:
    paths = write_charts(study, tmp_path, kind)
    signature = {"svg": b"<svg", "pdf": b"%PDF"}[kind]
    assert len({*paths}) == len(paths) == n_pictures(study)
    assert all(path.read_bytes().startswith(signature) for path in paths)


# the tree


def joins_of(known: dict[str, Any]) -> set[tuple[Any, Any]]:
    """The joins of scipy's picture: the heights of both sides, and their distances.

    Leaf n is at 10 n + 5.
    """
    out = set()
    for row, far in zip(known["icoord"], known["dcoord"], strict=True):
        sides = tuple((place - 5) / 10 for place in (row[0], row[3]))
        out.add((sides, tuple(np.round([far[0], far[1], far[3]], 6))))
    return out


@given(st.integers(2, 14), st.integers(0, 1000))
@settings(max_examples=40)
def test_a_tree_is_laid_out_as_scipy_does(count: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, 4))
    frame = tree_of(vectors, [f"r{number}" for number in range(count)])
    for how, made in (
        ("cosine", linkage(vectors, "average", "cosine")),
        ("ward", linkage(vectors, "ward")),
    ):
        leaves, joins = tree(frame[frame["linkage"] == how])
        known = scipy_dendrogram(made, no_plot=True)
        assert leaves == [f"r{leaf}" for leaf in known["leaves"]]
        found = {
            (join.heights, tuple(np.round([join.children[0], join.distance, join.children[1]], 6)))
            for join in joins
        }
        assert found == joins_of(known)
        assert len(joins) == count - 1
        assert joins[-1].size == count


def test_a_tree_of_three_by_hand() -> None:
    frame = pd.DataFrame(
        {
            "node": [3, 4],
            "left": [0, 1],
            "right": [2, 3],
            "left_name": ["a", "b"],
            "right_name": ["c", ""],
            "distance": [0.25, 1.0],
            "size": [2, 3],
        }
    )
    leaves, (first, last) = tree(frame)
    assert leaves == ["b", "a", "c"]
    assert (first.heights, first.children, first.distance) == ((1.0, 2.0), (0.0, 0.0), 0.25)
    assert (last.heights, last.children, last.distance) == ((0.0, 1.5), (0.0, 0.25), 1.0)
    assert last.among == "b | a, c"


def test_a_large_tree_names_all_its_leaves(tmp_path: Path) -> None:
    names = [f"relation {number} of a name that is rather long" for number in range(95)]
    frame = tree_of(np.random.default_rng(0).normal(size=(95, 20)), names)
    spec = json.dumps(dendrogram(frame).to_dict())
    assert all(name in spec for name in names)
    svg = charts.export(dendrogram(frame), tmp_path / "tree.svg").read_text()
    spelt = re.findall(r">(relation \d+ of a name that is rather long)</text>", svg)
    leaves, joins = tree(frame[frame["linkage"] == "cosine"])
    assert sorted(spelt) == sorted(leaves) == sorted(names)
    assert len(joins) == 94


# texts and graphs


def text_with(*triples: tuple[str, str, str], status: str = "found") -> TripleText:
    """A text of the phrases of triples."""
    string, shown = "", []
    for head, relation, tail in triples:
        start = len(string)
        string += f"{head} {tail} "
        shown.append(
            Shown(
                {
                    "h": (start, start + len(head)),
                    "t": (start + len(head) + 1, start + len(head) + 1 + len(tail)),
                },
                relation,
                0.9,
                status,
            )
        )
    return TripleText("t", string, tuple(shown))


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.sampled_from(["born in", "a rather long relation"]),
            st.sampled_from("abcdef"),
        ),
        min_size=1,
        max_size=10,
    )
)
@settings(max_examples=60)
def test_a_graph_has_a_node_for_each_phrase_and_an_edge_for_each_triple(
    triples: list[tuple[str, str, str]],
) -> None:
    one = text_with(*triples)
    drawn = graph(one)
    assert set(drawn.nodes) == {name for head, _, tail in triples for name in (head, tail)}
    assert [(head, box.label, tail) for box, head, tail, _ in drawn.edges] == triples
    boxes = [*drawn.nodes.values(), *(box for box, *_ in drawn.edges)]
    for number, left in enumerate(boxes):
        assert left.x - left.width / 2 >= 0
        assert left.x + left.width / 2 <= drawn.width
        assert 12 <= left.y <= drawn.height - 12
        for right in boxes[:number]:
            assert (
                abs(left.x - right.x) >= (left.width + right.width) / 2
                or abs(left.y - right.y) >= 24
            )
    assert graph(one) == drawn


def test_the_same_phrase_is_one_node_wherever_it_stands() -> None:
    drawn = graph(
        text_with(
            ("Ann Lee", "mother", "Tom"), ("Tom", "friend", "Eve"), ("Ann Lee", "aunt", "Eve")
        )
    )
    assert list(drawn.nodes) == ["Ann Lee", "Tom", "Eve"]
    assert drawn.nodes["Ann Lee"].x < drawn.nodes["Tom"].x
    spaced = TripleText(
        "t",
        "Ann  Lee met Tom, and Ann Lee left Eve",
        (
            Shown({"h": (0, 8), "t": (13, 16)}, "x", 1, "right"),
            Shown({"h": (22, 29), "t": (35, 38)}, "y", 1, "right"),
        ),
    )
    assert list(graph(spaced).nodes) == ["Ann Lee", "Tom", "Eve"]


def test_pictures_of_texts_are_sound_xml_with_every_phrase() -> None:
    (one,) = texts_of(*drawn_texts().values())
    assert [shown.status for shown in one.triples] == [
        "right",
        "found",
        "right",
        "found",
        "right",
        "missed",
    ]
    for svg in (graph_svg(one), text_picture(one)):
        root = ElementTree.fromstring(svg)
        spelt = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {*HOSTILE} <= {*spelt}
        assert {node.tag.rpartition("}")[2] for node in root.iter()} <= {
            "svg",
            "g",
            "rect",
            "text",
            "title",
            "path",
            "polygon",
            "style",
        }
        edges = [
            node
            for node in root.iter("{http://www.w3.org/2000/svg}g")
            if (node.get("class") or "").startswith("edge")
        ]
        assert [node.get("class") for node in edges] == [
            f"edge {shown.status}" for shown in one.triples
        ]
    odd = TripleText(
        "a\x0bb",
        "one\x0btwo\nthree " + "w" * 300,
        (Shown({"h": (0, 3), "t": (4, 310)}, "\x00", 1, "right"),),
    )
    ElementTree.fromstring(text_picture(odd))
    ElementTree.fromstring(text_picture(TripleText("t", "nothing here", ())))


def test_marks_cover_the_phrases_also_where_they_overlap() -> None:
    one = TripleText(
        "t",
        "Paris, France & Rome",
        (
            Shown({"h": (0, 13), "t": (16, 20)}, "x", 1, "right"),
            Shown({"h": (7, 13), "t": (16, 20), "r": (0, 5)}, "y", 1, "missed"),
        ),
    )
    html = text_html(one)
    marks = re.findall(r'<mark class="(\w*)">([^<]*)</mark>', html)
    assert marks == [("h", "Paris"), ("h", ", "), ("h", "France"), ("t", "Rome")]
    assert [triple["marks"] for triple in one.data] == [
        {"h": [0, 1, 2], "t": [3]},
        {"h": [2], "t": [3], "r": [0]},
    ]
    shown = re.search(r'<p dir="auto">(.*?)</p>', html)
    assert shown is not None
    assert re.sub("<[^>]*>", "", shown.group(1)) == "Paris, France &amp; Rome"
    assert one.summary == "1 triple, 1 of them in the data, 1 missed"
    rows = html.partition("</table>")[0].split("<tr>")[1:]
    assert [re.sub("<[^>]*>", "", row) for row in rows] == [
        "triplerelationprobability",
        "Paris, France Romex1.00also in the data",
        "France Paris Romey1.00in the data, missed",
    ]


# a page of one text


@pytest.fixture(scope="module")
def extractor() -> RelationExtractor:
    """An extractor of a model that knows nothing."""
    rows = [
        {
            "text": f"{head} {words} {tail} then.",
            "triples": [{"head": head, "tail": tail, "relation": name, "relation_words": words}],
        }
        for head in ("Ann", "Ben", "Eve")
        for tail in ("Tom", "Kim", "Sam")
        for words, name in (("taught", "teacher"), ("hired", "boss"))
    ]
    return RelationExtractor(tiny("bert"), negatives=1, grid=(1.0,), workers=1, progress=False).fit(
        rows, rows[:6]
    )


def test_the_page_of_a_document(extractor: RelationExtractor, tmp_path: Path, browser: Any) -> None:
    text = (
        "Ann taught <b>Tom</b> & Kim. "
        + "Nothing happened for a very long time. " * 20
        + "Eve hired Sam."
    )
    late = text.rindex("Eve")
    found = [
        ExtractedTriple(
            (late, late + 3), (late + 10, late + 13), (late + 4, late + 9), "boss", 0.9, 0.9
        ),
        ExtractedTriple((0, 3), (14, 17), (4, 10), "teacher", 0.8, 0.8),
    ]
    path = write_text_page(
        extractor, text, found, {"boss": "<u>is boss of</u>"}, tmp_path / "page.html"
    )
    page, wrong = open_page(browser, path)
    assert page.locator(".phrases p").evaluate("node => node.textContent") == text
    assert [page.locator(f".phrases mark.{role}").inner_text() for role in "hrt"] == [
        "Eve",
        "hired",
        "Sam",
    ]
    assert page.locator(".phrases svg path").count() == 6
    page.locator("[data-triple='1']").click()
    assert [page.locator(f".phrases mark.{role}").inner_text() for role in "hrt"] == [
        "Ann",
        "taught",
        "Tom",
    ]
    assert page.locator(".phrases svg path").count() == 6
    assert "<u>is boss of</u>" in page.locator(".side").inner_text()
    assert page.locator("svg.triples .node").count() == 4
    assert page.locator("svg.triples .edge").count() == 2
    assert "in the data" not in page.locator("body").inner_text()
    assert wrong == []
    page.context.close()


def test_lines_of_a_document_are_those_of_its_sentences(extractor: RelationExtractor) -> None:
    """The extractor reads sentence by sentence; so do the lines, wherever the sentence stands."""
    alone, before = "Eve hired Sam.", "Ann taught Tom. "
    spans = (0, 3), (10, 13), (4, 9)
    tables = []
    for text, shift in ((alone, 0), (before + alone, len(before))):
        head, tail, words = ((start + shift, stop + shift) for start, stop in spans)
        tables.append(
            by_sentence(extractor, text, [ExtractedTriple(head, tail, words, "boss", 0.9, 0.9)], {})
        )
    one, other = (each["relation_lines"] for each in tables)
    np.testing.assert_allclose(one["weight"], other["weight"], rtol=1e-5)
    assert (other["from_start"] - one["from_start"]).unique().tolist() == [len(before)]
    assert tables[1]["relation_triples"]["words_start"].tolist() == [4 + len(before)]


def test_a_page_without_triples(extractor: RelationExtractor, tmp_path: Path, browser: Any) -> None:
    page, wrong = open_page(
        browser, write_text_page(extractor, "Nothing. <i>", [], {}, tmp_path / "page.html")
    )
    assert page.locator(".phrases p").inner_text() == "Nothing. <i>"
    assert "No triples above the threshold" in page.locator("body").inner_text()
    assert wrong == []
    page.context.close()
