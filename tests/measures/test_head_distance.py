"""Divergences between heads, against loops and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import jensenshannon

from attlas.core import kernels
from attlas.core.attention import DenseAttention
from attlas.core.banded import BandedAttention
from attlas.measures.head_distance import HeadDistance, divergences
from attlas.measures.head_map import square
from attlas.support.errors import MeasureError
from attlas.testing import assert_same, check_measure
from tests import strategies
from tests.builders.heads import TEXTS, joined, run, seen
from tests.close import close

ARCHITECTURES = ("bert", "gpt2", "longformer")


# logarithms


def test_x_log_x_is_that_of_float64():
    x = np.concatenate([np.geomspace(1e-30, 2, 4000), np.linspace(0.5, 2, 4000)]).astype(np.float32)
    found = np.array([kernels._x_log_x(value) for value in x])
    exact = x.astype(np.float64) * np.log(x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=2e-7)
    assert kernels._x_log_x(np.float32(0)) == 0
    assert kernels._x_log_x(np.float32(1)) == 0


@given(strategies.matrices(max_tokens=70))
@settings(max_examples=30)
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
    """Between all heads of all layers, and of each from uniform attention; and the
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
@settings(max_examples=60)
def test_divergences_of_any_layer_are_their_twin_and_their_root_is_a_distance(drawn, smoothing):
    between, from_even, _ = slowly([drawn.layer], smoothing)
    found, found_even = divergences([drawn.layer], smoothing)
    rows = drawn.weights.shape[0] * drawn.weights.shape[2]
    np.testing.assert_allclose(found, between, rtol=1e-5, atol=5e-7 * rows)
    np.testing.assert_allclose(found_even, from_even, rtol=1e-5, atol=5e-7 * rows)
    root = np.sqrt(found)
    assert (root[:, None] <= root[:, :, None] + root[None] + 2e-3 * math.sqrt(rows)).all()


@given(strategies.generators)
@settings(max_examples=20)
def test_layers_of_several_reaches_and_heads_that_are_the_same(random):
    """A narrow band and a wide one of the same batch, and the very same heads again in another
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
