"""States that merge: each accumulator against numpy or sorting, in any grouping, through a file
and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.numpy import load, save

from attlas.core.states import Histogram, Moments, Rows, Sample, State, Sums, TopList
from tests import strategies

few = settings(max_examples=60)
LAYERS, HEADS = 2, 3


def with_gaps(rng, n_texts, offset=0.0):
    """Values [text, head], some of them absent."""
    values = offset + rng.integers(-8, 9, (n_texts, HEADS)) / 4
    return np.where(rng.random(values.shape) < 0.2, np.nan, values)


def moments_of(values, offset=0.0):
    """Mean and standard error of each column by pandas, which leaves NaN out; `offset` taken off
    first, so that nothing cancels."""
    frame = pd.DataFrame(values - offset)
    return frame.mean().to_numpy() + offset, frame.sem().to_numpy()


@few
@given(strategies.generators, st.sampled_from([0.0, 1e9, -1e9]))
def test_moments_are_numpys_after_every_update_whatever_the_offset(rng, offset):
    state, seen = Moments.zeros(LAYERS, HEADS), np.empty((0, HEADS))
    for _ in range(4):
        values = with_gaps(rng, int(rng.integers(0, 5)), offset)
        state.add(1, torch.from_numpy(values) if rng.integers(2) else values)
        seen = np.concatenate([seen, values])
        mean, error = moments_of(seen, offset)
        np.testing.assert_array_equal(state.count[1], np.isfinite(seen).sum(0))
        np.testing.assert_allclose(state.average()[1], mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            state.error()[1], error, rtol=1e-9, atol=1e-12 + abs(offset) * 1e-15
        )
    assert np.isnan(state.average()[0]).all()
    assert np.isnan(state.error()[0]).all()


@few
@given(strategies.generators, st.sampled_from([Sums, Moments]), st.integers(0, 4))
def test_merging_in_any_grouping_is_adding_in_order(rng, kind, cut):
    parts = [with_gaps(rng, int(rng.integers(0, 4))) for _ in range(4)]
    whole, singles = kind.zeros(LAYERS, HEADS), []
    for values in parts:
        single = kind.zeros(LAYERS, HEADS)
        single.add(0, values)
        whole.add(0, values)
        singles.append(single)
    left, right = (
        reduce(kind.merge, some, kind.zeros(LAYERS, HEADS))
        for some in (singles[:cut], singles[cut:])
    )
    backwards = reduce(lambda later, earlier: earlier.merge(later), reversed(singles))
    for merged in (left.merge(right), backwards):
        for name, array in whole.arrays().items():
            np.testing.assert_allclose(
                merged.arrays()[name], array, rtol=1e-12, atol=1e-12, err_msg=name
            )


@few
@given(strategies.generators)
def test_sums_are_totals_and_counts_of_what_is_there(rng):
    state, values = Sums.zeros(LAYERS, HEADS), with_gaps(rng, 5)
    for row in values:
        state.add(1, row[None])
    state.add(
        0, np.array([[np.inf, -np.inf, 1.0], [np.nan, 2.0, 3.0]])
    )  # what is not finite is absent, as in every accumulator
    np.testing.assert_allclose(state.mean()[1], moments_of(values)[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(state.mean()[0], [np.nan, 2.0, 2.0])
    np.testing.assert_array_equal(state.count[0], [0, 1, 2])


@few
@given(strategies.generators, st.integers(1, 9), st.sampled_from([np.float32, np.float64]))
def test_a_histogram_counts_as_numpy_does(rng, bins, dtype):
    state, counts = (
        Histogram.zeros(LAYERS, HEADS, bins=bins, low=-1, high=3),
        np.zeros((HEADS, bins), dtype=np.int64),
    )
    for _ in range(3):
        values = rng.uniform(-1, 3, (HEADS, 20)).astype(dtype)
        state.add(1, torch.from_numpy(values))
        counts += [np.histogram(row, bins, (-1, 3))[0] for row in values]
    np.testing.assert_array_equal(state.counts[1], counts)
    np.testing.assert_array_equal(state.edges(), np.linspace(-1, 3, bins + 1))
    np.testing.assert_array_equal(state.merge(state).counts[1], 2 * counts)
    assert not state.counts[0].any()


def test_a_histogram_puts_edges_right_ends_in_and_leaves_nan_out():
    state = Histogram.zeros(1, 2, bins=4)
    state.add(0, np.array([[0.0, 0.25, 0.5, 0.75, 1.0], [-5, 1e30, 7, -1e30, np.nan]]))
    assert state.counts[0].tolist() == [[1, 1, 1, 2], [2, 0, 0, 2]]


@few
@given(strategies.generators, st.integers(1, 4), st.integers(0, 12))
def test_a_top_list_is_the_head_of_the_sorted_entries_in_whatever_order_they_come(
    rng, size, n_texts
):
    scores, places = (
        np.where(
            rng.random((n_texts, HEADS)) < 0.2, np.nan, rng.integers(0, 4, (n_texts, HEADS)) / 2
        ),
        rng.permutation(n_texts),
    )
    one_by_one, halves = (
        TopList.empty(LAYERS, HEADS, size=size),
        [TopList.empty(LAYERS, HEADS, size=size) for _ in range(2)],
    )
    for text in range(n_texts):
        one_by_one.add(1, scores[text : text + 1], places[text : text + 1])
    for half, chosen in zip(
        halves, (slice(None, n_texts // 2), slice(n_texts // 2, None)), strict=True
    ):
        half.add(1, torch.from_numpy(scores[chosen]), tuple(places[chosen]))
    for found in (one_by_one, halves[0].merge(halves[1]), halves[1].merge(halves[0])):
        for head in range(HEADS):
            best = sorted(
                (-score, place)
                for score, place in zip(scores[:, head], places, strict=True)
                if np.isfinite(score)
            )[:size]
            best += [(np.inf, -1)] * (size - len(best))
            np.testing.assert_array_equal(found.scores[1, head], [-score for score, _ in best])
            np.testing.assert_array_equal(found.indices[1, head], [place for _, place in best])
        assert (found.indices[0] == -1).all()


@few
@given(strategies.generators, st.integers(1, 6), st.integers(0, 12))
def test_a_sample_is_the_smallest_keys_in_whatever_order_and_grouping_they_come(rng, size, count):
    """Few keys, so that ties decide; shapes differ from entry to entry; through arrays and back."""
    entries = [
        (int(rng.integers(0, 4)), tie, {"a": rng.random((tie % 3, 2)), "b": np.array([tie])})
        for tie in range(count)
    ]
    expected = sorted(entries, key=lambda entry: entry[:2])[:size]
    parts = [Sample(size) for _ in range(3)]
    for number in rng.permutation(count).tolist():
        key, tie, arrays = entries[number]
        part = parts[int(rng.integers(3))]
        entering = part.entering([key, 9], [tie, 99])
        part.add(key, tie, arrays)
        assert ((key, tie) in [one[:2] for one in part.entries]) == (0 in entering)
    kept = [part.arrays() for part in parts]
    whole = reduce(Sample.merge, parts)
    back = Sample(size).restored(load(save(whole.arrays())))
    for one in (whole, back, parts[0].merge(parts[1].merge(parts[2]))):
        assert [entry[:2] for entry in one.entries] == [entry[:2] for entry in expected]
        for (_, _, left), (_, _, right) in zip(one.entries, expected, strict=True):
            assert left.keys() == right.keys()
            for name in left:
                np.testing.assert_array_equal(left[name], right[name])
    for part, before in zip(parts, kept, strict=True):  # merging changes neither side
        after = part.arrays()
        assert all(np.array_equal(after[name], before[name]) for name in before)


def test_entries_of_one_batch_compete_with_each_other():
    sample = Sample(2)
    sample.add(5, 0, {})
    assert sample.entering([7, 3, 4, 9], [1, 2, 3, 4]) == [1, 2]
    assert sample.entering([7, 9], [1, 2]) == [0]
    assert Sample(2).entering([], []) == []


def test_rows_come_back_in_corpus_order_whatever_the_order_of_batches():
    batches = [
        ([4, 4, 1], ["d", "d", "b"], [0, 1, 0]),
        ([2], ["c"], [0]),
        ([0, 0], ["a", "a"], [0, 1]),
    ]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        parts = []
        for place, text, token in (batches[index] for index in order):
            parts.append(Rows.empty())
            parts[-1].add(
                np.array(place), {"text": np.array(text, dtype=object), "token": np.array(token)}
            )
        frame = reduce(Rows.merge, parts).frame()
        assert frame.to_dict("list") == {
            "text": ["a", "a", "b", "c", "d", "d"],
            "token": [0, 1, 0, 0, 0, 1],
        }
    assert Rows.empty().frame().empty


@dataclass
class Everything(State):
    sums: Sums
    sums_more: Sums  # its name begins with another's
    moments: Moments
    histogram: Histogram
    top: TopList
    table: Rows
    size: int = field(default=7, metadata={"parameter": True})

    @classmethod
    def fresh(cls):
        shape = (LAYERS, HEADS)
        return cls(
            Sums.zeros(*shape),
            Sums.zeros(HEADS),
            Moments.zeros(*shape),
            Histogram.zeros(*shape, bins=4, high=2),
            TopList.empty(*shape, size=2),
            Rows.empty(),
        )


@pytest.fixture
def filled():
    state, rng = Everything.fresh(), np.random.default_rng(0)
    values = with_gaps(rng, 5)
    state.sums.add(0, values)
    state.sums_more.add(slice(None), values)
    state.moments.add(1, values)
    state.histogram.add(1, values.T)
    state.top.add(0, values, range(5))
    state.table.add(np.arange(5), {"text": np.array(list("abcde"), dtype=object)})
    return state


def test_a_state_goes_through_a_file_and_only_its_rows_stay_behind(filled):
    arrays = filled.arrays()
    back = Everything.fresh().restored(load(save(arrays)))
    kinds = {
        "sums": "total count",
        "sums_more": "total count",
        "moments": "count mean squares",
        "histogram": "counts",
        "top": "scores places",
    }
    assert (
        list(back.arrays())
        == list(arrays)
        == [f"{name}.{key}" for name, keys in kinds.items() for key in keys.split()]
    )
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays()[name], array, err_msg=name)
        assert back.arrays()[name].dtype == array.dtype
    assert back.histogram.high == 2
    assert back.size == 7
    assert list(filled.streamed()) == ["table"]
    assert back.table.frame().empty
    back.moments.add(0, np.ones((1, HEADS)))  # what was read can be added to


def test_merging_fresh_states_is_fresh_and_merging_with_one_changes_nothing(filled):
    fresh = Everything.fresh().merge(Everything.fresh())  # a warning would be an error
    for name, array in Everything.fresh().arrays().items():
        np.testing.assert_array_equal(fresh.arrays()[name], array, err_msg=name)
    assert np.isnan(
        [*fresh.moments.average().flat, *fresh.moments.error().flat, *fresh.sums.mean().flat]
    ).all()
    for merged in (filled.merge(Everything.fresh()), Everything.fresh().merge(filled)):
        for name, array in filled.arrays().items():
            np.testing.assert_array_equal(merged.arrays()[name], array, err_msg=name)
        pd.testing.assert_frame_equal(merged.table.frame(), filled.table.frame())


def test_merging_leaves_both_sides_as_they_were(filled):
    before = {name: array.copy() for name, array in filled.arrays().items()}
    filled.merge(filled)
    for name, array in before.items():
        np.testing.assert_array_equal(filled.arrays()[name], array, err_msg=name)
    assert len(filled.table.frame()) == 5
