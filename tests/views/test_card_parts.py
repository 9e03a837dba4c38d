"""The cards of all heads as data of a page: what is packed is what the study has."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from attlas import catalogue
from attlas.studies.opened import Study
from attlas.testing.sections import Frames
from attlas.views.card_parts import HeadCards, exact
from attlas.views.card_pictures import multiples_html
from attlas.views.cards import written
from attlas.views.head_profiles import HeadProfile, head_values, pooled
from attlas.views.head_rows import HeadRow
from tests.builders.studies import OLD, measured

SECTIONS = catalogue.sections()
FLOATS = st.floats(-1e6, 1e6)


def part(study: Any = None) -> HeadCards:
    found = HeadCards.of(measured() if study is None else study, SECTIONS)
    assert found is not None
    return found


def unpacked(text: str, kind: type[np.generic] = np.uint8) -> np.ndarray[Any, Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=kind)


def profile(**more: Any) -> HeadProfile:
    values = np.array([[[0.5, 0.1], [np.nan, 0.2]]])
    options: dict[str, Any] = {"values": values, "control": np.array([0.2, 0.2]), "kind": "above"}
    words: dict[str, Any] = {"title": "A <b>", "picture": "bars", "labels": ("x", "y"), "x": "z"}
    return HeadProfile(control_name="uniform attention", **{**options, **words, **more})


@given(FLOATS, FLOATS)
def test_short_numbers_are_written_as_the_whole_ones(value: float, control: float) -> None:
    short, other = exact(value), exact(control)
    assert short is not None
    assert other is not None
    for size in (max(abs(value), abs(control)), 0.001, 1.0):
        assert written(short, size) == written(value, size)
        assert written(other, size) == written(control, size)


def test_numbers_that_are_all_alike_are_one() -> None:
    """A page of 12 heads has each label once, and a control that they share once."""
    entries = part().content["rows"]
    named = [(one["section"], one["label"]) for one in entries if "divergence" not in one["label"]]
    assert len(set(named)) >= 25
    surface = next(one for one in entries if one["label"] == "[CLS]")
    assert isinstance(surface["control"], float)
    assert isinstance(surface["n"], int)
    assert len(surface["value"]) == 12 == len(surface["verdicts"])
    assert "heads" not in surface


def test_the_data_of_a_page_are_the_same_each_time_and_json() -> None:
    one = part()
    assert one.data == part().data
    content = unpacked(one.data["zlib"]).tobytes().decode()
    assert json.loads(content) == one.content
    assert len(one.data["zlib"]) < 25_000  # 12 heads


def test_there_are_no_cards_without_a_model() -> None:
    old = Study.open(OLD / "dynamics")
    assert HeadCards.of(Study(old.folder, {**old.manifest, "model": None}), SECTIONS) is None
    assert HeadCards.of(measured(), {}) is None


def test_heat_maps_are_those_of_the_table_with_no_code_at_or_below_uniform_attention() -> None:
    study = measured()
    found = next(one for one in part().content["profiles"] if one["picture"] == "tile")
    size = found["size"]
    codes = unpacked(found["codes"]).reshape(3, 4, size, size)
    table, uniform = study.table("heatmap"), study.table("heatmap_uniform")
    cells = sum(str(name)[1:].isdecimal() for name in table.columns)
    names = [f"c{cell}" for cell in range(cells)]
    step = cells // size
    for layer, head in product(range(3), range(4)):
        of_head = table[(table["layer"] == layer) & (table["head"] == head)].sort_values("row")
        own = of_head[names].to_numpy()
        even = uniform[uniform["layer"] == layer].sort_values("row")[names].to_numpy()
        excess = np.zeros((size, size))
        most = 0.0
        for query, key in product(range(size), range(size)):
            rows, keys = (slice(one * step, (one + 1) * step) for one in (query, key))
            value = own[rows, keys].sum(1).mean()
            control = even[rows, keys].sum(1).mean()
            excess[query, key], most = max(0.0, value - control), max(most, value)
        expected = np.rint(255 * np.sqrt(excess / excess.max()))
        assert np.abs(codes[layer, head] - expected).max() <= 1
        assert (codes[layer, head][excess == 0] == 0).all()
        assert found["most"][0][layer * 4 + head] == pytest.approx(most, rel=1e-3)


def test_pooled_cells_keep_the_mass_of_a_row() -> None:
    tiles = np.random.default_rng(0).dirichlet(np.ones(13), size=(2, 13))
    small = pooled(tiles, 5)
    assert small.shape == (2, 5, 5)
    np.testing.assert_allclose(small.sum(-1), 1)
    assert pooled(tiles, 13) is tiles


def test_lines_of_example_texts_are_the_largest_weights_above_uniform_attention() -> None:
    """Against loops over the table; the packed ones are the same to within a code."""
    study, data = measured(), part().content["examples"]
    keys, table = study.table("examples_keys"), study.table("examples")
    sizes = study.table("examples_tokens").groupby("place").size()
    at, line = 0, 0
    query, key, weight = (unpacked(data[name]) for name in ("query", "key", "weight"))
    for number, (layer, head) in enumerate(product(range(3), range(4))):
        assert data["per_head"][number] == 5
        own = table[(table["layer"] == layer) & (table["head"] == head)].sort_values("quantile")
        for row in own.to_dict("records"):
            tokens = sizes[row["place"]]
            some = keys[(keys["layer"] == layer) & (keys["head"] == head)]
            some = some[(some["place"] == row["place"]) & (some["weight"] > 1 / tokens)]
            pairs = sorted(
                zip(some["weight"], some["query"], some["key"], strict=True), reverse=True
            )
            wanted = {(one, other): own_weight for own_weight, one, other in pairs[: 2 * tokens]}
            count = data["lines"][at]
            assert count == len(wanted)
            shown = range(line, line + count)
            assert {(int(query[one]), int(key[one])) for one in shown} == set(wanted)
            for one in shown:
                expected = wanted[int(query[one]), int(key[one])]
                assert abs(weight[one] / 255 - expected) <= 0.5 / 255 + 1e-6
            assert data["texts"][data["text"][at]]["id"] == row["text"]
            assert len(data["texts"][data["text"][at]]["tokens"]) == tokens
            at, line = at + 1, line + count
    assert line == len(query)


def test_a_causal_model_has_the_uniform_attention_of_earlier_tokens() -> None:
    """The first token sees itself only, so that its weight of 1 is no more than uniform."""
    tables = Frames.of(measured())
    causal = tables.with_one_changed(
        "examples_keys", lambda frame: frame[frame["key"] <= frame["query"]].assign(weight=0.34)
    )
    lines = [
        line
        for some in SECTIONS["examples"].examples(causal).values()
        for one in some
        for line in one.lines
    ]
    assert lines
    assert min(query for query, _, _ in lines) == 2  # uniform attention over three tokens is 0.33
    square = tables.with_one_changed("examples_keys", lambda frame: frame.assign(weight=0.34))
    every = [one for some in SECTIONS["examples"].examples(square).values() for one in some]
    assert min(query for one in every for query, _, _ in one.lines) == 0


def test_tokens_that_follow_without_a_space_are_joined() -> None:
    texts = part().content["examples"]["texts"]
    by_id = {one["id"]: one for one in texts}
    for row in measured().table("texts").to_dict("records"):
        text = by_id[row["text"]]
        words = [
            ("" if at in text["joined"] else " ") + token
            for at, token in enumerate(text["tokens"])
            if at not in text["special"]
        ]
        assert "".join(words).strip() == row["content"]


def test_probe_rows_are_the_relations_furthest_above_the_best_offset() -> None:
    """Every head has at most three, none of them claimed; against loops over the tables."""
    study = Study.open(OLD / "syntax")
    rows = SECTIONS["syntax"].head_rows(study)
    heads, offsets = study.table("syntax_heads"), study.table("syntax_offsets")
    chosen = {tuple(row) for row in study.table("syntax")[["layer", "head", "relation"]].to_numpy()}
    best = {name: max(some["accuracy"]) for name, some in offsets.groupby("relation")}
    expected: dict[tuple[int, int], list[float]] = {}
    for row in heads.dropna(subset=["accuracy"]).to_dict("records"):
        if row["n"] < 10 or row["relation"] not in best:
            continue
        above = row["accuracy"] - best[row["relation"]]
        if above > 0 and (row["layer"], row["head"], row["relation"]) not in chosen:
            expected.setdefault((row["layer"], row["head"]), []).append(above)
    assert set(rows) == set(expected)
    for head, some in rows.items():
        own = [one.value - (one.control or 0) for one in some]
        assert own == pytest.approx(sorted(expected[head], reverse=True)[:3])
        assert all(one.verdict is None and one.control_name for one in some)


def test_profiles_take_the_rows_of_the_model_only() -> None:
    frame = pd.DataFrame({"layer": [0, 1, 5], "head": [0, 1, 0], "a": [0.1, 0.2, 9.0]})
    values = head_values(frame, ["a", "none"], 2, 2)
    assert values[0, 0, 0] == 0.1
    assert values[1, 1, 0] == 0.2
    assert np.isnan(values).sum() == 6


def test_pictures_of_a_notebook_are_drawn_for_every_kind_and_escaped() -> None:
    tile = np.random.default_rng(1).random((1, 2, 3, 3))
    every = [
        profile(),
        profile(picture="line"),
        profile(picture="rows"),
        profile(picture="tile", values=tile, control=np.full((3, 3), 1 / 3), labels=()),
        profile(picture="ranks", values=np.array([[0.1, -0.2]]), control=np.array(0.0), labels=()),
    ]
    page = multiples_html(every, (0, 0))
    assert page.count("<svg") == 5
    assert "A &lt;b&gt;" in page
    assert "<b>A <b>" not in page
    assert "nan" not in page
    assert page.count('fill="#c2410c"') == 2  # the bar of this head and its mark
    assert multiples_html([], (0, 0)) == ""


def test_a_bar_on_the_wrong_side_of_its_control_is_pale() -> None:
    above, below = (multiples_html([profile(kind=kind)], (0, 0)) for kind in ("above", "below"))
    assert (above.count("#2068ab"), above.count("#c5cad1")) == (1, 1)  # 0.5 and 0.1 against 0.2
    assert (below.count("#2068ab"), below.count("#c5cad1")) == (1, 1)
    assert above != below


def test_a_head_without_numbers_has_no_picture() -> None:
    one = replace(profile(), values=np.array([[[np.nan, np.nan], [0.1, 0.2]]]))
    assert not one.knows(0, 0)
    assert one.knows(0, 1)
    assert one.is_known


def test_the_nearest_heads_are_named_and_nearest_first() -> None:
    for rows in SECTIONS["head_distance"].head_rows(measured()).values():
        near: list[HeadRow] = list(rows)
        assert [one.value for one in near] == sorted(one.value for one in near)
        assert len({one.other for one in near}) == len(near) == 3
        assert all(one.label.endswith(one.other) for one in near)
