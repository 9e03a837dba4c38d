"""Measures for long texts against slow twins: top lists and their chance, heat maps, position
bias, importance of heads."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import attlas
from attlas.catalogue import MEASURES
from attlas.core.batch import Batch
from attlas.core.importance import importance_of, scaled
from attlas.core.masks import Keep
from attlas.core.states import Tally
from attlas.core.text import Text
from attlas.measures.heatmap import Heatmap
from attlas.measures.importance import Importance
from attlas.measures.position_bias import PositionBias
from attlas.measures.topk import TopK, type_of
from attlas.models import Model
from attlas.models.differentiate import differentiate
from attlas.support.errors import MeasureError, ModelError
from attlas.testing import assert_same, check_measure, fold, stream, tiny
from tests.builders.models import stirred

TEXTS = (
    "a cat sat on a mat , the cat saw a dog",
    "the dog",
    "it was not very good . the film , a bad film with a cat and a good dog on the mat",
    "a the of",  # nothing to keep
    "dogged dog saw 12 films , a dog",
    "the mat",
)
HEADS = 4


class Seen(NamedTuple):
    """One text, plain: weights [layer][head][query][key], what is visible [layer][query][key],
    tokens, what is special, what is kept."""

    id: str
    weights: list[Any]
    visible: list[Any]
    tokens: list[str]
    special: list[bool]
    keep: list[bool]


def sees(model: Model, layer: int, n: int, places: Iterable[int] = (0,)) -> list[list[bool]]:
    """Which key each query of a layer sees, from what the architecture says."""
    if not model.banded:
        causal = model.network.config.model_type == "gpt2"
        return [[key <= query or not causal for key in range(n)] for query in range(n)]
    reach = model.network.config.attention_window[layer] // 2
    places = set(places)
    return [
        [abs(key - query) <= reach or bool({key, query} & places) for key in range(n)]
        for query in range(n)
    ]


def plainly(model: Model, batches: Sequence[Sequence[Any]], keep: str = "keywords") -> list[Seen]:
    out = []
    for layers in batches:
        batch = layers[0].batch
        for text in range(batch.n_texts):
            n = batch.n_tokens
            places = (
                [0]
                if "global_attention_mask" not in batch.inputs
                else (batch.inputs["global_attention_mask"][text].nonzero()[:, 0].tolist())
            )
            out.append(
                Seen(
                    batch.texts[text].id,
                    [layer.dense().weights[text].tolist() for layer in layers],
                    [sees(model, layer.index, n, places) for layer in layers],
                    list(batch.tokens[text]),
                    batch.special[text].tolist(),
                    Keep.of(keep).mask(batch)[text].tolist(),
                )
            )
    return out


def even(model: Model) -> Model:
    """The same model with attention that is even: every score is 0."""
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            if ".query" in name:
                parameter.zero_()
    return model


def result(measure: Any, model: Model, texts: Iterable[str | Text]) -> dict[str, pd.DataFrame]:
    return measure.result(fold(measure, stream(model, texts), model))


# topk


def type_string(token: str) -> str:
    return token.removeprefix("##")


def lists(text: Seen, layer: int, head: int, direction: str, k: int) -> list[list[int]]:
    """For each token the positions on its list in one head."""
    weights, visible, n = text.weights[layer][head], text.visible[layer], len(text.tokens)
    out = []
    for token in range(n):
        cells = [
            (weights[token][other], other)
            if direction == "attended"
            else (weights[other][token], other)
            for other in range(n)
            if text.keep[other]
            and (visible[token][other] if direction == "attended" else visible[other][token])
        ]
        out.append([other for _, other in sorted(cells, key=lambda cell: (-cell[0], cell[1]))[:k]])
    return out


def counts(
    text: Seen, direction: str, by: str, layers: Sequence[int], heads: Sequence[int], k: int
) -> Counter[Any]:
    """Algorithms 1 to 3: a token's lists over heads and layers are one set; a member counts once
    for each such set."""
    found: Counter[Any] = Counter()
    all_lists = [lists(text, layer, head, direction, k) for layer in layers for head in heads]
    for token in range(len(text.tokens)):
        positions = {position for some in all_lists for position in some[token]}
        found.update(
            {type_string(text.tokens[position]) for position in positions}
            if by == "type"
            else positions
        )
    return found


def topk_twin(
    text: Seen, k: int, shown: int, layers: Sequence[int], heads: Sequence[int]
) -> dict[Any, list[Any]]:
    """(direction, by, layers) -> its rows: (string, token, count)."""
    out: dict[Any, list[Any]] = {}
    first = {
        type_string(token): place
        for place, token in reversed(list(enumerate(text.tokens)))
        if text.keep[place]
    }
    for direction in ("attended", "attending"):
        for by in ("type", "position"):
            for name, chosen in [("all", layers), *((f"L{layer}", [layer]) for layer in layers)]:
                found = counts(text, direction, by, chosen, heads, k)
                order = sorted(
                    found, key=lambda one: (-found[one], first[one] if by == "type" else one)
                )[:shown]
                out[direction, by, name] = [
                    (one, -1, found[one])
                    if by == "type"
                    else (type_string(text.tokens[one]), one, found[one])
                    for one in order
                ]
    return out


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
    texts = plainly(model, batches, str(options.get("keep", "keywords")))
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
    assert_topk(found["topk"], plainly(model, [layers]), 3, 6, range(3), range(HEADS))


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_among_equals_the_lowest_position_is_first(family: str) -> None:
    model = even(tiny(family))
    batches = stream(model, [TEXTS[2]])
    (text,) = plainly(model, batches)
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
    (plain,) = plainly(model, batches)
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
    (text,) = plainly(model, batches)
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


# heatmap


def grid_twin(head: np.ndarray, size: int, span: int | None = None) -> np.ndarray:
    """Every token cut in `size` slices, so that bins hold whole slices; a mean over a bin's
    queries, a sum over its keys; NaN where no token is."""
    n = len(head)
    held = n if span is None else span  # slices in a bin
    fine = np.repeat(np.repeat(head, size, 0), size, 1) / size
    out = np.full((size, size), np.nan)
    for row in range(size):
        for column in range(size):
            cells = fine[row * held : (row + 1) * held, column * held : (column + 1) * held]
            if cells.size:
                out[row, column] = cells.sum(1).mean()
    return out


def cells_of(table: pd.DataFrame, size: int) -> np.ndarray:
    return table[[f"c{number}" for number in range(size)]].to_numpy()


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize(
    ("size", "span"), [(4, None), (1, None), (7, None), (3, 9), (5, 14), (4, 40), (2, 2)]
)
def test_heatmap_is_its_twin(family: str, size: int, span: int | None) -> None:
    model = tiny(family)
    batches = stream(model, TEXTS)
    texts = plainly(model, batches)
    measure = Heatmap(size=size, span=span, examples=2)
    if span == 14:
        check_measure(measure, batches, model, 1e-6)
    found = measure.result(fold(measure, batches, model))
    grids = np.array(
        [
            [[grid_twin(np.array(head), size, span) for head in heads] for heads in text.weights]
            for text in texts
        ]
    )
    uniform = np.array(
        [
            [
                grid_twin(np.array(seen) / np.array(seen).sum(-1, keepdims=True), size, span)
                for seen in text.visible
            ]
            for text in texts
        ]
    )
    reached = np.isfinite(grids[:, 0, 0])  # text bin bin
    with np.errstate(invalid="ignore"):
        share = np.where(reached.any(0), reached.sum(0), np.nan)
    np.testing.assert_allclose(
        cells_of(found["heatmap"], size), (np.nansum(grids, 0) / share).reshape(-1, size), atol=2e-6
    )
    np.testing.assert_allclose(
        cells_of(found["heatmap_uniform"], size),
        (np.nansum(uniform, 0) / share).reshape(-1, size),
        atol=2e-6,
    )
    keys = found["heatmap"][["layer", "head", "row"]].to_numpy().tolist()
    assert keys == [list(key) for key in itertools.product(range(3), range(HEADS), range(size))]
    assert found["heatmap_uniform"][["layer", "row"]].to_numpy().tolist() == [
        list(key) for key in itertools.product(range(3), range(size))
    ]
    if span is None:
        for table in found.values():
            np.testing.assert_allclose(cells_of(table, size).sum(1), 1, atol=1e-5)
    else:
        assert bool(np.isnan(cells_of(found["heatmap"], size)).any()) == (not reached.any(0).all())
    examples = found["heatmap_texts"]
    assert list(examples["text"].unique()) == ["0", "1"]
    assert examples[["text", "layer", "head", "row"]].to_numpy().tolist() == [
        list(key) for key in itertools.product(["0", "1"], range(3), range(HEADS), range(size))
    ]
    np.testing.assert_allclose(
        cells_of(examples, size), np.nan_to_num(grids[:2]).reshape(-1, size), atol=2e-6
    )


def test_heatmap_of_several_global_tokens_is_its_twin() -> None:
    base = tiny("longformer")
    model = attlas.load((base.network, base.tokenizer), global_tokens=(2, 3, 11))
    batches = stream(model, [TEXTS[2], TEXTS[2].replace("cat", "dog")])
    texts = plainly(model, batches)
    found = result(Heatmap(size=5), model, [TEXTS[2], TEXTS[2].replace("cat", "dog")])
    grids = np.array(
        [
            [[grid_twin(np.array(head), 5) for head in heads] for heads in text.weights]
            for text in texts
        ]
    )
    np.testing.assert_allclose(
        cells_of(found["heatmap"], 5), grids.mean(0).reshape(-1, 5), atol=2e-6
    )


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_a_heatmap_of_even_attention_is_its_control(family: str) -> None:
    found = result(Heatmap(size=6), even(tiny(family)), TEXTS)
    heads = cells_of(found["heatmap"], 6).reshape(3, HEADS, 6, 6)
    np.testing.assert_allclose(
        heads,
        np.repeat(cells_of(found["heatmap_uniform"], 6).reshape(3, 1, 6, 6), HEADS, 1),
        atol=1e-6,
    )
    assert len(result(Heatmap(size=6, examples=0), tiny(family), TEXTS)["heatmap_texts"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0; it must be a whole number at least 1"),
        ({"size": 5, "span": 4}, "span is 4; it must be at least size, which is 5"),
        ({"examples": -1}, "examples is -1; it must be a whole number at least 0"),
    ],
)
def test_heatmaps_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MeasureError, match=message):
        Heatmap(**options)


# position_bias


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize(("span", "period"), [(8192, 5), (9, 4), (8192, 1), (6, 100), (8192, None)])
def test_position_bias_is_its_twin(family: str, span: int, period: int | None) -> None:
    model = tiny(family)
    batches = stream(model, TEXTS)
    texts = plainly(model, batches)
    measure = PositionBias(span=span, period=period)
    if span == 9:
        check_measure(measure, batches, model)
    found = measure.result(fold(measure, batches, model))
    cells = []  # layer head position received uniform
    for text in texts:
        for layer, heads in enumerate(text.weights):
            seen = np.array(text.visible[layer], dtype=float)
            control = (seen / seen.sum(1, keepdims=True)).sum(0)
            for head, weights in enumerate(heads):
                received = np.array(weights).sum(0)
                cells += [
                    (layer, head, place, received[place], control[place])
                    for place in range(min(span, len(text.tokens)))
                    if not text.special[place]
                ]
    frame = pd.DataFrame(cells, columns=["layer", "head", "position", "received", "uniform"])
    period = period or model.position_period
    assert list(found) == [
        "position_bias",
        *(["position_bias_period"] if period else []),
        "position_bias_heads",
    ]
    for name, number in (("position", None), ("residue", period)):
        if name == "residue" and not period:
            continue
        table = found["position_bias" if name == "position" else "position_bias_period"]
        frame[name] = frame["position"] if number is None else frame["position"] % number
        assert table[name].tolist() == sorted(frame[name].unique())
        assert table["tokens"].tolist() == (frame.groupby(name).size() // 12).tolist()
        means = frame.groupby(["layer", name])[["received", "uniform"]].mean()
        for layer in range(3):
            np.testing.assert_allclose(table[f"L{layer}"], means.loc[layer]["received"], rtol=1e-5)
        np.testing.assert_allclose(table["all"], means["received"].groupby(name).mean(), rtol=1e-5)
        np.testing.assert_allclose(
            table["uniform"], means["uniform"].groupby(name).mean(), rtol=1e-5
        )
    heads_table = found["position_bias_heads"]
    for row in heads_table.itertuples():
        own = frame[(frame["layer"] == row.layer) & (frame["head"] == row.head)]
        for column, chosen in (
            ("at_multiples", own[own["position"] % (period or 10**9) == 0]),
            ("elsewhere", own[own["position"] % (period or 10**9) != 0]),
        ):
            value = getattr(row, column)
            if period and len(chosen):
                assert value == pytest.approx(
                    chosen["received"].sum() / chosen["uniform"].sum(), rel=1e-5
                )
            else:
                assert np.isnan(value)


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_even_attention_has_no_position_bias(family: str) -> None:
    model = even(tiny(family))
    found = result(PositionBias(period=6), model, TEXTS)
    np.testing.assert_allclose(found["position_bias_heads"]["at_multiples"], 1, rtol=1e-5)
    np.testing.assert_allclose(found["position_bias_heads"]["elsewhere"], 1, rtol=1e-5)
    for name in ("position_bias", "position_bias_period"):
        np.testing.assert_allclose(found[name]["all"], found[name]["uniform"], rtol=1e-5)


def test_special_tokens_are_no_positions() -> None:
    table = result(PositionBias(), tiny("bert"), ["the cat [SEP] sat", "the dog"])["position_bias"]
    assert dict(zip(table["position"], table["tokens"], strict=True)) == {1: 2, 2: 2, 4: 1}


@pytest.mark.parametrize("options", [{"span": 0}, {"period": 0}, {"period": -3}])
def test_position_bias_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(MeasureError, match="it must be a whole number at least 1"):
        PositionBias(**options)


# importance


LABELLED = [
    Text("a", "it was a good film", label="LABEL_1"),
    Text("b", "it was a very bad film , not good", label="LABEL_0"),
    Text("c", "the dog was a good film", label="LABEL_0"),
    Text("d", "a cat sat on the mat and it was not bad", label="1"),
    Text("e", "the cat was a bad film"),  # its own answer
]


def own_labels(model: Model, texts: Sequence[Text]) -> list[int]:
    """The label of each text as a number; the model's own answer where there is none."""
    wanted = []
    for text in texts:
        ids, inputs = inputs_of(model, text)
        with torch.no_grad():
            answer = int(copy.deepcopy(model.network)(ids, **inputs).logits.argmax())
        wanted.append(answer if text.label is None else int(text.label[-1]))
    return wanted


def inputs_of(model: Model, text: Text) -> tuple[Tensor, dict[str, Tensor]]:
    batch = batch_of(model, text)
    return batch.ids, {
        name: value
        for name, value in batch.inputs.items()
        if name in ("token_type_ids", "global_attention_mask")
    }


def batch_of(model: Model, *texts: Text) -> Batch:
    encoder = model.full_encoder
    return encoder.batch(encoder.encode(list(enumerate(texts))), model.device)


def head_products(model: Model, text: Text, label: int, whole: bool = True) -> list[list[Tensor]]:
    """Gradient times parameter of one text by transformers' own code and `param.grad`:
    [layer][head], all its parameters in a row.

    The `whole` of them has Longformer's projections of global tokens too, which the published code
    leaves out.
    """
    network: Any = copy.deepcopy(model.network)
    ids, inputs = inputs_of(model, text)
    network.zero_grad()
    nn.functional.cross_entropy(network(ids, **inputs).logits, torch.tensor([label])).backward()
    out = []
    for layer in network.base_model.encoder.layer:
        heads = []
        for head in range(HEADS):
            rows = slice(head * 8, (head + 1) * 8)
            parts = []
            own = layer.attention.self
            names = ["query", "key", "value"]
            names += [
                f"{name}_global" for name in names if whole and hasattr(own, f"{name}_global")
            ]
            for projection in (getattr(own, name) for name in names):
                parts += [
                    (projection.weight.grad * projection.weight)[rows],
                    (projection.bias.grad * projection.bias)[rows],
                ]
            dense = layer.attention.output.dense
            parts.append((dense.weight.grad * dense.weight)[:, rows])
            heads.append(torch.cat([part.detach().flatten() for part in parts]))
        out.append(heads)
    return out


@pytest.fixture(scope="module", params=["bert", "roberta", "longformer"])
def classifier(request: pytest.FixtureRequest) -> Model:
    return stirred(tiny(request.param, "classify", seed=4))


def test_taylor_is_what_the_gradients_of_each_text_give(classifier: Model) -> None:
    products = [
        head_products(classifier, text, label)
        for text, label in zip(LABELLED, own_labels(classifier, LABELLED), strict=True)
    ]
    each = np.array(
        [[[float(head.square().sum()) for head in heads] for heads in text] for text in products]
    )
    found = result(Importance(), classifier, LABELLED)["importance"]
    assert "taylor_grad" not in found
    np.testing.assert_allclose(importance_of(found, "taylor"), each.mean(0), rtol=2e-3)
    np.testing.assert_allclose(
        importance_of(found, "taylor_error"), each.std(0, ddof=1) / math.sqrt(len(each)), rtol=5e-3
    )
    mean = each.mean(0)
    np.testing.assert_allclose(
        importance_of(found), (mean - mean.min()) / (mean.max() - mean.min()), atol=2e-3
    )
    assert found["importance"].min() == 0
    assert found["importance"].max() == 1

    published = [
        head_products(classifier, text, label, whole=False)
        for text, label in zip(LABELLED, own_labels(classifier, LABELLED), strict=True)
    ]
    summed = [
        [torch.stack([text[layer][head] for text in published]).mean(0) for head in range(HEADS)]
        for layer in range(3)
    ]
    expected = np.array([[float(head.square().sum()) for head in heads] for heads in summed])
    found = result(Importance(accumulate="grad"), classifier, LABELLED)["importance"]
    np.testing.assert_allclose(importance_of(found, "taylor_grad"), expected, rtol=5e-3)
    np.testing.assert_allclose(importance_of(found, "taylor"), each.mean(0), rtol=2e-3)
    np.testing.assert_allclose(
        importance_of(found),
        (expected - expected.min()) / (expected.max() - expected.min()),
        atol=5e-3,
    )


def test_what_one_text_teaches_does_not_depend_on_its_batch(classifier: Model) -> None:
    texts = [
        Text(str(number), f"the cat was {word} film", label="0")
        for number, word in enumerate(("bad", "good", "very"))
    ]
    together = differentiate(classifier, batch_of(classifier, *texts))
    assert together.taylor is not None
    for number, text in enumerate(texts):
        alone = differentiate(classifier, batch_of(classifier, text))
        assert alone.taylor is not None
        torch.testing.assert_close(together.loss[number], alone.loss[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(together.gates[number], alone.gates[0], atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(together.taylor[number], alone.taylor[0], atol=1e-7, rtol=1e-3)


def test_a_gate_is_the_slope_of_the_loss(classifier: Model) -> None:
    exact = attlas.load(
        (copy.deepcopy(classifier.network).double(), classifier.tokenizer), task="classify"
    )
    texts, step = LABELLED[:2], 5e-3
    wanted = own_labels(classifier, texts)
    slopes = np.zeros((len(texts), 3, HEADS))
    for number, text in enumerate(texts):
        batch = batch_of(exact, text)
        for layer in range(3):
            for head in range(HEADS):
                loss = []
                for gate in (1 + step, 1 - step):
                    gates = torch.ones(3, HEADS, dtype=torch.float64)
                    gates[layer, head] = gate
                    logits = exact.forward(batch, gates=gates, with_head=True).logits
                    loss.append(
                        float(nn.functional.cross_entropy(logits, torch.tensor([wanted[number]])))
                    )
                slopes[number, layer, head] = (loss[0] - loss[1]) / (2 * step)
    found = result(Importance(), classifier, texts)["importance"]
    np.testing.assert_allclose(
        importance_of(found, "gate"), abs(slopes).mean(0), rtol=2e-3, atol=2e-4
    )
    np.testing.assert_allclose(
        importance_of(found, "gate_signed"), slopes.mean(0), rtol=2e-3, atol=2e-4
    )


def test_ablation_is_a_head_cut_out_of_the_output_projection(classifier: Model) -> None:
    texts = LABELLED[:3]
    network: Any = copy.deepcopy(classifier.network)

    def loss(text: Text, label: int) -> float:
        ids, inputs = inputs_of(classifier, text)
        with torch.no_grad():
            return float(
                nn.functional.cross_entropy(network(ids, **inputs).logits, torch.tensor([label]))
            )

    known = list(zip(texts[:2], own_labels(classifier, texts[:2]), strict=True))
    grown = np.array([[[-loss(*one)] * HEADS] * 3 for one in known])
    for layer, module in enumerate(network.base_model.encoder.layer):
        weight = module.attention.output.dense.weight
        whole = weight.detach().clone()
        for head in range(HEADS):
            with torch.no_grad():
                weight[:, head * 8 : (head + 1) * 8] = 0
                grown[:, layer, head] += [loss(*one) for one in known]
                weight.copy_(whole)
    found = result(Importance(ablation=2), classifier, texts)["importance"]
    np.testing.assert_allclose(importance_of(found, "ablation"), grown.mean(0), atol=1e-4)
    np.testing.assert_allclose(
        importance_of(found, "ablation_error"), grown.std(0, ddof=1) / math.sqrt(2), atol=1e-4
    )
    without = result(Importance(), classifier, texts)["importance"]
    assert without["ablation"].isna().all()


def test_ablation_of_a_text_without_label_asks_for_the_whole_models_answer() -> None:
    """Without a head the model may answer otherwise; its loss is still that of what it said as a
    whole."""
    model = stirred(tiny("bert", "classify", seed=1))
    text = Text("a", "a dog was very bad")
    (answer,) = own_labels(model, [text])
    table, same = (
        result(Importance(ablation=1), model, [Text("a", text.text, label=label)])["importance"]
        for label in (None, f"LABEL_{answer}")
    )
    pd.testing.assert_frame_equal(table, same, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "longformer"])
def test_base_models_have_no_importance(family: str) -> None:
    model = tiny(family)
    for asked in ("importance", ["totals", "importance"], Importance(ablation=1)):
        with pytest.raises(
            ModelError, match=r"is loaded without a head .* so it has no loss;"
        ) as caught:
            attlas.study(model, ["a cat"], asked)
        assert "\n" not in str(caught.value)
    if family == "bert":
        assert "importance" in MEASURES
        assert "importance" not in attlas.study(model, ["a cat", "the dog"], "all").tables
    learned = differentiate(
        model, batch_of(model, Text("a", "a cat"))
    )  # a pseudo-loss, for measures that need no real one
    assert learned.loss.isfinite().all()


def named(**labels: int) -> Model:
    model = tiny("bert", "classify")
    model.network.config.label2id = dict(labels)
    model.network.config.id2label = {number: name for name, number in labels.items()}
    return model


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        ({"bad": 0, "good": 1}, "so"),
        ({"bad": 0, "good": 1}, "2"),
        ({"bad": 0, "good": 1}, "-1"),
        ({"1": 0, "2": 1}, "0"),
        ({"2": 0, "3": 1}, "1"),
    ],
)
def test_a_label_that_the_model_does_not_know(labels: dict[str, int], given: str) -> None:
    model = named(**labels)
    known = ", ".join(labels)
    with pytest.raises(
        ModelError, match=f"some texts have the label '{given}', but the model knows {known}"
    ):
        attlas.study(model, [Text("x", "a cat", label=given)], "importance")
    with pytest.raises(
        ModelError, match=f"text 'x' has the label '{given}', but the model knows {known}"
    ):
        differentiate(model, batch_of(model, Text("x", "a cat", label=given)))


def test_labels_are_names_or_numbers() -> None:
    text = "the cat was a bad film"
    model = named(bad=0, good=1)
    losses = {
        label: float(differentiate(model, batch_of(model, Text("x", text, label=label))).loss[0])
        for label in ("bad", "good", "0", "1", None)
    }
    assert losses["bad"] == losses["0"] != losses["good"] == losses["1"]
    assert losses[None] == min(losses.values())
    turned = named(**{"1": 0, "0": 1})
    for name, number in (("1", "bad"), ("0", "good")):
        assert (
            float(differentiate(turned, batch_of(turned, Text("x", text, label=name))).loss[0])
            == losses[number]
        )


@pytest.mark.parametrize(
    ("family", "task"),
    [
        ("bert", "mlm"),
        ("gpt2", "lm"),
        ("llama", "lm"),
        ("distilbert", "classify"),
        ("bart", "classify"),
    ],
)
def test_other_heads_have_importance(family: str, task: str) -> None:
    model = tiny(family, task)
    table = result(Importance(ablation=1), model, ["the cat sat on it", "a dog"])["importance"]
    assert table["gate"].gt(0).all()
    assert table["ablation"].abs().gt(0).any()
    assert table["importance"].between(0, 1).all()
    assert table["taylor"].notna().all() or family == "gpt2"


def test_the_loss_of_language_models_is_transformers_own() -> None:
    for family, task in (("gpt2", "lm"), ("llama", "lm"), ("bert", "mlm")):
        model = tiny(family, task)
        batch = batch_of(model, Text("a", "the cat sat on a mat"))
        wanted = batch.ids.clone()
        wanted[torch.from_numpy(batch.special)] = -100
        with torch.no_grad():
            expected = model.network(batch.ids, labels=wanted).loss
        torch.testing.assert_close(
            differentiate(model, batch).loss[0], expected, atol=1e-5, rtol=1e-5
        )


def test_parameters_that_are_frozen_have_importance_too() -> None:
    model = stirred(tiny("bert", "classify"))
    expected = result(Importance(), model, LABELLED)["importance"]
    model.network.requires_grad_(False)
    pd.testing.assert_frame_equal(result(Importance(), model, LABELLED)["importance"], expected)


def test_nothing_is_written_on_the_model() -> None:
    model = tiny("longformer", "classify")
    before = {
        name: (dict(module.__dict__), module.forward)
        for name, module in model.network.named_modules()
    }
    digest = model.weights_sha256()
    attlas.study(model, LABELLED, ["importance", "totals"], workers=2)
    assert all(parameter.grad is None for parameter in model.network.parameters())
    assert {
        name: (dict(module.__dict__), module.forward)
        for name, module in model.network.named_modules()
    } == before
    assert model.weights_sha256() == digest
    with pytest.raises(ModelError, match="have the label"):
        attlas.study(model, [Text("x", "a cat", label="so")], "importance")
    assert all(parameter.grad is None for parameter in model.network.parameters())


def test_importance_weighs_heads() -> None:
    table = pd.DataFrame(
        {"layer": [1, 0, 0, 1], "head": [0, 1, 0, 1], "importance": [3.0, 2.0, 1.0, 0.0]}
    )
    assert importance_of(table).tolist() == [[1, 2], [3, 0]]
    values = np.arange(12.0).reshape(2, 2, 3)
    assert scaled(values, importance_of(table)).tolist() == pytest.approx(
        [(1 * values[0, 0, i] + 2 * values[0, 1, i] + 3 * values[1, 0, i]) / 6 for i in range(3)]
    )
    with pytest.raises(MeasureError, match="nothing to scale by"):
        scaled(values, np.zeros((2, 2)))
    for wrong in ({"accumulate": "sum"}, {"ablation": -1}):
        with pytest.raises(MeasureError):
            Importance(**wrong)


# in studies


def sentences(count: int) -> list[Text]:
    draw = np.random.default_rng(0)
    strings = [
        "the",
        "a",
        "cat",
        "dog",
        "sat",
        "saw",
        "on",
        "mat",
        "and",
        "it",
        "was",
        "not",
        "very",
        "good",
        "bad",
        "film",
        ",",
    ]
    return [
        Text(
            f"t{number}",
            " ".join(draw.choice(strings, draw.integers(1, 30))),
            label=str(number % 2),
        )
        for number in range(count)
    ]


def table_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_one_worker_and_two_write_the_same_bytes(family: str, tmp_path: Path) -> None:
    model = tiny(family, "classify")
    texts = sentences(16)
    measures = [
        TopK(k=3),
        Heatmap(size=5, examples=2),
        PositionBias(period=4),
        Importance(accumulate="grad", ablation=2),
    ]
    for workers in (1, 2):
        done = attlas.study(model, texts, measures, tmp_path / str(workers), workers=workers)
    assert {
        "topk",
        "topk_types",
        "heatmap",
        "heatmap_uniform",
        "heatmap_texts",
        "position_bias",
        "position_bias_period",
        "position_bias_heads",
        "importance",
    } <= set(done.tables)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2")
    assert all(parameter.grad is None for parameter in model.network.parameters())
    batches = stream(model, texts)
    for measure in measures:
        for name, table in measure.result(fold(measure, batches, model)).items():
            assert_same({name: done.table(name)}, {name: table}, 1e-4)


@pytest.mark.slow
def test_a_study_of_a_long_classifier_has_all_tables(tmp_path: Path) -> None:
    model = tiny("longformer", "classify")
    done = attlas.study(model, sentences(6), "all", tmp_path)
    assert {"topk", "heatmap", "position_bias"} <= set(done.tables)
    costly = {
        "head_distance",
        "special_gradient",
        "importance",
        "explanations",
    }  # they must be named
    assert set(done.manifest["measures"]) == set(MEASURES) - costly
    again = attlas.study(model, sentences(6), "all", tmp_path)
    assert again.table("topk_types").equals(done.table("topk_types"))


def test_long_measures_on_the_embedded_model(minilm: attlas.Model) -> None:
    texts = [
        Text(
            "a", "A caption of an image was generated by the model; the image shows training data."
        )
    ]
    batches = stream(minilm, texts)
    (text,) = plainly(minilm, batches)
    found = TopK(k=2, shown=5)
    table = found.result(fold(found, batches, minilm))["topk"]
    expected = topk_twin(text, 2, 5, range(6), range(12))
    for (direction, by, layers), group in table.groupby(["direction", "by", "layers"]):
        rows = list(zip(group["string"], group["token"], group["count"], strict=True))
        assert rows == expected[direction, by, layers]
    grid = Heatmap(size=4)
    cells = cells_of(grid.result(fold(grid, batches, minilm))["heatmap"], 4).reshape(6, 12, 4, 4)
    for layer, head in ((0, 0), (3, 7), (5, 11)):
        np.testing.assert_allclose(
            cells[layer, head], grid_twin(np.array(text.weights[layer][head]), 4), atol=1e-6
        )
