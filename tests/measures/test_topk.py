"""Lists of the most attended tokens, against loops and every draw."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.core.states import Tally
from attlas.core.text import Text
from attlas.measures.topk import TopK, type_of
from attlas.support.errors import MeasureError
from attlas.testing import check_measure, fold, stream, tiny
from tests.builders.long_texts import (
    HEADS,
    TEXTS,
    Seen,
    counts,
    even,
    reference_texts,
    result,
    topk_twin,
    type_string,
)


def assert_topk(
    table: pd.DataFrame, texts: Sequence[Seen], k: int, shown: int, layers: Any, heads: Any
) -> None:
    assert table["text"].unique().tolist() == [text.id for text in texts if any(text.keep)]
    for text in texts:
        own = table[table["text"] == text.id]
        expected = topk_twin(text, k, shown, layers, heads)
        groups = dict(iter(own.groupby(["direction", "by", "layers"], sort=False)))
        assert sorted(groups) == sorted(key for key, rows in expected.items() if rows)
        for key, rows in expected.items():
            if not rows:
                continue
            group = groups[key]
            assert (
                list(zip(group["string"], group["token"], group["count"], strict=True)) == rows
            ), (text.id, key)
            assert group["rank"].tolist() == list(range(len(rows)))
            assert set(group["tokens"]) == {len(text.tokens)}
            other = {"attended": "attending", "attending": "attended"}[key[0]]
            theirs = {row[:2] for row in expected[other, *key[1:]]}
            assert group["both"].tolist() == [row[:2] in theirs for row in rows]


@pytest.mark.parametrize("family", ["bert", "longformer", "gpt2"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 1, "shown": 3},
        {"k": 2, "shown": 100, "keep": "all"},
        {"k": 3, "layers": (2, 0), "heads": (3,), "keep": "ordinary"},
        {"k": 2, "heads": (1, 0, 1), "layers": (1,), "keep": "words", "shown": 4},
    ],
)
def test_topk_is_its_twin(family: str, options: dict[str, Any]) -> None:
    model = tiny(family)
    measure = TopK(**options)
    batches = stream(model, TEXTS)
    texts = reference_texts(model, batches, str(options.get("keep", "keywords")))
    layers = sorted(options.get("layers", range(3)))
    heads = sorted(set(options.get("heads", range(HEADS))))
    if family == "longformer" and measure.layers == (2, 0):
        check_measure(measure, batches, model)
    found = measure.result(fold(measure, batches, model))
    assert_topk(found["topk"], texts, measure.k, measure.shown, layers, heads)

    total: dict[Any, Counter[str]] = {}
    for text in texts:
        for direction in ("attended", "attending"):
            for name, chosen in [("all", layers), *((f"L{layer}", [layer]) for layer in layers)]:
                group = total.setdefault((direction, name), Counter())
                group.update(counts(text, direction, "type", chosen, heads, measure.k))
    kept = [
        [
            type_string(token)
            for token, is_kept in zip(text.tokens, text.keep, strict=True)
            if is_kept
        ]
        for text in texts
    ]
    table = found["topk_types"]
    assert table.groupby(["direction", "layers"], sort=False).ngroups == len(total)
    for (direction, name), group in table.groupby(["direction", "layers"]):
        expected = total[direction, name]
        order = sorted(expected, key=lambda one: (-expected[one], one))[:100]
        assert group["string"].tolist() == order
        assert group["count"].tolist() == [expected[string] for string in order]
        assert group["rank"].tolist() == list(range(len(order)))
        assert group["occurrences"].tolist() == [
            sum(text.count(string) for text in kept) for string in order
        ]
        assert group["texts"].tolist() == [sum(string in text for text in kept) for string in order]


def test_topk_of_several_global_tokens_and_a_batch_is_its_twin() -> None:
    base = tiny("longformer")
    model = attlas.load((base.network, base.tokenizer), global_tokens=(0, 4, 9))
    texts = [TEXTS[0], TEXTS[0].replace("cat", "dog"), TEXTS[0].replace("mat", "film")]
    encoded = model.encode([(place, Text(str(place), text)) for place, text in enumerate(texts)])
    (batch,) = model.batches(encoded)
    layers: list[Any] = []
    model.forward(batch, layers.append)
    measure = TopK(k=3, shown=6)
    found = measure.result(fold(measure, [layers], model))
    assert_topk(found["topk"], reference_texts(model, [layers]), 3, 6, range(3), range(HEADS))


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_among_equals_the_lowest_position_is_first(family: str) -> None:
    model = even(tiny(family))
    batches = stream(model, [TEXTS[2]])
    (text,) = reference_texts(model, batches)
    measure = TopK(k=2, shown=100)
    table = measure.result(fold(measure, batches, model))["topk"]
    assert_topk(table, [text], 2, 100, range(3), range(HEADS))
    if family == "bert":  # every list of every head is the same: the first two that are kept
        kept = [place for place, is_kept in enumerate(text.keep) if is_kept][:2]
        chosen = table[(table["by"] == "position") & (table["layers"] == "all")]
        assert chosen["token"].tolist() == kept * 2
        assert set(chosen["count"]) == {len(text.tokens)}
        assert chosen["both"].all()


def candidates(text: Seen, layer: int, direction: str, token: int) -> list[int]:
    visible, n = text.visible[layer], len(text.tokens)
    return [
        other
        for other in range(n)
        if text.keep[other]
        and (visible[token][other] if direction == "attended" else visible[other][token])
    ]


def exact_chance(
    text: Seen, direction: str, layers: Sequence[int], heads: int, k: int
) -> tuple[dict[str, Fraction], dict[int, Fraction]]:
    """The mean count over every way in which all heads can draw the lists of each token: by type,
    by position."""
    types: dict[str, Fraction] = {}
    positions: dict[int, Fraction] = {}
    for token in range(len(text.tokens)):
        draws = []
        for layer in layers:
            able = candidates(text, layer, direction, token)
            draws += [list(itertools.combinations(able, min(k, len(able))))] * heads
        ways = math.prod(map(len, draws))
        for way in itertools.product(*draws):
            members = set().union(*way)
            for position in members:
                positions[position] = positions.get(position, Fraction(0)) + Fraction(1, ways)
            for string in {type_string(text.tokens[position]) for position in members}:
                types[string] = types.get(string, Fraction(0)) + Fraction(1, ways)
    return types, positions


@pytest.mark.parametrize("family", ["bert", "longformer", "gpt2"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"k": 1, "layers": (0,), "heads": (0,)}, "a cat saw a dog , cat on mat"),
        ({"k": 2, "layers": (0,), "heads": (0, 2)}, "cat dog saw cat"),
        ({"k": 2, "layers": (0, 1), "heads": (1,)}, "a cat saw a dog , cat on mat dog"),
        ({"k": 10, "layers": (2,), "heads": (1, 3)}, "cat dog saw a cat"),
    ],
)
def test_chance_is_the_mean_over_every_draw(
    family: str, options: dict[str, Any], text: str
) -> None:
    model = tiny(family)
    batches = stream(model, [text])
    (plain,) = reference_texts(model, batches)
    measure = TopK(shown=100, **options)
    found = measure.result(fold(measure, batches, model))
    table, layers = found["topk"], options["layers"]
    for name, chosen in [("all", layers), *((f"L{layer}", (layer,)) for layer in layers)]:
        for direction in ("attended", "attending"):
            types, positions = exact_chance(
                plain, direction, chosen, len(options["heads"]), options["k"]
            )
            own = table[(table["direction"] == direction) & (table["layers"] == name)]
            by_type, by_position = own[own["by"] == "type"], own[own["by"] == "position"]
            assert len(by_type) > 1
            np.testing.assert_allclose(
                by_type["chance"], [float(types[one]) for one in by_type["string"]], rtol=1e-12
            )
            np.testing.assert_allclose(
                by_position["chance"],
                [float(positions[one]) for one in by_position["token"]],
                rtol=1e-12,
            )
            corpus = found["topk_types"]
            corpus = corpus[(corpus["direction"] == direction) & (corpus["layers"] == name)]
            if name == "all":
                np.testing.assert_allclose(
                    corpus["chance"], [float(types[one]) for one in corpus["string"]], rtol=1e-12
                )


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_chance_is_what_random_lists_give(family: str) -> None:
    model, k, rounds = tiny(family), 2, 300
    batches = stream(model, [TEXTS[2]])
    (text,) = reference_texts(model, batches)
    measure = TopK(k=k, shown=100)
    table = measure.result(fold(measure, batches, model))["topk"]
    draw = random.Random(0)
    for direction in ("attended", "attending"):
        able = [
            [candidates(text, layer, direction, token) for token in range(len(text.tokens))]
            for layer in range(3)
        ]
        each: dict[Any, list[int]] = {}
        for number in range(rounds):
            for token in range(len(text.tokens)):
                members: set[int] = set()
                for layer in range(3):
                    some = able[layer][token]
                    for _ in range(HEADS):
                        members.update(draw.sample(some, min(k, len(some))))
                for member in {
                    *members,
                    *(type_string(text.tokens[position]) for position in members),
                }:
                    each.setdefault(member, [0] * rounds)[number] += 1
        own = table[(table["direction"] == direction) & (table["layers"] == "all")]
        assert len(own) > 10
        for row in own.itertuples():
            values = np.array(each[row.token if row.by == "position" else row.string])
            assert (
                abs(values.mean() - row.chance) <= 4.5 * values.std() / math.sqrt(rounds) + 1e-9
            ), row


def test_lists_of_one_member_count_every_token_once() -> None:
    model = tiny("longformer")
    table = result(TopK(k=1, shown=1000, layers=(1,), heads=(2,), keep="all"), model, [TEXTS[2]])[
        "topk"
    ]
    for direction in ("attended", "attending"):
        own = table[
            (table["direction"] == direction)
            & (table["by"] == "position")
            & (table["layers"] == "all")
        ]
        assert own["count"].sum() == own["tokens"].iloc[0]


def test_texts_with_nothing_to_keep_are_not_listed(tmp_path: Path) -> None:
    model = tiny("bert")
    found = result(TopK(), model, ["a the of", "the cat", "it was"])
    assert set(found["topk"]["text"]) == {"1"}
    assert set(found["topk_types"]["string"]) == {"cat"}
    study = attlas.study(model, ["a the of", "it was"], ["topk"], tmp_path)
    assert not study.has("topk")  # which has rows of texts alone
    assert len(study.table("topk_types")) == 0


def test_a_type_is_the_tokenizers_own_string(minilm: attlas.Model) -> None:
    assert type_of("##ions", "ions") == "ions"
    assert type_of("Ġimage", "image") == "image"
    assert type_of("▁Bild", "Bild") == "Bild"
    assert type_of("âĢĿ", "”") == "”"
    table = result(TopK(), minilm, ["Café culture loves a café and the Cafe"])["topk_types"]
    chosen = table[(table["direction"] == "attended") & (table["layers"] == "all")]
    assert dict(zip(chosen["string"], chosen["occurrences"], strict=True)) == {
        "cafe": 3,
        "culture": 1,
        "loves": 1,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"shown": 0}, "shown is 0"),
        ({"keep": "some"}, "there is no kind of tokens"),
        ({"layers": ()}, "layers is"),
        ({"heads": (-1,)}, "heads is"),
        ({"layers": (3,)}, "there is no layer 3; the model has layers 0 to 2"),
        ({"heads": (0, 4)}, "there is no head 4; the model has heads 0 to 3"),
    ],
)
def test_topk_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MeasureError, match=message):
        TopK(**options).start(tiny("bert"))


def test_a_tally_adds_up_by_string() -> None:
    one, other = Tally(2), Tally(2)
    values = np.array([[1, 2], [3, 4]])
    one.add(["b", "a"], values)
    one.add(["b"], values[1:])
    other.add(['ü"\n', "a"], values * 10)
    values[:] = -1  # what was given may be used again
    assert Tally(2).merge(Tally(2)).table()[1].shape == (0, 2)
    for both in (
        one.merge(other),
        Tally(2).merge(one).merge(other),
        one.merge(other).merge(Tally(2)),
    ):
        strings, totals = both.table()
        assert strings == ["a", "b", 'ü"\n']
        assert totals.tolist() == [[33, 44], [4, 6], [10, 20]]
        again = Tally(2).restored(both.arrays())
        again.add(["a"], np.array([[1, 1]]))
        assert again.table()[1].tolist() == [[34, 45], [4, 6], [10, 20]]
        assert both.table()[1].tolist() == [[33, 44], [4, 6], [10, 20]]
    assert one.table()[1].tolist() == [[3, 4], [4, 6]]
    empty = Tally(3).restored(Tally(3).arrays())
    assert empty.table()[0] == []
