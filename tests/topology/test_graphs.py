"""The shape of attention graphs against networkx, scipy and gudhi, one graph at a time."""

from __future__ import annotations

import itertools
import math
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

import attlas
from attlas.catalogue import MEASURES
from attlas.core.attention import DenseAttention
from attlas.core.banded import BandedAttention
from attlas.support.errors import MeasureError
from attlas.testing import fold, stream, tiny
from attlas.topology import barcode, betti, digraph, rips_features
from attlas.topology.barcode import H0_FEATURES, H1_FEATURES, BarcodeMeasure
from attlas.topology.betti import Betti
from attlas.topology.directed import DigraphMeasure
from attlas.topology.experiment import THRESHOLDS
from attlas.topology.templates import TEMPLATES, Templates, template_distances
from tests import strategies
from tests.twins import attention as attention_twins, topology as topology_twins

few = settings(max_examples=100)
near = {"rtol": 1e-9, "atol": 1e-9}
SENTENCES = ("The cat sat.", "It was not, in the end, a very good film.", "Why?")
TEXTS = (
    "a cat sat, on a mat.",  # 10 tokens, so that uniform attention is exactly at a threshold
    "the dog",
    "it was not very good. the film, a bad film",
    "cat",
    "a cat [SEP] the dog.",
    "he saw it and it saw a mat",
    "the cat saw the dog and the dog saw the cat, " * 3,
)
NAMES = ("betti", "digraph", "barcode", "templates")
FUNCTIONS = (betti, digraph, barcode, rips_features)


def arrays(function, *arguments, **options):
    """All that a function says of the shape of graphs, as a list of arrays."""
    found = function(*arguments, **options)
    return (
        [found]
        if function is rips_features
        else [found.h0, found.h1]
        if function is barcode
        else list(found)
    )


def attention(seed, *shape):
    """Rows that sum to one, with a few large weights each."""
    cells = np.random.default_rng(seed).random(shape) ** 4
    return cells / cells.sum(-1, keepdims=True)


def is_betti(found, weights, thresholds, loops=True):
    expected = topology_twins.at_each(topology_twins.betti, weights, thresholds, loops=loops)
    np.testing.assert_array_equal(np.stack(found, -1), expected)


def is_digraph(found, weights, thresholds, cap):
    expected = topology_twins.at_each(topology_twins.digraph, weights, thresholds, cap=cap)
    np.testing.assert_array_equal(np.stack(found, -1), expected)


@pytest.fixture(scope="module")
def real(minilm):
    """The embedded model's attention on a few sentences, each [layer, head, query, key]."""
    return [attlas.attention(minilm, sentence).weights for sentence in SENTENCES]


# Betti numbers


@few
@given(strategies.graphs(), st.booleans())
def test_betti_numbers_are_those_of_networkx(graphs, loops):
    found = betti(*graphs, loops=loops)
    is_betti(found, *graphs, loops)
    for numbers in found:
        assert numbers.dtype == np.int64
        assert numbers.shape == (*graphs.weights.shape[:-2], len(graphs.thresholds))


@few
@given(strategies.matrices(), st.booleans())
def test_betti_numbers_of_rows_that_sum_to_one_with_thresholds_among_the_weights(weights, loops):
    thresholds = np.unique(weights[weights > 0])[::3].tolist()
    is_betti(betti(weights, thresholds, loops), weights, thresholds, loops)


def test_betti_numbers_of_real_attention(real):
    for weights, loops in itertools.product(real, (True, False)):
        found = betti(weights, loops=loops)
        is_betti(found, weights, THRESHOLDS, loops)
        is_betti(betti(weights.double(), loops=loops), weights.double(), THRESHOLDS, loops)
        assert np.ptp(found.beta0) > 0
        assert np.ptp(found.beta1) > 0


KINDS = {
    "float64": lambda weights: weights,
    "float32": lambda weights: weights.astype(np.float32),
    "float16": lambda weights: weights.astype(np.float16),
    "longdouble": lambda weights: weights.astype(np.longdouble),
    "big-endian": lambda weights: weights.astype(">f4"),
    "fortran": np.asfortranarray,
    "view": lambda weights: np.repeat(np.repeat(weights, 2, -1), 3, -2)[..., ::3, ::2],
    "read-only": lambda weights: np.broadcast_to(weights, weights.shape),
    "list": lambda weights: weights.tolist(),
    "torch float64": torch.from_numpy,
    "torch float32": lambda weights: torch.from_numpy(weights).float(),
    "torch float16": lambda weights: torch.from_numpy(weights).half(),
    "torch bfloat16": lambda weights: torch.from_numpy(weights).bfloat16(),
    "torch with gradient": lambda weights: torch.from_numpy(weights).requires_grad_(),
    "torch view": lambda weights: torch.from_numpy(weights).mT.contiguous().mT,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_any_kind_of_numbers_gives_the_same(kind):
    weights = (
        np.random.default_rng(0).integers(0, 65, (2, 3, 9, 9)) / 64
    )  # exact in every precision
    thresholds = [0.5, 0.015625, 0.75, 0.9, 0.3]
    for loops in (True, False):
        is_betti(betti(kind(weights), thresholds, loops), weights, thresholds, loops)
    is_digraph(digraph(kind(weights), thresholds[2:4]), weights, thresholds[2:4], 500)
    np.testing.assert_array_equal(barcode(kind(weights)).h0, barcode(weights).h0)
    np.testing.assert_array_equal(barcode(kind(weights)).h1, barcode(weights).h1)
    np.testing.assert_allclose(rips_features(kind(weights)), rips_features(weights), **near)


@pytest.mark.parametrize("whole", [np.int64, np.uint8, bool])
def test_a_graph_of_zeros_and_ones(whole):
    edges = np.random.default_rng(0).random((3, 6, 6)) < 0.3
    is_betti(betti(edges.astype(whole), [1]), edges.astype(float), [1])
    is_digraph(digraph(edges.astype(whole), [1]), edges.astype(float), [1], 500)


def fortieths(kind):
    """Weights that are rounded thresholds, a graph of one token each, and the thresholds."""
    thresholds = [step / 40 for step in range(1, 41)]
    weights = np.array(thresholds).reshape(-1, 1, 1)
    weights = (
        torch.tensor(weights, dtype=kind) if isinstance(kind, torch.dtype) else weights.astype(kind)
    )
    assert all(
        weights[number] >= threshold for number, threshold in enumerate(thresholds)
    )  # say numpy and torch
    return weights, thresholds


@pytest.mark.parametrize("kind", [np.float64, np.float32, torch.float64, torch.float32], ids=str)
def test_a_weight_reaches_the_threshold_it_was_rounded_from(kind):
    weights, thresholds = fortieths(kind)
    is_betti(betti(weights, thresholds), weights, thresholds)
    is_betti(barcode(weights).betti(thresholds), weights, thresholds)
    is_digraph(digraph(weights, thresholds), weights, thresholds, 500)


@pytest.mark.parametrize("kind", [np.float16, torch.float16, torch.bfloat16], ids=str)
def test_a_weight_of_half_precision_too_reaches_the_threshold_it_was_rounded_from(kind):
    weights, thresholds = fortieths(kind)
    is_betti(betti(weights, thresholds), weights, thresholds)
    is_digraph(digraph(weights, thresholds), weights, thresholds, 500)


@pytest.mark.parametrize("kind", [np.float16, torch.float16, torch.bfloat16], ids=str)
def test_bars_of_half_precision_know_the_betti_numbers_at_their_own_weights(kind):
    weights, thresholds = fortieths(kind)
    np.testing.assert_array_equal(barcode(weights).betti(thresholds), betti(weights, thresholds))


@pytest.mark.parametrize("kind", [np.float16, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("threshold", [1e-30, 1e6, 1e39, 1e300])
def test_tiny_and_huge_thresholds_are_thresholds_of_half_precision_too(kind, threshold):
    weights = np.array([[0.5, 0.0], [0.0, 1.0]])
    weights = (
        torch.tensor(weights, dtype=kind) if isinstance(kind, torch.dtype) else weights.astype(kind)
    )
    loops = 2 if threshold < 1 else 0
    assert [numbers.tolist() for numbers in betti(weights, [threshold])] == [[2], [loops]]
    assert [numbers.tolist() for numbers in barcode(weights).betti([threshold])] == [[2], [loops]]
    assert digraph(weights, [threshold]).edges.tolist() == [loops]


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (3, 1, 1),
        (2, 3, 1, 1),
        (2, 2),
        (3, 2, 2),
        (2, 3, 2, 2),
        (512, 512),
        (2, 512, 512),
        (2, 1, 512, 512),
    ],
)
def test_the_smallest_and_a_large_graph(shape):
    weights = attention(0, *shape)
    thresholds = [0.025, 0.006, 1.0, 0.2]
    for loops in (True, False):
        is_betti(betti(weights, thresholds, loops), weights, thresholds, loops)
        single = weights.astype(np.float32)
        is_betti(betti(single, thresholds, loops), single, thresholds, loops)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_nothing_has_no_shape(lead):
    none, shape = np.zeros((*lead, 0, 0)), (*lead, len(THRESHOLDS))
    for numbers in (*betti(none), *digraph(none), *barcode(none).betti(THRESHOLDS)):
        np.testing.assert_array_equal(numbers, np.zeros(shape))
    np.testing.assert_array_equal(rips_features(none), np.zeros((*lead, 14)))
    if not lead:
        assert barcode(none).curve().empty


def test_no_graphs_have_no_numbers():
    none = np.zeros((2, 0, 5, 5))
    assert [numbers.shape for numbers in (*betti(none), *digraph(none))] == [(2, 0, 6)] * 7
    assert [bars.shape for bars in arrays(barcode, none)] == [(2, 0, 4), (2, 0, 11)]
    assert [numbers.shape for numbers in barcode(none, loops=False).betti(THRESHOLDS)] == [
        (2, 0, 6)
    ] * 2
    assert rips_features(none).shape == (2, 0, 14)


def test_many_thresholds_come_back_in_the_order_given():
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 301, (3, 12, 12)) / 300
    thresholds = rng.permutation(np.arange(1, 301) / 300).tolist()
    for loops in (True, False):
        is_betti(betti(weights, thresholds, loops), weights, thresholds, loops)
    is_digraph(digraph(weights, thresholds, cap=20), weights, thresholds, 20)


def test_more_thresholds_than_two_bytes_count():
    thresholds = np.linspace(1e-5, 1, 70_000)
    weights = np.array([[0.99, 0.97, 0], [0, 1, 0], [0.5, 0, 0.2]])
    expected = (weights[None] >= thresholds[:, None, None]).sum((1, 2))
    np.testing.assert_array_equal(digraph(weights, thresholds).edges, expected)
    np.testing.assert_array_equal(betti(weights, thresholds), barcode(weights).betti(thresholds))


@few
@given(strategies.graphs(min_tokens=1), st.integers(0, 99))
def test_numbers_do_not_change_when_tokens_are_permuted(graphs, seed):
    order = np.random.default_rng(seed).permutation(graphs.weights.shape[-1])
    other = graphs.weights[..., order, :][..., order]
    np.testing.assert_array_equal(betti(other, graphs.thresholds), betti(*graphs))
    np.testing.assert_array_equal(betti(other, graphs.thresholds, False), betti(*graphs, False))
    np.testing.assert_array_equal(digraph(other, graphs.thresholds), digraph(*graphs))
    for one, two in zip(arrays(barcode, other), arrays(barcode, graphs.weights), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(rips_features(other), rips_features(graphs.weights), **near)


@few
@given(strategies.graphs(min_tokens=1), st.booleans())
def test_pieces_fall_apart_and_cycles_open_as_the_threshold_rises(graphs, loops):
    thresholds = sorted({*graphs.thresholds, *np.linspace(0.01, 1.2, 30).tolist()})
    n = graphs.weights.shape[-1]
    beta0, beta1 = betti(graphs.weights, thresholds, loops)
    assert (np.diff(beta0) >= 0).all()
    assert (np.diff(beta1) <= 0).all()
    assert (beta0[..., -1] == n).all()
    assert (beta1[..., -1] == 0).all()
    assert beta0.min() >= 1
    assert beta1.min() >= 0


@few
@given(strategies.graphs(min_tokens=1))
def test_loops_are_the_only_difference_loops_make(graphs):
    (with_loops, cycles), (without, fewer) = betti(*graphs), betti(*graphs, loops=False)
    np.testing.assert_array_equal(with_loops, without)
    diagonal = np.diagonal(graphs.weights, axis1=-2, axis2=-1)
    loops = np.stack([(diagonal >= threshold).sum(-1) for threshold in graphs.thresholds], -1)
    np.testing.assert_array_equal(cycles - fewer, loops)


def test_a_graph_does_not_depend_on_its_neighbours():
    weights = attention(0, 40, 9, 9)
    weights[::3] = 0
    weights[1::5] = 1
    for function in FUNCTIONS:
        whole = arrays(function, weights)
        for number, one in enumerate(weights):
            for many, alone in zip(whole, arrays(function, one), strict=True):
                np.testing.assert_array_equal(many[number], alone)


@pytest.mark.parametrize(("count", "n"), [(72, 128), (9, 256), (1, 600), (3, 600)])
def test_several_threads_give_what_one_does(monkeypatch, count, n):
    weights = attention(0, count, n, n).astype(np.float32)
    asked = []

    def run(cores, cells):
        monkeypatch.setattr(
            "os.sched_getaffinity", lambda _: asked.append(cores) or set(range(cores))
        )
        monkeypatch.setattr("attlas.topology.graphs.CELLS", cells)
        found = [
            *betti(weights),
            *betti(weights, (0.01, 0.3), loops=False),
            *digraph(weights, cap=50),
        ]
        return found + arrays(barcode, weights)

    one = run(1, 2**40)
    for cores, cells in ((1, 2**21), (1, n * n), (2, 2**21), (3, 2**21), (4, 2**40), (2, 1)):
        for left, right in zip(one, run(cores, cells), strict=True):
            np.testing.assert_array_equal(left, right)
    assert set(asked) == {1, 2, 3, 4}


def test_minus_zero_is_zero():
    weights = attention(0, 5, 5)
    weights[1:3] = 0
    minus = np.where(weights == 0, -0.0, weights)
    assert np.signbit(minus).sum() == 10
    for kind in (np.float32, np.float64):
        for function in FUNCTIONS:
            pairs = zip(
                arrays(function, minus.astype(kind)),
                arrays(function, weights.astype(kind)),
                strict=True,
            )
            for one, two in pairs:
                np.testing.assert_array_equal(one, two)


def test_tiny_and_huge_thresholds_are_thresholds():
    weights = np.array([[0.5, 0.0, 1e-45], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]], dtype=np.float32)
    assert weights[0, 2] > 0
    for kind in (np.float32, np.float64):
        own = weights.astype(kind)
        for threshold, edges, beta0 in (
            (1e-60, 4, 2),
            (1e-320, 4, 2),
            (1.5, 0, 3),
            (1e30, 0, 3),
            (1e300, 0, 3),
        ):
            assert digraph(own, [threshold]).edges.tolist() == [edges]
            assert [numbers.tolist() for numbers in betti(own, [threshold])] == [
                [beta0],
                [edges - 3 + beta0],
            ]
            assert [numbers.tolist() for numbers in barcode(own).betti([threshold])] == [
                [beta0],
                [edges - 3 + beta0],
            ]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1e-9, -2.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_weights_that_are_none_are_refused(function, wrong, kind):
    for place in ((0, 0), (4, 4), (2, 0), (0, 3)):
        weights = attention(0, 3, 5, 5).astype(kind)
        weights[(1, *place)] = wrong
        with pytest.raises(
            MeasureError, match="graph 1 has a weight that is NaN, infinite or negative"
        ):
            function(weights)
    weights = attention(0, 70, 70).astype(kind)
    weights[69, 68] = wrong
    with pytest.raises(
        MeasureError, match="graph 0 has a weight that is NaN, infinite or negative"
    ):
        function(weights)


@pytest.mark.parametrize("function", [betti, digraph, barcode])
def test_in_a_large_stack_too_the_graph_that_is_wrong_is_named(function):
    weights = attention(0, 64, 100, 100)
    weights[37, 3, 5] = math.nan
    with pytest.raises(MeasureError, match="graph 37 has a weight that is NaN"):
        function(weights)


WRONG = {
    "vector": (np.ones(4), r"shape \(4,\).*square in the last two axes"),
    "number": (0.5, r"shape \(\).*square in the last two axes"),
    "not square": (np.ones((3, 4)), r"shape \(3, 4\).*square in the last two axes"),
    "stack of not square": (torch.ones(2, 5, 4), r"shape \(2, 5, 4\).*square in the last two axes"),
    "strings": ([["a", "b"], ["c", "d"]], "of type <U1; they must be numbers"),
    "objects": (np.full((2, 2), None), "of type object; they must be numbers"),
    "none": (None, "of type object; they must be numbers"),
    "complex": (np.ones((2, 2), complex), "of type complex128; they must be numbers"),
    "complex tensor": (
        torch.ones(2, 2, dtype=torch.complex64),
        "of type .*complex64; they must be numbers",
    ),
    "ragged": ([[0.5, 0.5], [1.0]], "they must be"),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_square_of_numbers_is_refused(function, wrong, message):
    with pytest.raises(MeasureError, match=message):
        function(wrong)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ([], "there are no thresholds; give at least one"),
        ([0.5, 0.0], "a threshold is 0.0; thresholds are numbers above 0"),
        ([-0.0], "a threshold is -0.0; thresholds are numbers above 0"),
        ([0.5, -0.1], "a threshold is -0.1; thresholds are numbers above 0"),
        ([math.nan], "a threshold is nan; thresholds are numbers above 0"),
        ([math.inf], "a threshold is inf; thresholds are numbers above 0"),
        ([0.1, 0.5, 0.1], "a threshold occurs twice in 0.1, 0.5, 0.1"),
        ("low", "threshold"),
        (["low"], "threshold"),
        ([[0.1, 0.2], [0.3, 0.4]], "threshold"),
        (None, "threshold"),
    ],
)
def test_thresholds_that_are_none_are_refused(thresholds, message):
    weights = attention(0, 4, 4)
    calls = (
        lambda: betti(weights, thresholds),
        lambda: digraph(weights, thresholds),
        lambda: barcode(weights).betti(thresholds),
        lambda: Betti(thresholds=thresholds),
        lambda: DigraphMeasure(thresholds=thresholds),
    )
    for call in calls:
        with pytest.raises(MeasureError, match=message):
            call()


# bars


def tree_weights(weights):
    """Weights of a maximum spanning tree by scipy, high to low.

    On ranks, so that nothing is rounded and a weight of 0 is an edge.
    """
    values, rank = np.unique(np.maximum(weights, weights.T), return_inverse=True)
    cost = len(values) - rank.reshape(weights.shape)  # at least 1
    found = minimum_spanning_tree(np.triu(cost, 1)).data.astype(int)
    return np.sort(values[len(values) - found])[::-1]


@few
@given(strategies.graphs(min_tokens=1), st.booleans())
def test_bars_are_the_spanning_tree_of_scipy_and_all_other_edges(graphs, loops):
    weights, n = graphs.weights, graphs.weights.shape[-1]
    bars = barcode(weights, loops)
    for place in np.ndindex(weights.shape[:-2]):
        one, h0, h1 = weights[place], bars.h0[place], bars.h1[place]
        np.testing.assert_array_equal(h0, tree_weights(one))
        assert (np.diff(h1) <= 0).all()
        edges = np.maximum(one, one.T)[np.triu_indices(n, 0 if loops else 1)]
        np.testing.assert_array_equal(np.sort(np.concatenate([h0, h1])), np.sort(edges))


@pytest.mark.parametrize("n", [1, 2, 3, 200])
def test_bars_of_a_small_and_a_large_graph(n):
    weights = attention(0, n, n)
    weights[weights < 1e-4] = 0
    bars = barcode(weights)
    np.testing.assert_array_equal(bars.h0, tree_weights(weights))
    assert len(bars.h1) == n * (n + 1) // 2 - (n - 1)
    thresholds = (0.01, 0.1, 0.9)
    is_betti(bars.betti(thresholds), weights, thresholds)


@few
@given(strategies.graphs(), st.booleans())
def test_bars_know_the_betti_numbers_at_any_threshold(graphs, loops):
    thresholds = [*graphs.thresholds, *np.random.default_rng(0).uniform(0.001, 1, 20).tolist()]
    found, expected = (
        barcode(graphs.weights, loops).betti(thresholds),
        betti(graphs.weights, thresholds, loops),
    )
    np.testing.assert_array_equal(found, expected)


def test_bars_of_real_attention_know_its_betti_numbers(real):
    thresholds = np.random.default_rng(0).uniform(0.001, 1, 50).tolist()
    for weights, loops in itertools.product(real, (True, False)):
        bars = barcode(weights, loops)
        np.testing.assert_array_equal(bars.betti(thresholds), betti(weights, thresholds, loops))
        for layer, head in itertools.product(range(6), range(12)):
            np.testing.assert_array_equal(
                bars.h0[layer, head], tree_weights(weights[layer, head].numpy())
            )


@few
@given(strategies.graphs(min_tokens=1), st.booleans())
def test_curves_change_exactly_where_the_betti_numbers_do(graphs, loops):
    n = graphs.weights.shape[-1]
    for one in graphs.weights.reshape(-1, n, n):
        curve = barcode(one, loops).curve()
        assert list(curve.columns) == ["threshold", "beta0", "beta1"]
        levels = np.concatenate([[2.0], curve["threshold"]])  # at 2 there is no edge
        assert (np.diff(levels) < 0).all()
        if len(curve):
            is_betti((curve["beta0"], curve["beta1"]), one, curve["threshold"].tolist(), loops)
        between = ((levels[:-1] + levels[1:]) / 2).tolist()
        before = np.concatenate([[[n, 0]], curve[["beta0", "beta1"]]])
        if between:
            np.testing.assert_array_equal(
                np.stack(betti(one.astype(float), between, loops), -1), before[:-1]
            )
        assert (np.diff(before, axis=0) != 0).any(1).all()
        positive = np.maximum(one, one.T)[np.triu_indices(n, 0 if loops else 1)] > 0
        assert before[-1, 1] - before[-1, 0] == positive.sum() - n


def test_curves_are_of_one_graph():
    with pytest.raises(MeasureError, match=r"curve\(\) is for one graph"):
        barcode(np.ones((2, 3, 3))).curve()


# directed graphs


def test_all_digraphs_of_three_tokens():
    edges = np.array(list(itertools.product([0, 1], repeat=9)), dtype=np.float32).reshape(512, 3, 3)
    is_digraph(digraph(edges, [1.0]), edges, [1.0], 500)
    is_betti(betti(edges, [1.0]), edges, [1.0])
    is_betti(betti(edges, [1.0], loops=False), edges, [1.0], False)


@few
@given(strategies.graphs(min_tokens=1), st.sampled_from([1, 2, 3, 7, 50, 500]))
def test_directed_invariants_are_those_of_networkx(graphs, cap):
    found = digraph(*graphs, cap=cap)
    is_digraph(found, *graphs, cap)
    assert [numbers.dtype.kind for numbers in found] == ["i", "i", "f", "i", "i"]


@settings(max_examples=150)
@given(st.integers(4, 7), st.floats(0.1, 0.9), strategies.generators)
def test_cycles_of_small_digraphs_are_all_counted(n, share, rng):
    edges = (rng.random((n, n)) < share).astype(np.float64)
    if n < 7 or share < 0.6:
        is_digraph(digraph(edges, [1.0], cap=10**6), edges, [1.0], 10**6)
    is_digraph(digraph(edges, [1.0], cap=40), edges, [1.0], 40)


def test_directed_invariants_of_real_attention(real):
    for weights in real:
        is_digraph(digraph(weights, cap=100), weights, THRESHOLDS, 100)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_cycles_of_a_complete_graph_by_the_formula(n):
    rounds = {size: math.comb(n, size) * math.factorial(size - 1) for size in range(1, n + 1)}
    complete = np.ones((n, n))
    total = sum(rounds.values())
    for cap in (1, n, n + 1, max(1, total - 1), total, total + 1):
        assert digraph(complete, [0.5], cap=cap).cycles.tolist() == [min(cap, total)]
    without = digraph(complete - np.eye(n), [0.5], cap=10**6)
    assert without.cycles.tolist() == [total - n]
    assert without.pairs.tolist() == [math.comb(n, 2)]


def test_a_cap_cuts_each_count_by_itself():
    weights = np.array([np.ones((6, 6)), np.eye(6), np.triu(np.ones((6, 6)), 1)]) * 0.6
    found = digraph(weights, [0.5, 0.7], cap=6)
    assert found.cycles.tolist() == [[6, 0], [6, 0], [0, 0]]
    assert found.edges.tolist() == [[36, 0], [6, 0], [15, 0]]
    assert found.components.tolist() == [[1, 6], [6, 6], [6, 6]]


@pytest.mark.parametrize("cap", [0, -3, 2.5, math.nan])
def test_a_cap_that_is_none_is_refused(cap):
    for call in (lambda: digraph(np.ones((3, 3)), cap=cap), lambda: DigraphMeasure(cap=cap)):
        with pytest.raises(MeasureError, match=f"cap is {cap}; it must be"):
            call()


def hard_graphs(n):
    """Graphs with very many paths: by name, whether they have at least 500 cycles and the graph."""
    ones, ring = np.ones((n, n)), np.roll(np.eye(n), 1, axis=1)
    back = np.zeros((n, n))
    back[-1, 0] = 1
    half = np.kron(np.eye(2), np.ones((n // 2, n // 2)))
    return {
        "complete": (True, ones),
        "complete without loops": (True, ones - np.eye(n)),
        "all forward": (False, np.triu(ones, 1)),
        "all forward and one back": (True, np.triu(ones, 1) + back),
        "all back and one forward": (True, np.tril(ones, -1) + back.T),
        "one ring": (False, ring),
        "ring with pairs": (n > 498, np.minimum(ring + ring.T, 1)),
        "two halves": (True, half - np.eye(n)),
    }


def test_cycles_are_counted_in_bounded_time():
    digraph(np.ones((1, 3, 3), np.float32), [0.5])  # compiled
    for n in (128, 512):
        for name, (many, edges) in hard_graphs(n).items():
            began = time.process_time()
            found = digraph(edges.astype(np.float32), [0.5], cap=500)
            seconds = time.process_time() - began
            assert seconds < 10, (name, n, seconds)
            assert (found.cycles[0] == 500) == many, name
            assert found.edges.tolist() == [edges.sum()]


# the Rips complex


@pytest.mark.parametrize(
    ("birth", "counted"),
    [(0.25, [1, 1, 1]), (0.125, [0, 1, 1]), (0.7, [1, 1, 1]), (0.95, [1, 1, 0])],
)
def test_holes_by_hand(birth, counted):
    """Four tokens in a ring at a distance, all others at distance 1: one hole, filled at 1."""
    weights = (1 - birth) * np.roll(np.eye(4), 1, axis=1)
    assert 1 - weights[0, 1] == birth
    h0, h1 = np.split(rips_features(weights), [6])
    np.testing.assert_allclose(
        h0,
        [
            3 * birth,
            math.log(3),
            birth,
            3 * (birth >= 0.75),
            3 * (birth >= 0.5),
            3 * (birth <= 0.25),
        ],
        **near,
    )
    np.testing.assert_allclose(h1, [birth, *counted, 1 - birth, 0, 0, 1], **near)


@few
@given(strategies.graphs(min_tokens=1, max_tokens=9))
def test_rips_features_are_those_of_plain_gudhi(graphs):
    n = graphs.weights.shape[-1]
    for one in graphs.weights.reshape(-1, n, n):
        np.testing.assert_allclose(rips_features(one), topology_twins.rips(one), **near)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 12, 30])
def test_rips_features_of_small_and_larger_graphs(n):
    weights = attention(n, 2, 3, n, n)
    found = rips_features(weights)
    assert found.shape == (2, 3, 14)
    np.testing.assert_allclose(
        found, attention_twins.each_head(topology_twins.rips, weights), **near
    )
    assert (found[..., -1] > 0).any() == (n > 3)


def test_rips_features_of_real_attention(real):
    for weights in real:
        found = rips_features(weights)
        np.testing.assert_allclose(
            found, attention_twins.each_head(topology_twins.rips, weights), **near
        )
        holes = found[..., -1] > 0
        assert 0 < holes.sum() < holes.size or weights.shape[-1] < 5


def test_weights_up_to_a_thousandth_are_no_edges():
    weights = np.zeros((2, 5, 5))
    weights[0, 0, 1], weights[1, 0, 1] = 1e-3, 1.0001e-3
    np.testing.assert_allclose(
        rips_features(weights), [topology_twins.rips(one) for one in weights], **near
    )
    assert rips_features(weights)[0, 0] == 4.0
    assert rips_features(weights)[1, 0] < 4.0


def test_without_holes_their_numbers_are_nan(monkeypatch):
    monkeypatch.setitem(sys.modules, "gudhi", None)
    weights = attention(0, 2, 6, 6)
    found = rips_features(weights, holes=False)
    assert np.isnan(found[:, 6:]).all()
    monkeypatch.undo()
    np.testing.assert_array_equal(found[:, :6], rips_features(weights)[:, :6])


def test_a_missing_gudhi_says_how_to_get_it(monkeypatch):
    model = tiny("bert")
    batches = stream(model, TEXTS[:3])
    assert BarcodeMeasure().h1_tokens == 64
    full = BarcodeMeasure().result(fold(BarcodeMeasure(), batches, model))
    monkeypatch.setitem(sys.modules, "gudhi", None)
    for call in (lambda: rips_features(attention(0, 5, 5)), lambda: BarcodeMeasure(h1_tokens=8)):
        with pytest.raises(MeasureError, match=r"pip install 'attlas\[topology\]'"):
            call()
    measure = BarcodeMeasure()
    assert measure == BarcodeMeasure(h1_tokens=0)
    tables = measure.result(fold(measure, batches, model))
    h0, h1 = (
        [name for name in tables["barcode"] if name.endswith(features)]
        for features in (H0_FEATURES, H1_FEATURES)
    )
    pd.testing.assert_frame_equal(tables["barcode"][h0], full["barcode"][h0])
    assert tables["barcode"][h1].isna().all(None)
    assert full["barcode"][h1].notna().all(None)
    assert (tables["barcode_heads"]["h1_texts"] == 0).all()
    assert (tables["barcode_heads"]["texts"] == 3).all()


# templates


def marks(batch):
    """Which tokens are commas, full stops and separators: three lists [text][token]."""
    kinds = [
        [[token == mark for token in tokens] for tokens in batch.tokens] for mark in (",", ".")
    ]
    return [*kinds, batch.sep.tolist()]


@few
@given(st.one_of(strategies.dense_layers(), strategies.banded_layers()))
def test_template_distances_are_their_twin(layer):
    found = template_distances(layer.layer)
    assert found.shape == (*layer.weights.shape[:2], len(TEMPLATES))
    kinds = marks(layer.layer.batch)
    np.testing.assert_allclose(
        found,
        attention_twins.each_head(topology_twins.templates, layer.weights, *kinds),
        rtol=1e-6,
        atol=1e-6,
    )
    uniform = np.array([attention_twins.uniform(one) for one in layer.visible.tolist()])[:, None]
    expected = attention_twins.each_head(topology_twins.templates, uniform, *kinds)
    found = np.broadcast_to(template_distances(layer.layer.uniform), expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [3, 16, 300])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_head_that_is_a_template_is_at_distance_0(n, kind):
    batch = strategies.make_batch(np.random.default_rng(3), 1, n)
    kinds = np.array(marks(batch), dtype=float)[:, 0]
    there = np.array([True] * 4 + [bool(own.any()) for own in kinds])
    assert there.sum() == (7 if n > 3 else 4)
    first = np.zeros((n, n))
    first[:, 0] = 1
    evenly = [np.tile(own / max(own.sum(), 1), (n, 1)) for own in kinds]
    heads = np.array([np.eye(n), first, np.eye(n, k=-1), np.eye(n, k=1), *evenly])[there]
    found = template_distances(DenseAttention(torch.from_numpy(heads)[None].to(kind), batch))[0]
    assert np.diagonal(found[:, there]).max() < 1e-6
    assert found[:, there][~np.eye(len(heads), dtype=bool)].min() > 0.1
    np.testing.assert_array_equal(found[:, ~there], 1)


def test_templates_of_real_attention(minilm):
    for layers in stream(minilm, SENTENCES):
        for layer in layers:
            expected = attention_twins.each_head(
                topology_twins.templates, layer.weights, *marks(layer.batch)
            )
            np.testing.assert_allclose(template_distances(layer), expected, rtol=1e-6, atol=1e-6)


# measures


def numbers(name, weights, batch):
    """What the pure function gives for the heads [head, n, n] of one text: [head, feature]."""
    if name == "templates":
        return attention_twins.each_head(topology_twins.templates, weights[None], *marks(batch))[0]
    if name == "barcode":
        return rips_features(weights)
    return np.concatenate({"betti": betti, "digraph": digraph}[name](weights), axis=-1)


FEATURES = {
    "betti": [
        f"{number}@{threshold}"
        for number in ("b0", "b1")
        for threshold in (0.025, 0.05, 0.1, 0.25, 0.5, 0.75)
    ],
    "digraph": [
        f"{number}@{threshold}"
        for number in ("components", "edges", "degree", "cycles", "pairs")
        for threshold in (0.025, 0.05, 0.1, 0.25, 0.5, 0.75)
    ],
    "barcode": [
        "h0_sum",
        "h0_entropy",
        "h0_longest_death",
        "h0_deaths_from_0.75",
        "h0_deaths_from_0.5",
        "h0_deaths_to_0.25",
        "h1_longest_birth",
        "h1_births_from_0.25",
        "h1_births_to_0.95",
        "h1_births_to_0.7",
        "h1_sum",
        "h1_entropy",
        "h1_std",
        "h1_count",
    ],
    "templates": ["self", "first", "previous", "next", "comma", "full_stop", "separator"],
}


@cache
def seen(family):
    model = tiny(family)
    return model, stream(model, TEXTS)


@cache
def tables_of(name, family):
    model, batches = seen(family)
    measure = MEASURES[name]()
    return measure.result(fold(measure, batches, model))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_row_a_text_with_what_the_function_gives(name, family):
    model, batches = seen(family)
    table = tables_of(name, family)[name]
    heads = [f"L{layer}.H{head}" for layer in range(3) for head in range(4)]
    assert list(table.columns) == [
        "text",
        *(f"{head}.{feature}" for head in heads for feature in FEATURES[name]),
    ]
    assert table["text"].tolist() == [str(number) for number in range(len(TEXTS))]
    kinds = set(table.dtypes.iloc[1:])
    assert kinds == {np.dtype(np.int32 if name == "betti" else np.float32)}
    for text, layers, row in zip(TEXTS, batches, table.iloc[:, 1:].to_numpy(), strict=True):
        weights = attlas.attention(model, text).weights.numpy()
        expected = np.array([numbers(name, one, layers[0].batch) for one in weights]).reshape(-1)
        if name in ("betti", "digraph"):
            np.testing.assert_array_equal(row, expected.astype(row.dtype))
        else:
            np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_heads_have_means_over_texts_beside_what_uniform_attention_gives(name, family):
    _, batches = seen(family)
    tables = tables_of(name, family)
    heads, texts = tables[f"{name}_heads"], tables[name].iloc[:, 1:].to_numpy().astype(float)
    texts = texts.reshape(len(TEXTS), 12, -1)
    extra = ["texts", "h1_texts"] if name == "barcode" else []
    ends = ("", "_uniform", "_error", "_difference_error")
    kinds = [f"{feature}{kind}" for feature in FEATURES[name] for kind in ends]
    assert list(heads.columns) == ["layer", "head", *kinds, *extra]
    uniform = []
    for layers in batches:
        uniform.append([])
        for layer in layers:
            visible = layer.dense().visible
            visible = np.ones((layer.n_tokens,) * 2) if visible is None else visible[0, 0].numpy()
            even = np.array(attention_twins.uniform(visible.tolist()), dtype=np.float32)[None]
            uniform[-1].append(numbers(name, even, layer.batch)[0])
    by_text = np.repeat(np.array(uniform), 4, axis=1)  # text, layer and head, feature
    uniform = by_text.mean(0)
    for number, feature in enumerate(FEATURES[name]):
        values = pd.DataFrame(texts[:, :, number])
        np.testing.assert_allclose(heads[feature], values.mean(), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(heads[f"{feature}_error"], values.sem(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            heads[f"{feature}_uniform"], uniform[:, number], rtol=1e-6, atol=1e-6
        )
        apart = (values - by_text[:, :, number]).sem()
        np.testing.assert_allclose(
            heads[f"{feature}_difference_error"], apart, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_uniform_attention_that_equals_a_threshold_reaches_it(family):
    model = tiny(family, **({"attention_window": [20, 20, 20]} if family == "longformer" else {}))
    cases = [("a cat sat, on a mat.", 10), ("a cat", 4), ("a " * 18, 20), ("a " * 38, 40)]
    for text, n in cases[: 4 if family == "bert" else 2]:  # longer ones are wider than the window
        batches = stream(model, [text])
        assert batches[0][0].n_tokens == n
        measure = Betti(thresholds=(1 / n, 0.3))
        heads = measure.result(fold(measure, batches, model))["betti_heads"]
        names = [
            f"{number}@{threshold}_uniform" for threshold in (1 / n, 0.3) for number in ("b0", "b1")
        ]
        np.testing.assert_array_equal(heads[names], [[1, n * (n + 1) / 2 - n + 1, n, 0]] * 12)


def test_parameters_reach_the_numbers():
    model, batches = seen("bert")
    measure = Betti(thresholds=[0.3, 0.07], loops=False)
    assert repr(measure) == "Betti(thresholds=(0.3, 0.07), loops=False)"
    table = measure.result(fold(measure, batches, model))["betti"]
    assert list(table.columns[:5]) == [
        "text",
        "L0.H0.b0@0.3",
        "L0.H0.b0@0.07",
        "L0.H0.b1@0.3",
        "L0.H0.b1@0.07",
    ]
    directed = DigraphMeasure(thresholds=(0.07,), cap=3)
    cycles = directed.result(fold(directed, batches, model))["digraph"]
    for number, layers in enumerate(batches):
        weights = np.concatenate([layer.weights[0] for layer in layers])
        expected = np.concatenate(betti(weights, (0.3, 0.07), loops=False), -1).reshape(-1)
        np.testing.assert_array_equal(table.iloc[number, 1:].to_numpy(int), expected)
        expected = np.concatenate(digraph(weights, (0.07,), cap=3), -1).reshape(-1)
        np.testing.assert_array_equal(
            cycles.iloc[number, 1:].to_numpy(float), expected.astype(np.float32)
        )
    assert cycles.filter(like="cycles").max(None) == 3
    with pytest.raises(MeasureError, match="h1_tokens is -1; it must be a whole number at least 0"):
        BarcodeMeasure(h1_tokens=-1)


def test_thresholds_that_differ_have_columns_that_differ():
    model, batches = seen("bert")
    for measure in (
        Betti(thresholds=(0.1, 0.1000001)),
        DigraphMeasure(thresholds=(0.1, 0.1000001)),
    ):
        for table in measure.result(fold(measure, batches[:1], model)).values():
            assert table.columns.is_unique


def test_texts_above_h1_tokens_have_no_holes_and_are_counted():
    model, batches = seen("bert")
    measure = BarcodeMeasure(h1_tokens=10)
    tables = measure.result(fold(measure, batches, model))
    lengths = np.array([layers[0].n_tokens for layers in batches])
    assert {9, 10, 11} & set(lengths) >= {10}
    assert lengths.min() < 10 < lengths.max()
    full = tables_of("barcode", "bert")["barcode"]
    holes = [name for name in full if name.endswith(H1_FEATURES)]
    rest = [name for name in full if name not in holes]
    short = lengths <= 10
    pd.testing.assert_frame_equal(tables["barcode"][rest], full[rest])
    pd.testing.assert_frame_equal(tables["barcode"][holes][short], full[holes][short])
    assert tables["barcode"][holes][~short].isna().all(None)
    assert full[holes].notna().all(None)
    heads = tables["barcode_heads"]
    assert (heads["texts"] == len(TEXTS)).all()
    assert (heads["h1_texts"] == short.sum()).all()
    values = full[[name for name in holes if name.endswith("h1_sum")]][short]
    np.testing.assert_allclose(heads["h1_sum"], values.mean().to_numpy(), rtol=1e-6, atol=1e-7)
    nothing = BarcodeMeasure(h1_tokens=0)
    heads = nothing.result(fold(nothing, batches, model))["barcode_heads"]
    assert (heads["h1_texts"] == 0).all()
    assert heads["h1_sum"].isna().all()
    assert heads["h1_sum_uniform"].isna().all()


# the band


def agree(measure, layer, dense):
    """A band gives what its square form gives; counts exactly."""
    found, expected = measure.values(layer), measure.values(dense)
    if isinstance(measure, (Betti, DigraphMeasure)):
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def never(self):
    raise AssertionError("the band was expanded")


FROM_THE_BAND = (
    Betti(),
    Betti(thresholds=(0.01, 0.3), loops=False),
    DigraphMeasure(),
    BarcodeMeasure(h1_tokens=0),
    Templates(),
)


def test_the_band_of_longformer_gives_what_the_square_gives_and_is_not_expanded(monkeypatch):
    _, batches = seen("longformer")
    layers = list(itertools.chain.from_iterable(batches))
    reaches, lengths = {layer.reach for layer in layers}, {layer.n_tokens for layer in layers}
    assert min(lengths) <= min(reaches) + 1
    assert max(lengths) > 2 * max(reaches) + 1
    squares = [(layer.dense(), layer.uniform.dense()) for layer in layers]
    for layer, (square, even) in zip(layers, squares, strict=True):
        agree(BarcodeMeasure(), layer, square)
        agree(BarcodeMeasure(), layer.uniform, even)
    monkeypatch.setattr(BandedAttention, "dense", never)
    for layer, (square, even) in zip(layers, squares, strict=True):
        for measure in FROM_THE_BAND:
            agree(measure, layer, square)
            agree(measure, layer.uniform, even)


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_longformer_are_made_from_the_band(monkeypatch, name):
    model, batches = seen("longformer")
    fresh = stream(model, TEXTS)  # on which nothing was worked out yet
    monkeypatch.setattr(BandedAttention, "dense", never)
    measure = BarcodeMeasure(h1_tokens=0) if name == "barcode" else MEASURES[name]()
    tables = measure.result(fold(measure, fresh, model))
    monkeypatch.undo()
    squares = [[layer.dense() for layer in layers] for layers in batches]
    expected = measure.result(fold(measure, squares, model))
    for table in (name, f"{name}_heads"):
        pd.testing.assert_frame_equal(tables[table], expected[table], rtol=1e-6, atol=1e-6)


@few
@given(strategies.banded_layers(max_tokens=14))
def test_any_band_gives_what_its_square_gives(layer):
    square = DenseAttention(
        torch.from_numpy(layer.weights), layer.layer.batch, 0, torch.from_numpy(layer.visible)
    )
    ties = tuple(np.unique(layer.weights[layer.weights > 0]).astype(float)[:3].tolist())
    for measure in (
        *FROM_THE_BAND,
        BarcodeMeasure(),
        Betti(thresholds=ties),
        DigraphMeasure(thresholds=ties),
    ):
        agree(measure, layer.layer, square)
        agree(measure, layer.layer.uniform, square.uniform)


@pytest.mark.parametrize("n_global", [pytest.param(0, marks=pytest.mark.slow), 1, 4])
@pytest.mark.parametrize(
    "kind", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)]
)
def test_a_long_band_gives_what_its_square_gives(monkeypatch, n_global, kind):
    n, reach, rng = 300, 7, np.random.default_rng(n_global)
    places = np.sort(rng.permutation(n)[:n_global])
    query, key = np.indices((n, n))
    is_global = np.isin(np.arange(n), places)
    visible = (abs(key - query) <= reach) | is_global | is_global[:, None]
    weights = torch.from_numpy(strategies.stochastic(rng, 3, visible[None])).to(kind)
    local = weights * torch.from_numpy(~is_global & ~is_global[:, None])
    band = torch.zeros(1, 3, n, 2 * reach + 1, dtype=kind)
    for offset in range(-reach, reach + 1):
        band[:, :, max(0, -offset) : n - max(0, offset), offset + reach] = local.diagonal(
            offset, -2, -1
        )
    columns = weights[..., places] * torch.from_numpy(~is_global[:, None])
    batch = strategies.make_batch(rng, 1, n)
    layer = BandedAttention(
        band, columns, weights[:, :, places], torch.from_numpy(places)[None], batch
    )
    assert torch.equal(layer.dense().weights, weights)
    square = DenseAttention(weights, batch, 0, torch.from_numpy(visible)[None])
    even = square.uniform
    monkeypatch.setattr(BandedAttention, "dense", never)
    for measure in FROM_THE_BAND:
        agree(measure, layer, square)
        agree(measure, layer.uniform, even)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -0.1])
def test_weights_of_a_band_that_are_none_are_refused(wrong):
    batch = strategies.make_batch(np.random.default_rng(0), 1, 5)
    for part, place in ((0, (0, 1, 2, 1)), (1, (0, 1, 4, 0)), (2, (0, 1, 0, 0)), (2, (0, 1, 0, 4))):
        parts = [
            torch.full((1, 2, 5, 3), 0.2),
            torch.full((1, 2, 5, 1), 0.2),
            torch.full((1, 2, 1, 5), 0.2),
        ]
        parts[part][place] = wrong
        layer = BandedAttention(*parts, torch.tensor([[0]]), batch)
        for measure in (Betti(), DigraphMeasure()):
            with pytest.raises(
                MeasureError, match="graph 1 has a weight that is NaN, infinite or negative"
            ):
                measure.values(layer)


# studies


def test_a_study_has_the_tables_and_one_worker_and_two_write_the_same_bytes(tmp_path: Path) -> None:
    draw, words = (
        np.random.default_rng(0),
        ["the", "a", "cat", "dog", "sat", "saw", "mat", ",", "."],
    )
    texts = [" ".join(draw.choice(words, draw.integers(1, 14))) for _ in range(600)]  # two shards
    measures = ["betti", DigraphMeasure(cap=30), BarcodeMeasure(h1_tokens=6), "templates"]
    model = tiny("bert")
    studies = [
        attlas.study(model, texts, measures, out=tmp_path / str(workers), workers=workers)
        for workers in (1, 2)
    ]
    files = [
        {path.name: path.read_bytes() for path in (study.folder / "tables").iterdir()}
        for study in studies
    ]
    assert files[0] == files[1]
    study = studies[0]
    ends = ("", "_heads", "_replicates", "_reliability")
    assert set(study.tables) == {"texts", *(f"{name}{end}" for name in NAMES for end in ends)}
    for name in NAMES:
        table = study.table(name)
        assert table["text"].tolist() == [str(number) for number in range(600)]
        assert list(table.columns[:2]) == ["text", f"L0.H0.{FEATURES[name][0]}"]
        assert set(table.dtypes.iloc[1:]) == {np.dtype(np.int32 if name == "betti" else np.float32)}
    for number in (0, 17, 599):
        expected = np.concatenate(
            betti(attlas.attention(model, texts[number]).weights), -1
        ).reshape(-1)
        assert study.table("betti", text=str(number)).iloc[0, 1:].tolist() == expected.tolist()
    short = (study.table("texts")["tokens"] <= 6).sum()
    assert 0 < short < 600
    assert (study.table("barcode_heads")["h1_texts"] == short).all()
    assert study.table("barcode")["L2.H3.h1_count"].notna().sum() == short
    atlas = study.atlas()
    assert atlas[["layer", "head"]].to_numpy().tolist() == [
        [layer, head] for layer in range(3) for head in range(4)
    ]
    heads = study.table("betti_heads")
    for feature in ("b0@0.1", "b0@0.1_uniform", "b1@0.75", "b1@0.75_error"):
        own = [
            column
            for column in atlas
            if column.startswith("betti") and column.endswith(f".{feature}")
        ]
        assert len(own) == 1
        assert atlas[own[0]].equals(heads[feature])
    np.testing.assert_allclose(
        heads["b0@0.1"], study.table("betti").filter(regex=r"\.b0@0\.1$").mean(), rtol=1e-12
    )


def test_measures_with_thresholds_of_ones_own_run_in_a_study(tmp_path: Path) -> None:
    measures = [Betti(thresholds=(0.2, 0.02)), DigraphMeasure(thresholds=(0.2, 0.02))]
    study = attlas.study(tiny("longformer"), TEXTS, measures, out=tmp_path / "study")
    assert study.manifest["measures"]["betti"] == "Betti(thresholds=(0.2, 0.02), loops=True)"
    assert list(study.table("betti").columns[:3]) == ["text", "L0.H0.b0@0.2", "L0.H0.b0@0.02"]
    assert study.table("digraph").shape == (len(TEXTS), 1 + 12 * 5 * 2)
