"""How heads differ, what their weights do to the loss, and what they find: all against slow twins,
plain loops and finite differences."""

from __future__ import annotations

import copy
import math
import sys
from collections import Counter, defaultdict
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import jensenshannon, squareform

import attlas
from attlas.catalogue import MEASURES
from attlas.core import kernels
from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies
from attlas.core.attention import DenseAttention
from attlas.core.banded import BandedAttention
from attlas.core.cases import add_cases, sums_frame, width
from attlas.core.states import Tally
from attlas.core.text import Text
from attlas.measures.entropy import Entropy
from attlas.measures.head_distance import HeadDistance, divergences
from attlas.measures.head_map import behaviours, head_map, neighbours, square, within_layers
from attlas.measures.importance import Importance
from attlas.measures.special_gradient import COLUMNS, SpecialGradient, special_gradient
from attlas.models.differentiate import differentiate, pseudo_loss
from attlas.stats.clustered import ClusteredProportions, proportions_of
from attlas.stats.intervals import Z, wilson
from attlas.support.errors import MeasureError, ModelError
from attlas.syntax import kernels as probe_kernels
from attlas.syntax.arcs import DIRECTIONS, OFFSETS, PUBLISHED_OFFSETS, ArcCounts, arc_targets
from attlas.testing import assert_same, check_measure, fold, stream, tiny
from tests import strategies
from tests.builders.models import stirred
from tests.close import close, close_tables, terms_of

TEXTS = (
    "a cat sat, on a mat.",
    "the dog",
    "it was not very good. the film, a bad film",
    "cat",
    "a cat [SEP] the dog.",
    "the cat",
    "we!",
)
ARCHITECTURES = ("bert", "gpt2", "longformer")


@cache
def seen(family, global_tokens="first"):
    """A tiny model and its stream over TEXTS, each text alone."""
    model = attlas.load(
        tiny(family), global_tokens=global_tokens if family == "longformer" else None
    )
    return model, stream(model, TEXTS)


def joined(model, texts):
    """Texts of one length in one batch: all layers of each batch."""
    given = [
        text if isinstance(text, Text) else Text(str(place), text)
        for place, text in enumerate(texts)
    ]
    out = []
    for batch in model.batches(model.encode(list(enumerate(given)))):
        out.append([])
        model.forward(batch, out[-1].append)
    return out


def run(measure, batches, model):
    return measure.result(fold(measure, batches, model))


# logarithms


def test_x_log_x_is_that_of_float64():
    x = np.concatenate([np.geomspace(1e-30, 2, 4000), np.linspace(0.5, 2, 4000)]).astype(np.float32)
    found = np.array([kernels._x_log_x(value) for value in x])
    exact = x.astype(np.float64) * np.log(x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=2e-7)
    assert kernels._x_log_x(np.float32(0)) == 0
    assert kernels._x_log_x(np.float32(1)) == 0


@given(strategies.matrices(max_tokens=70))
@settings(max_examples=30, deadline=None)
def test_row_entropy_is_that_of_float64(weights):
    exact = weights.astype(np.float64)
    expected = -(exact * np.log(np.where(exact > 0, exact, 1))).sum(-1)
    found = kernels.row_entropy(weights.reshape(-1, weights.shape[-1]))
    np.testing.assert_allclose(found, expected.reshape(-1), rtol=1e-5, atol=2e-6)
    assert (found >= 0).all()


# divergence between heads


def divergence(one, other):
    """Jensen-Shannon divergence of two rows, in nats."""
    total = 0.0
    for a, b in zip(one, other, strict=True):
        middle = (a + b) / 2
        total += (a * math.log(a / middle) if a > 0 else 0) / 2 + (
            b * math.log(b / middle) if b > 0 else 0
        ) / 2
    return total


def terms_of_divergence(cells):
    """What is rounded: the logarithm and the product in a ln a, b ln b and that of their mean, of
    every cell; entropies that cancel."""
    return 3 * 2 * cells


def smoothed(row, smoothing):
    return [(1 - smoothing) * weight + smoothing / len(row) for weight in row]


def slowly(layers, smoothing=0.0):
    """Between all heads of all layers, and of each from even attention over what it sees; and the
    rows of each head."""
    heads, even = [], []  # head of all layers: all rows of all texts
    for layer in layers:
        dense = layer.dense()
        texts, count, n, _ = dense.weights.shape
        visible = (
            np.ones((1, n, n), dtype=bool) if dense.visible is None else dense.visible[:, 0].numpy()
        )
        visible = np.broadcast_to(visible, (texts, n, n)).tolist()
        weights = dense.weights.double().tolist()
        flat = [[float(sees) / sum(row) for sees in row] for square in visible for row in square]
        for head in range(count):
            heads.append([smoothed(row, smoothing) for text in weights for row in text[head]])
            even.append([smoothed(row, smoothing) for row in flat])
    between = [[sum(map(divergence, one, other)) for other in heads] for one in heads]
    from_even = [sum(map(divergence, one, other)) for one, other in zip(heads, even, strict=True)]
    return np.array(between), np.array(from_even), heads


def by_scipy(heads):
    """Between heads, row by row, from scipy: the square of its distance (which of equal rows may
    be the root of a rounding error)."""
    rows = np.array(heads)
    with np.errstate(invalid="ignore"):
        return np.array(
            [[np.nansum(jensenshannon(one, other, axis=-1) ** 2) for other in rows] for one in rows]
        )


CAPTURED = [(family, "first") for family in (*ARCHITECTURES, "gemma2")]
CAPTURED += [("longformer", choice) for choice in ("special", "none", (0, 2))]


@pytest.mark.parametrize(("family", "global_tokens"), CAPTURED)
def test_divergences_are_their_twin(family, global_tokens):
    model, batches = seen(family, global_tokens)
    chosen = [batches[number] for number in (2, 3, 4)] + joined(model, TEXTS)[:2]
    assert len({layer.reach for layer in batches[2]}) == (2 if family == "longformer" else 1)
    assert any(layers[0].n_texts > 1 for layers in chosen)
    for layers in chosen:
        for smoothing in (0.0, 0.001):
            between, from_even, heads = slowly(layers, smoothing)
            found, found_even = divergences(layers, smoothing)
            rows = layers[0].n_texts * layers[0].n_tokens
            assert found.shape == (12, 12)
            assert np.array_equal(found, found.T)
            assert not found.diagonal().any()
            assert found.min() >= 0
            assert found.max() <= math.log(2) * rows * (1 + 1e-5)
            n = layers[0].n_tokens
            rounding = {"terms": rows * terms_of_divergence(n), "magnitude": math.log(n)}
            close(found, between, **rounding)
            close(found_even, from_even, **rounding)
            np.testing.assert_allclose(found, by_scipy(heads), rtol=1e-4, atol=1e-6 * rows)
            if rows > 8:
                assert between[~np.eye(12, dtype=bool)].min() > 0.05  # else nothing was compared


@given(
    st.one_of(strategies.dense_layers(), strategies.banded_layers()), st.sampled_from([0.0, 0.001])
)
@settings(max_examples=60, deadline=None)
def test_divergences_of_any_layer_are_their_twin_and_their_root_is_a_distance(drawn, smoothing):
    between, from_even, _ = slowly([drawn.layer], smoothing)
    found, found_even = divergences([drawn.layer], smoothing)
    rows = drawn.weights.shape[0] * drawn.weights.shape[2]
    np.testing.assert_allclose(found, between, rtol=1e-5, atol=5e-7 * rows)
    np.testing.assert_allclose(found_even, from_even, rtol=1e-5, atol=5e-7 * rows)
    root = np.sqrt(found)
    assert (root[:, None] <= root[:, :, None] + root[None] + 2e-3 * math.sqrt(rows)).all()


@given(strategies.generators)
@settings(max_examples=20, deadline=None)
def test_layers_of_several_reaches_and_heads_that_are_the_same(random):
    """A narrow band beside a wide one of the same batch, and the very same heads again in another
    layer."""
    n, places = 9, np.array([[2], [5]])
    batch = strategies.make_batch(random, 2, n)

    def made(reach):
        query, key = np.indices((n, n))
        visible = np.array(
            [(abs(query - key) <= reach) | (query == p) | (key == p) for (p,) in places]
        )
        weights = torch.from_numpy(strategies.stochastic(random, 2, visible))
        band, columns = torch.zeros(2, 2, n, 2 * reach + 1), torch.zeros(2, 2, n, 1)
        rows = torch.stack([weights[text, :, place] for text, place in enumerate(places[:, 0])])[
            :, :, None
        ]
        for text, (place,) in enumerate(places):
            for one in range(n):
                for other in range(n):
                    if one == place or abs(one - other) > reach:
                        continue
                    if other != place:
                        band[text, :, one, other - one + reach] = weights[text, :, one, other]
                if one != place:
                    columns[text, :, one, 0] = weights[text, :, one, place]
        return BandedAttention(band, columns, rows, torch.from_numpy(places), batch)

    narrow, wide = made(1), made(3)
    layers = [narrow, wide, narrow]
    for smoothing in (0.0, 0.001):
        found, found_even = divergences(layers, smoothing)
        between, from_even, _ = slowly(layers, smoothing)
        np.testing.assert_allclose(found, between, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found_even, from_even, rtol=1e-5, atol=1e-5)
        assert found[0, 4] < 1e-6 * 2 * n
        assert found[1, 5] < 1e-6 * 2 * n
        dense, dense_even = divergences([layer.dense() for layer in layers], smoothing)
        np.testing.assert_allclose(dense, found, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(dense_even, found_even, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 150, 400])
def test_divergences_of_long_rows_keep_five_digits(n):
    """Rows longer than what is added up in float32 at a time, some of them with many weights that
    are exactly 0."""
    random = np.random.default_rng(n)
    for power, kept in ((1, 1.0), (6, 0.5), (30, 1.0)):
        cells = random.random((3, 4, n)) ** power * (
            random.random((3, 4, n)) < kept
        ) + 1e-9 * np.eye(1, n, 0)
        weights = (cells / cells.sum(-1, keepdims=True)).astype(np.float32)
        assert kept == 1 or n < 2 or (weights == 0).any()
        total = np.zeros((3, 3))
        kernels.add_divergences(total, weights, weights, True, np.float32(0), np.float32(1 / n))
        assert not total[np.tril_indices(3)].any()  # only left < right is done
        exact = weights.astype(np.float64)
        for one, other in ((0, 1), (0, 2), (1, 2)):
            expected = sum(map(divergence, exact[one].tolist(), exact[other].tolist()))
            assert total[one, other] == pytest.approx(expected, rel=1e-5, abs=2e-6)
        apart = np.zeros((3, 3))
        kernels.add_divergences(
            apart, weights, weights.copy(), False, np.float32(0), np.float32(1 / n)
        )
        np.testing.assert_allclose(apart, total + total.T, rtol=1e-5, atol=4e-6)


def test_rows_with_nothing_in_common_are_ln_2_apart_and_equal_rows_not_at_all():
    weights = torch.eye(4)[None, None].repeat(1, 3, 1, 1)
    weights[0, 1] = torch.eye(4).flip(0)
    layer = DenseAttention(weights, strategies.make_batch(np.random.default_rng(0), 1, 4))
    found, from_even = divergences([layer])
    np.testing.assert_allclose(found[0], [0, 4 * math.log(2), 0], atol=4e-7)
    expected = 4 * divergence([1, 0, 0, 0], [0.25] * 4)
    np.testing.assert_allclose(from_even, [expected] * 3, rtol=1e-6)


@pytest.mark.parametrize("family", ARCHITECTURES)
@pytest.mark.parametrize("convention", ["sound", "published"])
def test_head_distance_is_its_twin_and_streams(family, convention):
    model, batches = seen(family)
    measure = HeadDistance(convention=convention)
    table = run(measure, batches, model)["head_distance"]
    rows = sum(layers[0].n_tokens for layers in batches)
    between, even = np.zeros((12, 12)), np.zeros(12)
    for layers in batches:
        some, from_even, _ = slowly(layers, 0.001 if convention == "published" else 0.0)
        between, even = between + some, even + from_even
    expected = [divmod(one, 4) + divmod(other, 4) for one in range(12) for other in range(12)]
    assert (
        list(
            zip(
                *(table[name] for name in ("layer", "head", "other_layer", "other_head")),
                strict=True,
            )
        )
        == expected
    )
    longest = max(layers[0].n_tokens for layers in batches)
    rounding = {"terms": rows * terms_of_divergence(longest), "magnitude": math.log(longest)}
    close(square(table, "distance"), between, **rounding)
    np.testing.assert_allclose(table["mean"], table["distance"] / rows, rtol=1e-12)
    close(square(table, "mean_uniform") * rows, np.repeat(even[:, None], 12, 1), **rounding)
    assert table["mean"].between(0, math.log(2)).all()
    check_measure(measure, batches, model)
    check_measure(measure, joined(model, TEXTS), model)
    assert_same({"": run(measure, joined(model, TEXTS), model)["head_distance"]}, {"": table}, 1e-5)


def test_the_published_distance_is_a_little_smaller_and_asked_for_by_name():
    model, batches = seen("bert")
    sound, published = (
        square(run(HeadDistance(convention=one), batches, model)["head_distance"])
        for one in ("sound", "published")
    )
    apart = ~np.eye(12, dtype=bool)
    assert (published[apart] < sound[apart]).all()
    assert (published[apart] > 0.98 * sound[apart]).all()
    for wrong, message in (
        ({"convention": "papers"}, "convention is 'papers'"),
        ({"clusters": 0}, "clusters is 0"),
    ):
        with pytest.raises(MeasureError, match=message):
            HeadDistance(**wrong)


def test_absolute_and_blocks_are_of_the_same_attention():
    for family in ARCHITECTURES:
        model, batches = seen(family)
        for layer in batches[2]:
            signed = layer.times(layer)
            for part in ("weights",) if family != "longformer" else ("band", "columns", "rows"):
                getattr(signed, part).mul_(-1)
            assert torch.equal(signed.absolute().dense().weights, signed.dense().weights.abs())
            assert signed.dense().weights.min() < 0
            assert type(signed.absolute()) is type(layer)
            assert signed.absolute().index == layer.index
            blocks = layer.blocks(7)
            rows = torch.cat(
                [block.sum(-1) for block in blocks], -1
            )  # of a global query 0 in the band, its own after
            assert rows.sum() == pytest.approx(model.n_heads * layer.n_tokens, rel=1e-6)
            assert layer.reach == (
                model.network.config.attention_window[layer.index] // 2 if model.banded else 0
            )
            assert blocks[0].shape[-1] == (2 * 7 + 1 + 1 if model.banded else layer.n_tokens)


# the map of heads


def table_of(means, heads, uniform=0.1):
    """A table `head_distance` of given means."""
    one, other = np.indices(means.shape).reshape(2, -1)
    return pd.DataFrame(
        {
            "layer": one // heads,
            "head": one % heads,
            "other_layer": other // heads,
            "other_head": other % heads,
            "distance": means.reshape(-1) * 50,
            "mean": means.reshape(-1),
            "mean_uniform": uniform + one / 100,
        }
    )


def in_a_plane(seed, count=12):
    points = np.random.default_rng(seed).normal(size=(count, 2)) * [0.3, 0.1]
    return np.linalg.norm(points[:, None] - points, axis=-1)


@pytest.mark.parametrize("seed", range(2))
def test_points_of_a_plane_are_where_they_were(seed):
    means = in_a_plane(seed)
    drawn = head_map(table_of(means, 4))
    places = drawn[["x", "y"]].to_numpy()
    np.testing.assert_allclose(np.linalg.norm(places[:, None] - places, axis=-1), means, atol=2e-3)
    assert drawn["stress"].nunique() == 1
    assert drawn["stress"][0] < 1e-3
    np.testing.assert_allclose(places.mean(0), 0, atol=1e-12)
    assert drawn["x"].std() > drawn["y"].std()
    assert abs(np.corrcoef(places.T)[0, 1]) < 1e-9  # the axes are the main ones
    for axis in ("x", "y"):
        assert (
            drawn[axis].max() == drawn[axis].abs().max()
        )  # the furthest is on the right, and above
    pd.testing.assert_frame_equal(head_map(table_of(means, 4)), drawn)
    other = head_map(table_of(means, 4), seed=seed + 7)[["x", "y"]].to_numpy()
    np.testing.assert_allclose(other, places, atol=5e-3)  # turned and mirrored the same way
    assert drawn["mean_uniform"].tolist() == [0.1 + one / 100 for one in range(12)]
    assert drawn[["layer", "head"]].to_numpy().tolist() == [
        [layer, head] for layer in range(3) for head in range(4)
    ]


def test_stress_is_kruskals_and_says_what_two_dimensions_lose():
    means = 1 - np.eye(8)  # all equally far: no plane holds that
    drawn = head_map(table_of(means, 4))
    places = drawn[["x", "y"]].to_numpy()
    shown = np.linalg.norm(places[:, None] - places, axis=-1)
    expected = math.sqrt(((shown - means) ** 2).sum() / (means**2).sum())
    assert drawn["stress"][0] == pytest.approx(expected)
    assert 0.1 < expected < 0.5


@pytest.mark.parametrize("clusters", [1, 3, 8, 50])
def test_clusters_and_order_are_scipys(clusters):
    means = in_a_plane(5)
    drawn = head_map(table_of(means, 4), clusters=clusters)
    tree = linkage(squareform(means), "average")
    expected = fcluster(tree, min(clusters, 12), "maxclust")
    assert (drawn["cluster"].to_numpy()[:, None] == drawn["cluster"].to_numpy()).tolist() == (
        expected[:, None] == expected
    ).tolist()
    assert drawn["cluster"].nunique() == min(clusters, 12)
    assert drawn["cluster"].min() == 0
    assert drawn.sort_values("order").index.tolist() == leaves_list(tree).tolist()


def test_groups_that_lie_apart_are_the_clusters():
    of = np.arange(12) % 3
    means = np.where(of[:, None] == of, 0.1, 0.6) * ~np.eye(12, dtype=bool)
    drawn = head_map(table_of(means, 4), clusters=3)
    assert (drawn["cluster"].to_numpy()[:, None] == drawn["cluster"].to_numpy()).tolist() == (
        of[:, None] == of
    ).tolist()


def test_neighbours_are_the_nearest_others():
    means = in_a_plane(2)
    means[0, 3] = means[0, 7] = means[3, 0] = means[7, 0] = 1e-4  # a tie
    for k in (1, 3, 20):
        rows = neighbours(table_of(means, 4), k).to_dict("records")
        expected = []
        for one in range(12):
            near = sorted((means[one, other], other) for other in range(12) if other != one)[:k]
            expected += [
                {
                    "layer": one // 4,
                    "head": one % 4,
                    "rank": rank,
                    "other_layer": other // 4,
                    "other_head": other % 4,
                    "mean": mean,
                }
                for rank, (mean, other) in enumerate(near)
            ]
        assert rows == expected


def tables(rows):
    """Surface and entropy of hand-made heads: next, previous, [CLS], [SEP], punctuation, and the
    share of the largest entropy."""
    names = ("next", "previous", "cls", "sep", "punctuation")
    surface = pd.DataFrame([dict(zip(names, row[:5], strict=True)) for row in rows])
    entropy = pd.DataFrame({"entropy": [4.0 * row[5] for row in rows], "entropy_uniform": 4.0})
    heads = {"layer": [0] * len(rows), "head": range(len(rows))}
    return surface.assign(**heads), entropy.assign(**heads)


BROAD = 3.8 / math.log(128)  # the paper's 3.8 nats of 128 tokens
RULES = [
    ((0, 0, 0, 0, 0, 0), "other"),
    ((0.51, 0, 0, 0, 0, 0), "next"),
    ((0.5, 0.5, 0.6, 0.6, 0.6, BROAD), "other"),  # more than, not as much as
    ((0, 0.51, 0, 0, 0, 0), "previous"),
    ((0.51, 0.51, 0, 0, 0, 0), "previous"),
    ((0.9, 0.9, 0, 0, 0, 0.79), "broad"),
    ((0, 0, 0.61, 0, 0, 0.9), "[CLS]"),
    ((0.9, 0, 0.61, 0.61, 0, 0.9), "[SEP]"),
    ((0.9, 0.9, 0.9, 0.9, 0.61, 0.9), "punctuation"),
    ((0, 0, math.nan, math.nan, 0, 0.77), "other"),  # a model without marks
]


def test_behaviours_follow_the_papers_rule_and_order():
    surface, entropy = tables([row for row, _ in RULES])
    assert behaviours(surface, entropy) == [name for _, name in RULES]
    without = ["previous" if name == "broad" else name for _, name in RULES]
    assert behaviours(surface) == without
    means = in_a_plane(0, len(RULES))
    named = {(0, 2): "determiner", (0, 8): "coreference"}
    drawn = head_map(table_of(means, len(RULES)), surface, entropy, named)
    assert drawn["behaviour"].tolist() == [
        named.get((0, head), name) for head, (_, name) in enumerate(RULES)
    ]
    drawn = head_map(table_of(means, len(RULES)), named=named)
    assert drawn["behaviour"].tolist() == [named.get((0, head), "") for head in range(len(RULES))]


def test_heads_of_a_layer_are_nearer_where_they_are():
    random = np.random.default_rng(0)
    layer = np.arange(16) // 4
    noise = random.random((16, 16)) * 0.1
    means = np.where(layer[:, None] == layer, 0.2, 0.4) + noise + noise.T
    np.fill_diagonal(means, 0)
    found = within_layers(table_of(means, 4), draws=300)
    pairs = [(one, other) for one in range(16) for other in range(one)]
    same = [means[one, other] for one, other in pairs if layer[one] == layer[other]]
    others = [means[one, other] for one, other in pairs if layer[one] != layer[other]]
    assert found["within"] == pytest.approx(np.mean(same))
    assert found["across"] == pytest.approx(np.mean(others))
    assert found["p"] == 1 / 301  # no random assignment does as well
    assert within_layers(table_of(means, 4), draws=300) == found
    shuffled = []
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(16)
        shuffled.append(
            within_layers(table_of(means[np.ix_(order, order)], 4), draws=99, seed=seed)["p"]
        )
    assert 0.3 < np.mean(shuffled) < 0.7  # even between 0 and 1
    assert np.mean(np.array(shuffled) <= 0.05) <= 0.2


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2)])
def test_models_of_few_heads_have_a_map(layers, heads, tmp_path):
    model = tiny("bert", num_hidden_layers=layers, num_attention_heads=heads)
    done = attlas.study(
        model, ["a cat sat", "the dog ."], "surface,entropy,head_distance", tmp_path / "study"
    )
    drawn = done.table("head_map")
    count = layers * heads
    assert len(drawn) == count
    assert np.isfinite(drawn[["x", "y", "stress", "mean_uniform"]].to_numpy()).all()
    assert sorted(drawn["order"]) == list(range(count))
    assert len(done.table("head_neighbours")) == count * min(3, count - 1)
    distance = square(done.table("head_distance"))
    if count == 2:
        assert np.hypot(*(drawn[["x", "y"]].diff().iloc[1])) == pytest.approx(distance[0, 1])
    p = within_layers(done.table("head_distance"))["p"]
    assert math.isnan(p) == (layers == 1 or heads == 1)


def test_heads_that_are_all_the_same_have_a_map():
    """As of a causal model whose texts have one token each."""
    drawn = head_map(table_of(np.zeros((6, 6)), 3))
    assert np.abs(drawn[["x", "y"]].to_numpy()).max() < 1e-3
    assert drawn["stress"][0] == pytest.approx(0, abs=1e-6)


def test_texts_of_one_token_have_a_map():
    done = attlas.study(tiny("gpt2"), ["cat", "dog", "mat"], "head_distance")
    assert done.table("head_distance")["mean"].max() < 1e-6
    assert len(done.table("head_map")) == 12


# what follows from the tables of a study


def test_a_map_has_behaviours_where_surface_and_entropy_stand_beside_it(tmp_path):
    model = tiny("bert")
    alone = attlas.study(model, list(TEXTS), "head_distance", tmp_path / "alone")
    assert {"head_distance", "head_map", "head_neighbours"} <= set(alone.tables)
    drawn = alone.table("head_map")
    assert drawn["behaviour"].tolist() == [""] * 12
    assert alone.manifest["tables"]["head_map"]["kind"] == "head"
    assert alone.manifest["tables"]["head_map"]["measure"] == "head_distance"
    assert alone.manifest["tables"]["head_distance"]["rows"] == 144
    for number, asked in enumerate(
        ("head_distance,surface,entropy", "entropy,surface,head_distance")
    ):
        beside = attlas.study(model, list(TEXTS), asked, tmp_path / str(number))
        expected = behaviours(beside.table("surface"), beside.table("entropy"))
        assert beside.table("head_map")["behaviour"].tolist() == expected
        assert set(expected) - {"other"}
        pd.testing.assert_frame_equal(
            beside.table("head_map").drop(columns="behaviour"), drawn.drop(columns="behaviour")
        )
        atlas = beside.atlas()
        assert len(atlas) == 12
        assert atlas["entropy"].equals(beside.table("entropy")["entropy"])
    surface = attlas.study(model, list(TEXTS), "surface,head_distance", tmp_path / "surface")
    assert surface.table("head_map")["behaviour"].tolist() == behaviours(surface.table("surface"))
    measure = HeadDistance()
    batches = joined(model, TEXTS)
    assert_same(
        {"": alone.table("head_distance")},
        {"": run(measure, batches, model)["head_distance"]},
        1e-6,
    )
    expected = measure.derive({"head_distance": alone.table("head_distance")})
    pd.testing.assert_frame_equal(expected["head_map"], drawn)
    pd.testing.assert_frame_equal(expected["head_neighbours"], alone.table("head_neighbours"))
    few = HeadDistance(clusters=2).derive({"head_distance": alone.table("head_distance")})[
        "head_map"
    ]
    assert few["cluster"].nunique() == 2


def test_other_measures_derive_nothing():
    for name in MEASURES:
        if name != "head_distance" and "network" not in MEASURES[name].needs:
            assert MEASURES[name]().derive({}) == {}


def test_costly_measures_are_those_that_run_the_model_more_than_once():
    costly = {name for name in MEASURES if MEASURES[name].costly}
    assert costly == {"head_distance", "special_gradient", "importance", "explanations"}
    assert {name for name in MEASURES if MEASURES[name].needs} == costly - {"head_distance"}


def table_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


def test_a_study_that_was_broken_off_has_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("attlas.studies.run.SHARD_TEXTS", 6)
    model, texts = tiny("bert", "mlm"), [*TEXTS] * 3
    asked, calls, limit = "head_distance,special_gradient,surface,entropy", 0, 0
    make = type(model.encoder).batch

    def counted(*arguments):
        nonlocal calls
        calls += 1
        if calls == limit:
            raise OSError("the machine goes down")
        return make(*arguments)

    monkeypatch.setattr(type(model.encoder), "batch", counted)
    attlas.study(model, texts, asked, tmp_path / "whole", workers=2)
    needed, calls = calls, 0
    limit = needed - 3
    with pytest.raises(OSError, match="goes down"):
        attlas.study(model, texts, asked, tmp_path / "broken", workers=1)
    assert len(list((tmp_path / "broken" / "states").glob("*/entry.json"))) > 1
    limit = -1
    attlas.study(model, texts, asked, tmp_path / "broken", workers=1)
    whole = table_bytes(tmp_path / "whole")
    assert {"head_map.parquet", "head_neighbours.parquet", "special_gradient.parquet"} <= set(whole)
    assert table_bytes(tmp_path / "broken") == whole


# gradients of weights


class Twin:
    """A network in float64 whose attention is written out in full, so that something can be added
    to any weight of any layer."""

    def __init__(self, model):
        self.model = model
        self.network = copy.deepcopy(model.network).double()
        self.causal = model.network.config.model_type in ("gpt2", "llama")
        if model.banded:
            for module in self.network.modules():
                if type(module).__name__ == "LongformerSelfAttention":
                    module.forward = lambda *args, module=module, **options: self.longformer(
                        module, *args, **options
                    )
        else:
            self.network.set_attn_implementation("eager")

    def softmax(self, scores, visible):
        return (
            torch.softmax(scores.masked_fill(~visible, -torch.inf), -1)
            + self.added[len(self.visible) - 1]
        )

    def attention(self, module, query, key, value, *_, scaling=None, **__):
        """[text, head, token, dimension] each; as eager attention is called by transformers."""
        n, groups = query.shape[2], query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
        visible = torch.ones(n, n, dtype=torch.bool)
        self.visible.append(visible.tril() if self.causal else visible)
        scores = (
            query
            @ key.transpose(-1, -2)
            * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        )
        weights = self.softmax(scores, self.visible[-1])
        return (weights @ value).transpose(1, 2), weights

    def longformer(self, module, states, *_, is_index_global_attn=None, **__):
        texts, n, width = states.shape
        everywhere = is_index_global_attn[0]

        def split(projection):
            return projection(states).view(texts, n, module.num_heads, -1).transpose(1, 2)

        query, key, value = (split(getattr(module, name)) for name in ("query", "key", "value"))
        wide = [split(getattr(module, f"{name}_global")) for name in ("query", "key", "value")]
        near = (
            torch.arange(n)[:, None] - torch.arange(n)
        ).abs() <= module.one_sided_attn_window_size
        self.visible.append(near | everywhere | everywhere[:, None])
        scores = torch.where(
            everywhere[:, None], wide[0] @ wide[1].transpose(-1, -2), query @ key.transpose(-1, -2)
        )
        weights = self.softmax(scores / math.sqrt(module.head_dim), self.visible[-1])
        out = torch.where(everywhere[:, None], weights @ wide[2], weights @ value)
        return (out.transpose(1, 2).reshape(texts, n, width),)

    @contextmanager
    def adding(self, added):
        """While open, `added` [layer, head, query, key] is added to the weights."""
        self.added, self.visible = added, []
        module = sys.modules[type(self.network).__module__]
        kept = getattr(module, "eager_attention_forward", None)
        if kept is not None:
            module.eager_attention_forward = self.attention
        try:
            yield
        finally:
            if kept is not None:
                module.eager_attention_forward = kept

    def loss(self, batch, text, added, label=None):
        """The loss of one text, in plain words."""
        ids = batch.ids[text : text + 1]
        inputs = {name: tensor[text : text + 1] for name, tensor in batch.inputs.items()}
        with self.adding(added):
            output = self.network(input_ids=ids, **inputs)
        ordinary = [token for token in range(batch.n_tokens) if not batch.special[text, token]]
        if self.model.task == "base":
            signs = (
                torch.randint(0, 2, (32,), generator=torch.Generator().manual_seed(0)).double() * 2
                - 1
            )
            states = output.last_hidden_state[0, ordinary]
            return (states * signs / math.sqrt(32)).sum(-1).mean()
        surprise = -torch.log_softmax(output.logits[0], -1)
        if self.model.task == "classify":
            return surprise[int(surprise.argmin()) if label is None else label]
        if self.model.task == "mlm":
            return sum(surprise[token, ids[0, token]] for token in ordinary) / len(ordinary)
        return sum(surprise[token, ids[0, token + 1]] for token in range(batch.n_tokens - 1)) / (
            batch.n_tokens - 1
        )


TASKS = [
    ("bert", "mlm"),
    ("bert", "classify"),
    ("bert", "base"),
    ("gpt2", "lm"),
    ("gpt2", "base"),
    ("llama", "lm"),
    ("longformer", "classify"),
    ("longformer", "base"),
    ("distilbert", "classify"),
]
LEARNT = (
    Text("0", "a cat sat on . ,", label="1"),
    Text("1", "the dog , it . we", label="0"),
    Text("2", "not a bad film of we"),
)  # 8 tokens with marks, so that transformers' Longformer pads nothing


@cache
def learnt(family, task):
    """A model, a batch of several texts after its backward pass, and the twin's gradient of each:
    [text][layer, head, query, key]."""
    model = stirred(tiny(family, task, seed=2))
    if family == "longformer":
        model = attlas.load(model, global_tokens=(0, 3))
    encoder = model.full_encoder
    batch = encoder.batch(encoder.encode(list(enumerate(LEARNT))), model.device)
    backward = differentiate(model, batch, weights=True)
    twin = Twin(model)
    gradients, values = [], []
    for number, text in enumerate(LEARNT):
        added = torch.zeros(
            3, 4, batch.n_tokens, batch.n_tokens, dtype=torch.float64, requires_grad=True
        )
        loss = twin.loss(batch, number, added, None if text.label is None else int(text.label))
        gradients.append(torch.autograd.grad(loss, added)[0])
        values.append(float(loss.detach()))
    visible = torch.stack(twin.visible)  # layer query key
    return model, batch, backward, twin, gradients, values, visible


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_the_gradient_of_each_weight_is_that_of_the_twin_and_a_finite_difference(family, task):
    _, batch, backward, twin, gradients, values, visible = learnt(family, task)
    np.testing.assert_allclose(backward.loss, values, rtol=1e-4, atol=1e-5)
    assert [layer.index for layer in backward.layers] == [0, 1, 2]
    for text, gradient in enumerate(gradients):
        for layer in range(3):
            found = backward.layers[layer].gradient().dense().weights[text].double()
            scale = float(gradient.abs().max())
            torch.testing.assert_close(
                found[:, visible[layer]],
                gradient[layer][:, visible[layer]],
                rtol=2e-3,
                atol=2e-5 * scale,
            )
    random = np.random.default_rng(0)
    step, digits = (
        (1e-2, 2e-2) if family == "llama" else (1e-5, 1e-4)
    )  # Llama's norm is worked out in float32
    label = int(LEARNT[0].label)
    for layer in range(3):
        for head, query, key in [
            (1, 0, 0),
            *(random.integers(0, (4, batch.n_tokens, batch.n_tokens)).tolist() for _ in range(4)),
        ]:
            losses = []
            for sign in (1, -1):
                added = torch.zeros(3, 4, batch.n_tokens, batch.n_tokens, dtype=torch.float64)
                added[layer, head, query, key] = sign * step
                with torch.no_grad():
                    losses.append(float(twin.loss(batch, 0, added, label)))
            slope = (losses[0] - losses[1]) / (2 * step)
            exact = float(gradients[0][layer, head, query, key])
            assert slope == pytest.approx(exact, rel=digits, abs=digits * 1e-2)
            if visible[layer, query, key]:
                found = float(
                    backward.layers[layer].gradient().dense().weights[0, head, query, key]
                )
                assert slope == pytest.approx(
                    found, rel=max(digits, 2e-3), abs=digits * float(gradients[0].abs().max())
                )


def sizes_slowly(gradient, visible, tokens):
    """Mean size of the gradient over the weights that a query can give to each sort of token:
    [column] of one head."""
    marks = {
        "sep": [token == "[SEP]" for token in tokens],
        "cls": [token == "[CLS]" for token in tokens],
        "punctuation": [token in (".", ",") for token in tokens],
        "other": [token not in ("[SEP]", "[CLS]", ".", ",") for token in tokens],
        "all": [True for _ in tokens],
    }
    n, out = len(tokens), []
    for name in COLUMNS:
        found = [
            abs(gradient[query][key])
            for query in range(n)
            for key in range(n)
            if visible[query][key] and marks[name][key]
        ]
        out.append(sum(found) / len(found) if found else math.nan)
    return out


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_special_gradient_is_its_twin(family, task):
    model, batch, backward, _, gradients, _, visible = learnt(family, task)
    tokens = [model.tokenizer.convert_ids_to_tokens(ids) for ids in batch.ids.tolist()]
    expected = np.array(
        [
            [
                [
                    sizes_slowly(
                        gradient[layer, head].tolist(), visible[layer].tolist(), tokens[text]
                    )
                    for head in range(4)
                ]
                for layer in range(3)
            ]
            for text, gradient in enumerate(gradients)
        ]
    )
    found = np.stack([special_gradient(layer).numpy() for layer in backward.layers], 1)
    has_marks = family not in ("gpt2", "llama")
    assert np.isnan(expected[0, 0, 0]).tolist() == [
        not has_marks,
        not has_marks,
        False,
        False,
        False,
    ]
    assert np.isnan(expected[2, 0, 0]).tolist() == [
        not has_marks,
        not has_marks,
        True,
        False,
        False,
    ]
    assert np.nanmax(expected) > 1e-4
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-5 * np.nanmax(expected))


@pytest.mark.parametrize("family", ["gemma2", "modernbert", "gpt_neox"])
def test_special_gradient_counts_only_weights_that_windows_let_be_given(family):
    model = tiny(family)
    backward = differentiate(
        model,
        stream_batch(model, Text("a", "a cat sat on the mat , it was not good .")),
        weights=True,
    )
    assert any(layer.visible is not None for layer in backward.layers)
    for layer in backward.layers:
        sizes = layer.gradient().dense().weights[0].abs()
        visible = (
            torch.ones_like(sizes[0], dtype=torch.bool)
            if layer.visible is None
            else layer.visible[0, 0]
        )
        torch.testing.assert_close(
            special_gradient(layer)[0, :, COLUMNS.index("all")],
            sizes[:, visible].mean(-1),
            rtol=1e-4,
            atol=1e-7,
        )


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "mlm"), ("gpt2", "lm"), ("longformer", "classify")]
)
def test_special_gradient_of_a_corpus_is_the_mean_over_texts(family, task, tmp_path):
    model, batch, *_ = learnt(family, task)
    each = np.stack(
        [
            [
                special_gradient(layer)[0].numpy()
                for layer in differentiate(model, batch[one : one + 1], weights=True).layers
            ]
            for one in range(3)
        ]
    ).reshape(3, 12, -1)  # text, head of all layers, column
    together = np.stack(
        [special_gradient(layer) for layer in differentiate(model, batch, weights=True).layers], 1
    )
    np.testing.assert_allclose(together.reshape(3, 12, -1), each, rtol=2e-4, atol=1e-6)
    study = attlas.study(model, list(LEARNT), "special_gradient", tmp_path / "study")
    table = study.table("special_gradient")
    assert table[["layer", "head"]].to_numpy().tolist() == [
        [layer, head] for layer in range(3) for head in range(4)
    ]
    for number, name in enumerate(COLUMNS):
        frame = pd.DataFrame(each[:, :, number])
        np.testing.assert_allclose(table[name], frame.mean(), rtol=2e-4, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(
            table[f"{name}_error"], frame.sem(), rtol=5e-3, atol=1e-6, err_msg=name
        )
        if name != "all":
            np.testing.assert_allclose(table[f"{name}_all"], table["all"], rtol=1e-12)
    assert "all_uniform" not in table
    alone = run(SpecialGradient(), stream(model, LEARNT), model)["special_gradient"]
    pd.testing.assert_frame_equal(alone, table, rtol=2e-4, atol=1e-6)


def test_special_gradient_keeps_the_contract_and_knows_its_punctuation():
    model = tiny("bert", "mlm")
    batches = stream(model, TEXTS)
    check_measure(SpecialGradient(), batches, model, 1e-6)
    bang = run(SpecialGradient(punctuation="!"), batches, model)["special_gradient"]
    (only,) = stream(model, [TEXTS[-1]])
    pd.testing.assert_series_equal(
        bang["punctuation"],
        run(SpecialGradient(punctuation="!"), [only], model)["special_gradient"]["punctuation"],
        rtol=1e-4,
    )
    assert run(SpecialGradient(), [only], model)["special_gradient"]["punctuation"].isna().all()


def test_the_pseudo_loss_is_a_mean_over_ordinary_tokens_along_one_direction():
    states = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(1))
    ordinary = torch.tensor([[False, True, True, False, True], [False] * 5])
    found = pseudo_loss(states, ordinary)
    direction = pseudo_loss(torch.eye(32)[:, None], torch.ones(32, 1, dtype=torch.bool))
    assert float(direction.norm()) == pytest.approx(1, rel=1e-6)
    assert direction.abs().unique().numel() == 1
    assert 4 < (direction > 0).sum() < 28
    assert float(found[0]) == pytest.approx(
        float((states[0, [1, 2, 4]] @ direction).mean()), rel=1e-5
    )
    assert float(found[1]) == 0  # nothing ordinary, no division by nothing
    torch.manual_seed(5)
    assert torch.equal(pseudo_loss(states, ordinary), found)  # whatever the global generator does


def test_nothing_is_left_on_a_model_whose_weights_were_differentiated():
    for family, task in (("bert", "mlm"), ("longformer", "classify"), ("gpt2", "base")):
        model = tiny(family, task)
        before = {
            name: (dict(module.__dict__), module.forward)
            for name, module in model.network.named_modules()
        }
        hooks = [
            (len(one._forward_hooks), len(one._forward_pre_hooks))
            for one in model.network.modules()
        ]
        implementation, digest = model.network.config._attn_implementation, model.weights_sha256()
        attlas.study(model, list(LEARNT), "special_gradient,totals", workers=2)
        model.network.train()
        differentiate(model, stream_batch(model), weights=True)
        assert all(module.training for module in model.network.modules())
        model.network.eval()
        after = {
            name: (dict(module.__dict__), module.forward)
            for name, module in model.network.named_modules()
        }
        assert after == before
        assert [
            (len(one._forward_hooks), len(one._forward_pre_hooks))
            for one in model.network.modules()
        ] == hooks
        assert all(parameter.grad is None for parameter in model.network.parameters())
        assert model.network.config._attn_implementation == implementation
        assert model.weights_sha256() == digest
        assert torch.is_grad_enabled()


def stream_batch(model, *texts):
    encoder = model.full_encoder
    given = texts or (Text("a", "the cat sat"),)
    return encoder.batch(encoder.encode(list(enumerate(given))), model.device)


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "mlm"), ("longformer", "base"), ("gpt2", "lm")]
)
def test_parameters_that_are_frozen_have_special_gradients_too(family, task):
    model = stirred(tiny(family, task))
    expected = run(SpecialGradient(), stream(model, LEARNT), model)["special_gradient"]
    model.network.requires_grad_(False)
    found = run(SpecialGradient(), stream(model, LEARNT), model)["special_gradient"]
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)
    assert not any(parameter.requires_grad for parameter in model.network.parameters())


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_importance_and_special_gradient_in_one_study_are_as_alone(family, tmp_path):
    model = stirred(tiny(family, "classify"))
    measures = [SpecialGradient(), Importance(accumulate="grad"), Entropy(), HeadDistance()]
    both = attlas.study(model, list(LEARNT), measures, tmp_path / "both")
    for measure in measures:
        alone = attlas.study(model, list(LEARNT), [measure], tmp_path / measure.name)
        for name in set(alone.tables) - {"texts", "head_map"}:
            close_tables(
                both.table(name), alone.table(name), 2 * terms_of(model.network)
            )  # forward and back


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer", "t5", "bart"])
def test_a_base_model_has_special_gradients_but_no_importance(family, tmp_path):
    model = tiny(family)
    done = attlas.study(
        model, ["a cat sat.", "the dog"], ["special_gradient", "surface"], tmp_path / "study"
    )
    assert done.table("special_gradient")["other"].gt(0).all()
    for asked in ("importance", "special_gradient,importance"):
        with pytest.raises(
            ModelError, match=r"is loaded without a head .* so it has no loss"
        ) as caught:
            attlas.study(model, ["a cat"], asked, tmp_path / "refused")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "refused").exists()


def test_a_model_in_training_mode_gives_what_it_gives_in_evaluation():
    for task in ("mlm", "base"):
        model = tiny("bert", task)
        expected = differentiate(model, stream_batch(model), weights=True)
        model.network.train()
        found = differentiate(model, stream_batch(model), weights=True)
        assert model.network.training
        for one, other in zip(found.layers, expected.layers, strict=True):
            assert torch.equal(one.gradient().received, other.gradient().received)


def test_only_weights_that_were_asked_for_are_kept():
    model = tiny("bert", "classify")
    taken = []
    found = differentiate(model, stream_batch(model), taken.append)
    assert len(found.layers) == 0
    assert len(taken) == 3
    taken.clear()
    found = differentiate(model, stream_batch(model), taken.append, weights=True)
    assert list(found.layers) == taken
    plain = differentiate(model, stream_batch(model))
    torch.testing.assert_close(found.gates, plain.gates, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.taylor, plain.taylor, rtol=1e-5, atol=1e-9)


# cases


def cases(seed, texts=7, answers=3, baselines=2):
    """Random cases: the kind and the text of each, and what is right; and a list a case for
    loops."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    kinds = random.choice(["det", "obj", "all"], count).tolist()
    of = random.integers(0, texts, count) * 3 + 5
    return kinds, of, random.random((count, answers)) < 0.6, random.random((count, baselines)) < 0.3


def sums_slowly(kinds, of, answers, baselines, kind):
    by_text = defaultdict(list)
    for case, one in enumerate(kinds):
        if one == kind:
            by_text[of[case]].append(case)
    n = [len(cases) for cases in by_text.values()]
    h, b = (
        [
            [sum(int(right[case][one]) for case in cases) for cases in by_text.values()]
            for one in range(right.shape[1])
        ]
        for right in (answers, baselines)
    )  # answer text

    def products(one, other):
        return sum(a * b for a, b in zip(one, other, strict=True))

    out = [len(n), sum(n), products(n, n)]
    for counts in (h, b):
        out += [sum(one) for one in counts] + [products(one, one) for one in counts]
        out += [products(n, one) for one in counts]
    return out + [products(one, other) for one in h for other in b]


@pytest.mark.parametrize("seed", range(20))
def test_cases_are_summed_as_in_plain_loops_in_one_go_or_in_pieces(seed):
    kinds, of, answers, baselines = cases(seed)
    whole = Tally(width(3, 2))
    add_cases(whole, kinds, of, answers, baselines)
    read = proportions_of(sums_frame(whole, "relation"), "relation", 3, 2)
    assert set(read) == set(kinds)
    for kind, shares in read.items():
        expected = sums_slowly(kinds, of, answers, baselines, kind)
        assert shares.sums.tolist() == expected
        mine = [case for case, one in enumerate(kinds) if one == kind]
        assert shares.cases == len(mine)
        assert shares.texts == len({int(of[case]) for case in mine})
        np.testing.assert_allclose(shares.answers, answers[mine].mean(0))
        np.testing.assert_allclose(shares.baselines, baselines[mine].mean(0))
        for answer in range(3):
            for baseline in range(2):
                counts = [
                    [
                        sum(part)
                        for part in zip(
                            *(
                                (answers[case, answer], baselines[case, baseline], 1)
                                for case in mine
                                if of[case] == text
                            ),
                            strict=True,
                        )
                    ]
                    for text in {int(of[case]) for case in mine}
                ]
                alone = ClusteredProportions.of(*np.array(counts).T)
                assert alone.interval(0) == pytest.approx(shares.interval(answer))
                assert alone.baseline_interval(0) == pytest.approx(
                    shares.baseline_interval(baseline)
                )
                assert alone.difference(0, 0) == pytest.approx(shares.difference(answer, baseline))
                gap, low, high = shares.difference(answer, baseline)
                assert gap == pytest.approx(
                    answers[mine, answer].mean() - baselines[mine, baseline].mean()
                )
                assert low <= gap <= high
    pieces = Tally(width(3, 2))
    for text in np.unique(of):
        mine = np.flatnonzero(of == text)
        one = Tally(width(3, 2))
        add_cases(one, [kinds[case] for case in mine], of[mine], answers[mine], baselines[mine])
        pieces = pieces.merge(one)
    assert set(pieces.rows) == set(whole.rows)
    for kind in whole.rows:
        assert np.array_equal(pieces.rows[kind], whole.rows[kind])
    again = Tally(width(3, 2)).restored(whole.arrays())
    assert all(np.array_equal(again.rows[kind], whole.rows[kind]) for kind in whole.rows)


def corpora(kind, count=400, texts=120):
    """Simulated corpora: right answers, right baselines and cases of each text, [corpus, text]
    each; and the true shares."""
    random = np.random.default_rng(11)
    n = random.integers(3, 25, (count, texts))
    if kind == "independent":
        p, q = np.full(n.shape, 0.7), np.full(n.shape, 0.55)
    elif kind == "clustered":  # a text is easy or hard, for both alike
        hard = random.random(n.shape) < 0.4
        p, q = np.where(hard, 0.1, 0.95), np.where(hard, 0.2, 0.7)
    else:  # long texts are hard
        p, q = np.where(n > 14, 0.15, 0.9), np.where(n > 14, 0.3, 0.6)
    h, b = random.binomial(n, p), random.binomial(n, q)
    if kind == "independent":
        truth = 0.7, 0.55
    elif kind == "clustered":
        truth = 0.4 * 0.1 + 0.6 * 0.95, 0.4 * 0.2 + 0.6 * 0.7
    else:
        sizes = np.arange(3, 25)
        truth = tuple(
            float(np.sum(np.where(sizes > 14, low, high) * sizes) / sizes.sum())
            for low, high in ((0.15, 0.9), (0.3, 0.6))
        )
    return h, b, n, truth


@pytest.mark.parametrize("kind", ["independent", "clustered", "sized"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind):
    h, b, n, (share, other) = corpora(kind)
    held, held_other, held_gap, naive, widths = [], [], [], [], []
    for right, others, cases in zip(h, b, n, strict=True):
        shares = ClusteredProportions.of(right, others, cases)
        low, high = shares.interval(0)
        assert 0 <= low <= right.sum() / cases.sum() <= high <= 1
        held.append(low <= share <= high)
        low, high = shares.baseline_interval(0)
        held_other.append(low <= other <= high)
        gap, low, high = shares.difference(0, 0)
        assert low <= gap <= high
        held_gap.append(low <= share - other <= high)
        widths.append(high - low)
        low, high = wilson(right.sum() / cases.sum(), cases.sum())
        naive.append(low <= share <= high)
    assert 0.90 <= np.mean(held) <= 0.99
    assert 0.90 <= np.mean(held_other) <= 0.99
    assert 0.90 <= np.mean(held_gap) <= 0.99
    if kind == "independent":
        assert 0.90 <= np.mean(naive) <= 0.99
    else:
        assert np.mean(naive) < 0.8  # as if all cases were independent: too sure


def test_the_interval_of_pairs_is_narrower_than_that_of_strangers():
    """Answer and baseline are right on the same texts: what they share says nothing about their
    difference."""
    h, b, n, _ = corpora("clustered", count=1)
    together = ClusteredProportions.of(h[0], b[0], n[0])
    apart = ClusteredProportions.of(
        h[0], np.random.default_rng(0).permutation(b[0] / n[0]) * n[0], n[0]
    )
    assert np.ptp(together.difference(0, 0)[1:]) < 0.75 * np.ptp(apart.difference(0, 0)[1:])


def test_all_right_and_all_wrong_stay_within_0_and_1():
    outside = []
    for count in range(1, 400):
        n = np.array([count])
        shares = ClusteredProportions.of(n, n * 0, n)
        assert shares.difference(0, 0) == (1, -1, 1), "one text says nothing of others"
        (low, high), (low_other, high_other) = shares.interval(0), shares.baseline_interval(0)
        assert low < 1 == pytest.approx(high)
        assert high_other > 0 == pytest.approx(low_other)
        outside += [(count, low, high)] if high > 1 else []
        outside += [(count, low_other, high_other)] if low_other < 0 else []
    assert not outside, (
        f"{len(outside)} intervals reach out of [0, 1], such as (n, low, high) = {outside[0]}"
    )


def test_one_text_and_one_case_have_intervals():
    for n, h, b in (([1], [1], [0]), ([9], [4], [9]), ([3, 0, 2], [1, 0, 2], [0, 0, 0])):
        shares = ClusteredProportions.of(np.array(h), np.array(b), np.array(n))
        assert shares.texts == sum(one > 0 for one in n)  # texts without a case are none
        assert shares.cases == sum(n)
        for low, high in (shares.interval(0), shares.baseline_interval(0)):
            assert -1e-12 <= low < high <= 1 + 1e-12
        assert np.isfinite(shares.difference(0, 0)).all()


def test_wilsons_interval_is_that_of_the_textbook():
    """The p for which |share - p| is Z (1.96) standard errors of p."""
    for share, n in ((0.9, 100), (0.5, 3), (0.01, 5000)):
        for p in wilson(share, n):
            assert abs(share - p) == pytest.approx(Z * math.sqrt(p * (1 - p) / n), rel=1e-9)


# what a word attends to most


def most_slowly(head, of, count):
    """For each word the other word it attends to most, and the one that attends to it most; none
    that has a weight of 0."""
    tokens = [[token for token, word in enumerate(of) if word == one] for one in range(count)]

    def between(source, target):
        return sum(head[query][key] for query in tokens[source] for key in tokens[target]) / len(
            tokens[source]
        )

    attended, attending = [-1] * count, [-1] * count
    there = [word for word in range(count) if tokens[word]]
    for word in there:
        given = {other: between(word, other) for other in there if other != word}
        got = {other: between(other, word) for other in there if other != word}
        for found, weights in ((attended, given), (attending, got)):
            if any(weights.values()):
                found[word] = max(
                    weights, key=lambda other, weights=weights: (weights[other], -other)
                )
    return attended, attending


@given(strategies.generators, st.integers(1, 12), st.booleans())
@settings(max_examples=80, deadline=None)
def test_most_attended_is_its_twin(random, n, ties):
    words = int(random.integers(1, 7))
    of = random.integers(-1, words, n)
    if random.integers(2):
        of = np.where(of >= 0, np.sort(of), -1)
    count = int(of.max(initial=-1)) + 1 + int(random.integers(0, 2))
    if ties:  # eighths add up exactly; words of 1, 2 or 4 tokens divide them exactly
        weights = (random.integers(1, 4, (2, n, n)) / 8).astype(np.float32)
        of = np.where([np.sum(of == word) in (1, 2, 4) for word in of], of, -1)
    else:
        weights = random.random((2, n, n)).astype(np.float32)
    found = probe_kernels.most_attended(weights, of, count)
    for head in range(2):
        attended, attending = most_slowly(
            weights[head].astype(np.float64).tolist(), of.tolist(), count
        )
        assert found[0][head].tolist() == attended
        assert found[1][head].tolist() == attending


def test_most_attended_by_hand():
    of = np.array([-1, 0, 1, 1, 2, -1])  # [CLS] a sit ##ting cat [SEP]
    weights = np.zeros((1, 6, 6), dtype=np.float32)
    weights[0, 1] = [0.4, 0.2, 0.1, 0.1, 0.1, 0.1]  # a: 0.2 to sitting, 0.1 to cat
    weights[0, 2] = [0, 0.5, 0.5, 0, 0, 0]  # sit: half to a, half to itself
    weights[0, 3] = [0, 0.0, 0, 0, 0.5, 0.5]  # ting: half to cat: a tie
    weights[0, 4] = [0, 0.25, 0.125, 0.125, 0.5, 0]  # cat: as much to a as to sitting
    attended, attending = probe_kernels.most_attended(weights, of, 3)
    assert attended[0].tolist() == [1, 0, 0]  # among equals the earlier; not itself, not the marks
    assert attending[0].tolist() == [
        1,
        2,
        1,
    ]  # sitting gives a 0.25 (a mean) and cat as much: the earlier; a gives sitting 0.2, cat 0.25
    attended, attending = probe_kernels.most_attended(weights[:, :2, :2].copy(), of[:2].copy(), 1)
    assert attended.tolist() == attending.tolist() == [[-1]]  # one word only


# heads that find syntactic heads

VOCABULARY = ("the", "cat", "sitting", "dog", "unknown", "mat", ".", ",", "a", "very", "film")
RELATIONS = ("det", "nsubj", "obj", "nmod:poss", "punct", "nsubj:pass", "poss")


def sentence(id, words, heads, relations):
    tree = Dependencies(tuple(heads), tuple(relations), ("X",) * len(words))
    return Text(id, words=tuple(words), annotations={DEPENDENCIES: tree})


def sentences(seed, count=11, longest=9):
    """Random sentences with any trees; some have a possessor with its 's, some one word only; two
    have no tree."""
    random = np.random.default_rng(seed)
    out = []
    for number in range(count):
        n = 1 if number == 3 else int(random.integers(2, longest))
        words = random.choice(VOCABULARY, n).tolist()
        for place in range(1, n):
            if random.random() < 0.25:
                words[place] = str(random.choice(["'s", "'S", "s'", "’s"]))
        heads = [
            int(random.choice([other for other in range(-1, n) if other != word]))
            for word in range(n)
        ]
        heads[int(random.integers(n))] = ROOT
        relations = ["root" if head == ROOT else str(random.choice(RELATIONS)) for head in heads]
        out.append(sentence(str(number), words, heads, relations))
    return [*out, Text("words", words=("a", "cat")), Text("text", "a cat sat")]


def arcs_slowly(model, batches, convention):
    """Accuracy of every head for every relation in both directions, of every offset, and what was
    counted; words by tokenising each alone."""
    published = convention == "published"
    offsets = PUBLISHED_OFFSETS if published else OFFSETS
    right, by_offset, n, counted = defaultdict(Counter), defaultdict(Counter), Counter(), Counter()
    for layers in batches:
        batch = layers[0].batch
        for place, text in enumerate(batch.texts):
            counted["texts"] += 1
            tree = text.annotations.get(DEPENDENCIES)
            if tree is None:
                counted["without_tree"] += 1
                continue
            pieces = [
                word
                for word, string in enumerate(text.words)
                for _ in model.tokenizer.tokenize(string)
            ]
            begins = int(model.tokenizer.cls_token is not None)
            pieces = pieces[: batch.n_tokens - 2 * begins]
            of = [-1] * begins + pieces + [-1] * begins
            assert len(of) == batch.n_tokens
            seen, size = set(pieces), len(text.words)
            answers = {}
            for layer in layers:
                for head, weights in enumerate(layer.dense().weights[place].double().tolist()):
                    for direction, most in zip(
                        DIRECTIONS, most_slowly(weights, of, max(pieces) + 1), strict=True
                    ):
                        answers[direction, layer.index, head] = most
            for word, (own, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
                if not published and (own == ROOT or relation.split(":")[0] in ("root", "punct")):
                    continue
                if word not in seen or (own != ROOT and own not in seen):
                    counted["unseen"] += 1
                    continue
                counted["words"] += 1
                asking = word
                if published and relation in ("poss", "nmod:poss") and word + 1 in seen:
                    asking += text.words[word + 1].lower() in ("'s", "s'", "’s")
                for kind in ("all", relation):
                    n[kind] += 1
                    for answer, most in answers.items():
                        right[kind][answer] += own != ROOT and most[asking] == own
                    for offset in offsets:
                        target = asking + offset
                        target = (
                            min(max(target, ROOT), size - 1) if published else target
                        )  # ROOT stands before the words
                        by_offset[kind][offset] += (published or own != ROOT) and target == own
    return right, by_offset, n, counted


def compare_arcs(tables, expected, offsets):
    right, by_offset, n, counted = expected
    found = tables["arcs"]
    assert len(found) == len(n) * 24
    for row in found.itertuples():
        assert row.n == n[row.relation]
        hits = right[row.relation][row.direction, row.layer, row.head]
        assert row.accuracy == pytest.approx(hits / row.n), row
    rows = tables["arcs_offsets"]
    assert len(rows) == len(n) * len(offsets)
    for row in rows.itertuples():
        assert row.n == n[row.relation]
        assert row.accuracy == pytest.approx(by_offset[row.relation][row.offset] / row.n), row
    names = ("texts", "words", "unseen", "without_tree")
    assert tables["arcs_counts"].to_dict("records") == [{name: counted[name] for name in names}]


@pytest.mark.parametrize(
    ("family", "convention"),
    [
        ("bert", "sound"),
        ("bert", "published"),
        ("gpt2", "sound"),
        ("longformer", "sound"),
        ("longformer", "published"),
    ],
)
def test_arcs_are_their_twin(family, convention):
    model, measure = tiny(family), ArcCounts(convention=convention)
    texts = sentences(1)
    alone, together = stream(model, texts), joined(model, texts)
    assert len(together) < len(alone)
    tables = run(measure, alone, model)
    expected = arcs_slowly(model, alone, convention)
    assert expected[3]["words"] > 20
    assert expected[3]["unseen"] == 0
    assert expected[3]["without_tree"] == 2
    assert ("punct" in expected[2]) == ("root" in expected[2]) == (convention == "published")
    compare_arcs(tables, expected, measure.offsets)
    check_measure(measure, together, model)
    assert_same(run(measure, together, model), tables, 1e-9)
    if convention == "published":
        roots = tables["arcs"][tables["arcs"]["relation"] == "root"]
        assert len(roots) == 24
        assert not roots["accuracy"].any()
        rooted = tables["arcs_offsets"].query("relation == 'root' and offset >= 0")["accuracy"]
        assert not rooted.any(), "only what is clamped to the place before the words is ROOT"


@pytest.mark.parametrize("convention", ["sound", "published"])
@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_words_that_were_cut_off_are_unseen(family, convention):
    whole = tiny(family)
    model = attlas.load((whole.network, whole.tokenizer), max_length=8)
    texts = sentences(2, count=10, longest=12)
    batches = stream(model, texts)
    assert max(layers[0].n_tokens for layers in batches) == 8
    expected = arcs_slowly(model, batches, convention)
    assert expected[3]["unseen"] > 5
    compare_arcs(
        run(ArcCounts(convention=convention), batches, model),
        expected,
        ArcCounts(convention=convention).offsets,
    )
    sums = proportions_of(
        run(ArcCounts(convention=convention), batches, model)["arcs_sums"],
        "relation",
        24,
        len(ArcCounts(convention=convention).offsets),
    )
    assert sums["all"].cases == expected[3]["words"]


def test_arcs_of_a_study_are_those_of_a_fold(tmp_path):
    model, texts, measure = tiny("bert"), sentences(3), ArcCounts()
    done = attlas.study(model, texts, [measure], tmp_path / "study", workers=2)
    assert_same(
        {name: done.table(name) for name in ("arcs", "arcs_offsets", "arcs_sums", "arcs_counts")},
        run(measure, joined(model, texts), model),
    )
    shares = proportions_of(done.table("arcs_sums"), "relation", 24, len(OFFSETS))
    table = done.table("arcs")
    for relation, own in shares.items():
        np.testing.assert_allclose(
            table.loc[table["relation"] == relation, "accuracy"], own.answers
        )
    with_cases = [
        text
        for text in texts
        if DEPENDENCIES in text.annotations
        and any(
            relation not in ("root", "punct")
            for relation in text.annotations[DEPENDENCIES].relations
        )
    ]
    assert shares["all"].texts == len(with_cases)


def test_texts_without_trees_have_empty_tables():
    model = tiny("bert")
    tables = run(ArcCounts(), stream(model, ["a cat", "the dog"]), model)
    assert tables["arcs_counts"].to_dict("records") == [
        {"texts": 2, "words": 0, "unseen": 0, "without_tree": 2}
    ]
    assert len(tables["arcs"]) == len(tables["arcs_offsets"]) == len(tables["arcs_sums"]) == 0
    assert list(tables["arcs"].columns) == [
        "layer",
        "head",
        "relation",
        "direction",
        "accuracy",
        "n",
    ]
    one = sentence("one", ["cat"], [ROOT], ["root"])
    for convention, words in (("sound", 0), ("published", 1)):
        tables = run(ArcCounts(convention=convention), stream(model, [one]), model)
        assert tables["arcs_counts"]["words"].tolist() == [words]
        assert not tables["arcs"]["accuracy"].any()
        assert not tables["arcs_offsets"].query("offset >= 0")["accuracy"].any()
    with pytest.raises(MeasureError, match="convention is 'paper'"):
        ArcCounts(convention="paper")


def test_cases_by_hand():
    words = ("The", "cat", "'s", "mat", "was", "good", ".")
    tree = Dependencies(
        (1, 3, 1, 5, 5, ROOT, 5),
        ("det", "nmod:poss", "case", "nsubj", "cop", "root", "punct"),
        ("X",) * 7,
    )
    everything = np.ones(7, dtype=bool)
    sound = arc_targets(tree, words, everything, "sound", OFFSETS)
    assert sound.asking.tolist() == [0, 1, 2, 3, 4]
    assert sound.right.tolist() == [1, 3, 1, 5, 5]
    assert sound.relations == ("det", "nmod:poss", "case", "nsubj", "cop")
    assert [[OFFSETS[one] for one in np.flatnonzero(row)] for row in sound.offsets] == [
        [1],
        [2],
        [-1],
        [2],
        [1],
    ]
    assert sound.unseen == 0
    published = arc_targets(tree, words, everything, "published", PUBLISHED_OFFSETS)
    assert published.asking.tolist() == [0, 2, 2, 3, 4, 5, 6]  # the possessor by its 's
    assert published.right[[0, 1, 2, 3, 4, 6]].tolist() == [1, 3, 1, 5, 5, 5]
    assert published.right[5] not in range(
        -1, 7
    )  # no answer, and not the answer of a word without one
    assert [
        [PUBLISHED_OFFSETS[one] for one in np.flatnonzero(row)] for row in published.offsets
    ] == [
        [1],
        [1],
        [-1],
        [2],
        [1],
        [],
        [-1],
    ]  # the offset, too, is counted from the 's
    some = everything.copy()
    some[[2, 5]] = False  # dropped: 's and the root
    for convention, asking, unseen in (("sound", [0, 1], 3), ("published", [0, 1], 5)):
        found = arc_targets(tree, words, some, convention, OFFSETS)
        assert found.asking.tolist() == asking
        assert found.unseen == unseen
    last = arc_targets(
        Dependencies((ROOT, 0, 0), ("root", "dep", "dep"), ("",) * 3),
        ("a", "b", "c"),
        np.ones(3, dtype=bool),
        "published",
        PUBLISHED_OFFSETS,
    )
    assert [[PUBLISHED_OFFSETS[one] for one in np.flatnonzero(row)] for row in last.offsets] == [
        [-3, -2, -1],
        [-1],
        [-2],
    ]  # clamped to the sentence, ROOT before it


def test_a_word_that_sees_no_other_word_finds_nothing():
    """The first word of a causal model sees none but itself, and the last is seen by none: no head
    finds anything there."""
    model = tiny("gpt2")
    first = sentence("first", ["the", "cat", "sat"], [1, ROOT, 1], ["det", "root", "punct"])
    last = sentence("last", ["sat", "the", "cat"], [ROOT, 2, 0], ["root", "punct", "obj"])
    tables = run(ArcCounts(), stream(model, [first, last]), model)
    table = tables["arcs"]
    for relation, direction in (("det", "dependent->head"), ("obj", "head->dependent")):
        mine = table[(table["relation"] == relation) & (table["direction"] == direction)]
        assert mine["accuracy"].tolist() == [0.0] * 12, (
            f"{relation} {direction}: found with a weight of 0"
        )
