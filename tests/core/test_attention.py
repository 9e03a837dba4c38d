"""Attention of one layer: dense and banded give what the slow twins give, whatever was asked
before."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from attlas.core.attention import DenseAttention, row_entropy
from attlas.core.banded import BandedAttention
from attlas.support.errors import CaptureError
from tests import strategies
from tests.close import close
from tests.twins import attention as twins

near = {"rtol": 1e-6, "atol": 1e-6}
few = settings(max_examples=100)


def agrees(layer, weights, visible, seed=0):
    """Every answer of a layer is its twin's. Asked twice: no answer may change the layer."""
    n, n_texts, wide = weights.shape[-1], len(weights), np.broadcast_to
    dense = layer.dense()
    held = wide(
        dense.weights.numpy(), weights.shape
    )  # `weights` up to rounding, which decides ties
    np.testing.assert_allclose(held, weights, **near)
    assert np.array_equal(
        wide(True if dense.visible is None else dense.visible[:, 0], visible.shape), visible
    )
    rng = np.random.default_rng(seed)
    marked, reach, k = (
        rng.random((n_texts, n)) < 0.4,
        int(rng.integers(1, n + 2)),
        int(rng.integers(1, n + 2)),
    )
    size, span = (
        int(rng.integers(1, n + 4)),
        None if rng.random() < 0.5 else int(rng.integers(1, 2 * n + 2)),
    )
    lists = visible.tolist()
    expected = {
        "n_visible_keys": np.array([twins.n_visible_keys(one) for one in lists]),
        "n_visible_queries": np.array([twins.n_visible_queries(one) for one in lists]),
        "by_offset": twins.each_head(twins.by_offset, weights, reach=reach),
        "received": twins.each_head(twins.received, weights),
        "row_entropy": twins.each_head(twins.row_entropy, weights),
        "mass_to": twins.each_head(twins.mass_to, weights, marked),
        "top_keys": twins.each_head(twins.top_keys, held, lists, k=k),
        "top_queries": twins.each_head(twins.top_queries, held, lists, k=k),
        "kept_keys": twins.each_head(twins.top_keys, held, lists, marked, k=k),
        "kept_queries": twins.each_head(twins.top_queries, held, lists, marked, k=k),
        "grid": twins.each_head(twins.grid, weights, size=size, span=span).sum(0),
        "grid_of_one": twins.each_head(twins.grid, weights[-1:], size=size, span=span)[0],
    }
    for _ in range(2):
        found = {
            "n_visible_keys": layer.n_visible_keys[:, 0],
            "n_visible_queries": layer.n_visible_queries[:, 0],
            "by_offset": layer.by_offset(reach),
            "received": layer.received,
            "row_entropy": layer.row_entropy(),
            "mass_to": layer.mass_to(torch.from_numpy(marked)),
            "top_keys": torch.stack(layer.top_keys(k), -1),
            "top_queries": torch.stack(layer.top_queries(k), -1),
            "kept_keys": torch.stack(layer.top_keys(k, torch.from_numpy(marked)), -1),
            "kept_queries": torch.stack(layer.top_queries(k, torch.from_numpy(marked)), -1),
            "grid": layer.grid(size, span) * (n_texts / len(dense.weights)),
            "grid_of_one": layer.grid(size, span, len(dense.weights) - 1),
        }
        for name, twin in expected.items():
            np.testing.assert_allclose(
                wide(found[name].numpy(), twin.shape), twin, **near, err_msg=name
            )
    np.testing.assert_allclose(layer.by_offset(reach).sum(-1), 1, **near)


def agrees_in_words(layer, weights, visible):
    for text, (words, by_words) in enumerate(zip(layer.batch.words, layer.to_words(), strict=True)):
        of = words.of.tolist()
        expected = twins.each_head(twins.to_words, weights[text : text + 1], [of])
        np.testing.assert_allclose(by_words.dense().weights.sum(-1), 1, **near)
        agrees(by_words, expected, twins.visible_words(visible[text].tolist(), of)[None])


def agrees_if_uniform(layer, weights, visible):
    uniform = np.array([twins.uniform(one) for one in visible.tolist()])[:, None]
    agrees(layer.uniform, uniform, visible)
    agrees_in_words(layer.uniform, uniform, visible)


layers = st.one_of(strategies.dense_layers(), strategies.banded_layers())


@few
@given(layers, st.integers(0, 99))
def test_every_method_gives_what_its_twin_gives(layer, seed):
    agrees(*layer, seed)


@few
@given(strategies.banded_layers(), st.integers(0, 99))
def test_a_band_turned_dense_gives_the_same(layer, seed):
    dense = layer.layer.dense()
    assert np.array_equal(dense.weights, layer.weights)
    assert np.array_equal(dense.visible[:, 0], layer.visible)
    agrees(dense, *layer[1:], seed)


@few
@given(strategies.matrices(), st.integers(0, 99))
def test_float64_goes_without_kernels_and_gives_the_same(weights, seed):
    layer = DenseAttention(
        torch.from_numpy(weights).double(),
        strategies.make_batch(np.random.default_rng(seed), len(weights), weights.shape[-1]),
    )
    agrees(layer, weights, np.ones((len(weights), *weights.shape[-2:]), dtype=bool), seed)


@few
@given(layers)
def test_words_are_attended_to_by_sum_and_from_by_mean(layer):
    agrees_in_words(*layer)


@few
@given(layers)
def test_uniform_spreads_each_row_over_the_keys_it_sees(layer):
    agrees_if_uniform(*layer)


@few
@given(
    st.integers(1, 3), st.integers(2, 3), st.integers(1, 9), st.booleans(), strategies.generators
)
def test_a_head_that_sees_other_keys_is_as_it_is_alone(n_texts, n_heads, n, by_text, rng):
    """Where heads see different keys, every answer about a head is what it gives as the only
    head."""
    seen = (rng.random((n_texts if by_text else 1, n_heads, n, n)) < 0.5) | np.eye(n, dtype=bool)
    every = np.broadcast_to(seen, (n_texts, n_heads, n, n))
    weights = np.concatenate(
        [strategies.stochastic(rng, 1, every[:, head]) for head in range(n_heads)], axis=1
    )
    batch, keep = (
        strategies.make_batch(rng, n_texts, n),
        torch.from_numpy(rng.random((n_texts, n)) < 0.6),
    )
    layer = DenseAttention(torch.from_numpy(weights), batch, 0, torch.from_numpy(seen))
    assert np.array_equal(layer.over_heads().visible, seen.any(1, keepdims=True))
    for head in range(n_heads):
        one = slice(head, head + 1)
        alone = DenseAttention(
            layer.weights[:, one].contiguous(), batch, 0, torch.from_numpy(seen[:, one])
        )
        pairs = zip(
            (layer, layer.uniform, *layer.to_words()),
            (alone, alone.uniform, *alone.to_words()),
            strict=True,
        )
        for number, (mine, theirs) in enumerate(pairs):
            kept = keep if number < 2 else None
            assert torch.equal(mine.visible[:, one], theirs.visible)
            assert torch.equal(mine.n_visible_keys[:, one], theirs.n_visible_keys)
            assert torch.equal(mine.n_visible_queries[:, one], theirs.n_visible_queries)
            for name in ("top_keys", "top_queries"):
                for found, expected in zip(
                    getattr(mine, name)(n, kept), getattr(theirs, name)(n, kept), strict=True
                ):
                    assert torch.equal(found[:, one], expected)
            for of_keys in (False, True):
                assert sees(mine.visible_ranges(of_keys)[head], theirs.n_texts) == sees(
                    theirs.visible_ranges(of_keys)[0], theirs.n_texts
                )
                square = theirs.visible[:, 0].transpose(-1, -2) if of_keys else theirs.visible[:, 0]
                every_text = square.expand(theirs.n_texts, -1, -1)
                assert (
                    sees(theirs.visible_ranges(of_keys)[0], theirs.n_texts) == every_text.tolist()
                )


def sees(ranges, n_texts):
    """What the tokens of each text see, spelled out."""
    out = []
    for text in map(ranges.of, range(n_texts)):
        n = len(text.first)
        out.append(
            [
                [
                    bool(text.always[key])
                    or (
                        text.first[row] <= key < text.stop[row]
                        and not (text.hidden is not None and text.hidden[row][key])
                    )
                    for key in range(n)
                ]
                for row in range(n)
            ]
        )
    return out


@few
@given(strategies.matrices(causal=True))
def test_causal_rows_put_nothing_after_themselves(weights):
    visible = np.tril(np.ones(weights.shape[-2:], dtype=bool))[None]
    layer = DenseAttention(
        torch.from_numpy(weights),
        strategies.make_batch(np.random.default_rng(0), len(weights), weights.shape[-1]),
        0,
        torch.from_numpy(visible),
    )
    assert layer.by_offset(2)[..., 3 + 1 :].abs().max() < 1e-6
    assert layer.top_keys(weights.shape[-1])[1][:, :, 0, 1:].eq(-1).all()


@few
@given(strategies.matrices(), st.integers(0, 99))
def test_permuting_tokens_permutes_the_answers_and_leaves_entropy_between_0_and_ln_n(weights, seed):
    n = weights.shape[-1]
    order = np.random.default_rng(seed).permutation(n)
    batch = strategies.make_batch(np.random.default_rng(0), len(weights), n)
    layer, other = (
        DenseAttention(torch.from_numpy(weights), batch),
        DenseAttention(torch.from_numpy(weights[..., order, :][..., order]), batch),
    )
    np.testing.assert_allclose(other.received, layer.received[..., order], **near)
    np.testing.assert_allclose(other.row_entropy(), layer.row_entropy()[..., order], **near)
    np.testing.assert_allclose(other.top_keys(n)[0], layer.top_keys(n)[0][:, :, order], **near)
    assert layer.row_entropy().min() >= 0
    assert layer.row_entropy().max() <= np.log(n) + 1e-6
    np.testing.assert_allclose(layer.received.sum(-1), n, rtol=1e-6)


@pytest.mark.parametrize("reach", [0, 1, 4])
@pytest.mark.parametrize("n_global", [0, 1])
def test_a_text_of_one_token_attends_to_itself(reach, n_global):
    batch, one = strategies.make_batch(np.random.default_rng(0), 1, 1), torch.ones(1, 2, 1, 1)
    band = torch.zeros(1, 2, 1, 2 * reach + 1)
    if not n_global:
        band[..., reach] = 1
    banded = BandedAttention(
        band,
        torch.zeros(1, 2, 1, n_global),
        one[:, :, :n_global],
        torch.zeros(1, n_global, dtype=torch.long),
        batch,
    )
    for layer in (banded, DenseAttention(one, batch)):
        agrees(layer, one.numpy(), np.ones((1, 1, 1), dtype=bool))
        agrees_if_uniform(layer, one.numpy(), np.ones((1, 1, 1), dtype=bool))


def test_offsets_of_a_long_causal_text_lose_nothing():
    rng, visible = np.random.default_rng(0), np.tril(np.ones((1, 512, 512), dtype=bool))
    weights = strategies.stochastic(rng, 2, visible)
    found = DenseAttention(
        torch.from_numpy(weights), strategies.make_batch(rng, 1, 512), 0, torch.from_numpy(visible)
    ).by_offset(8)
    np.testing.assert_allclose(
        found, twins.each_head(twins.by_offset, weights, reach=8), rtol=0, atol=1e-6
    )


def test_gradients_that_were_not_asked_for_are_an_error():
    with pytest.raises(CaptureError, match="without gradients; observe with gradients=True"):
        DenseAttention(
            torch.ones(1, 1, 1, 1), strategies.make_batch(np.random.default_rng(0), 1, 1)
        ).gradient()


EXTREME = {
    "uniform over 512": torch.full((1, 512), 1 / 512),
    "uniform over 511": torch.full((1, 511), 1 / 511),
    "uniform over 4096": torch.full((1, 4096), 1 / 4096),
    "one-hot": torch.eye(512),
    "1e-30 beside 1": torch.tensor([[1.0] + [1e-30] * 511]),
    "1e-30 beside quarters": torch.tensor([[0.25] * 4 + [1e-30] * 60]),
    "denormals": torch.tensor([[0.5, 0.5] + [1e-45] * 30 + [1e-40] * 30]),
    "just below one": torch.tensor([[1 - 2**-24, 2**-24]]),
    "every size": torch.tensor([[2.0**-power for power in (*range(1, 127), 126)]]),
    "peaked": torch.softmax(
        torch.randn(500, 512, generator=torch.Generator().manual_seed(0)) * 8, -1
    ),
    "flat": torch.softmax(
        torch.randn(500, 512, generator=torch.Generator().manual_seed(0)) / 8, -1
    ),
}


@pytest.mark.parametrize("rows", EXTREME.values(), ids=EXTREME)
def test_entropy_of_extreme_rows_is_that_of_float64_but_for_rounding(rows):
    expected = torch.special.entr(rows.double()).sum(-1)
    rounding = {
        "terms": 2,
        "magnitude": max(1.0, float(expected.max())),
    }  # of the logarithm and of the result
    close(row_entropy(rows), expected, **rounding)
    np.testing.assert_allclose(row_entropy(rows.double()), expected, rtol=0, atol=1e-12)
    close(row_entropy(rows.T.contiguous().T), expected, **rounding)


def test_entropy_has_a_gradient():
    rows = torch.tensor([[0.2, 0.3, 0.5]], requires_grad=True)
    row_entropy(rows).sum().backward()
    np.testing.assert_allclose(rows.grad, -rows.detach().log() - 1, **near)


@given(st.one_of(strategies.dense_layers(), strategies.banded_layers()))
def test_by_form_calls_the_algorithm_of_the_form(drawn):
    form = drawn.layer.by_form(dense=lambda layer: layer, banded=lambda layer: layer)
    assert form is drawn.layer
    assert drawn.layer.by_form(dense=lambda _: "dense", banded=lambda _: "banded") == (
        "dense" if isinstance(drawn.layer, DenseAttention) else "banded"
    )
