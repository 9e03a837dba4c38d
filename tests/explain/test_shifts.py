"""The band of one text's tau: against loops and scipy, and on texts that agree by chance only."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from attlas.explain.agreement import CONVENTIONS, compare
from attlas.explain.shifts import SHIFTS, band, shifted_taus, spread_shifts, tau_band
from attlas.stats.chance import permutations
from tests.twins.explain import shifted_taus_slowly

few = settings(max_examples=60)  # the first call compiles


@st.composite
def texts(draw):
    """Scores with ties of two methods in a text, and which of its tokens are compared."""
    n = draw(st.integers(3, 30))
    some = st.lists(st.integers(-3, 3), min_size=n, max_size=n)
    keep = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    a, b = (np.array(draw(some), dtype=np.float64) for _ in range(2))
    return a, b, keep


@few
@given(texts(), st.sampled_from(CONVENTIONS))
def test_shifted_taus_are_those_of_a_loop(text, convention):
    a, b, keep = text
    taus = shifted_taus(a, b, keep, convention)
    if keep.sum() < 2:
        assert taus.size == 0
        return
    if convention == "published" and (np.ptp(a) == 0 or np.ptp(b) == 0):
        assert taus.size == 0  # scaled scores are not defined
        return
    shifts = range(1, int(keep.sum()))
    slow = shifted_taus_slowly(a, b, keep, shifts, convention == "published")
    np.testing.assert_allclose(taus, slow, atol=1e-12)


@few
@given(texts(), st.sampled_from(CONVENTIONS))
def test_no_shift_is_the_tau_that_is_compared(text, convention):
    """Shifting by all compared tokens is no shift, and both sides may be exchanged."""
    a, b, keep = text
    where = np.flatnonzero(keep)
    if len(where) < 2:
        return
    turned = b.copy()
    turned[where] = np.roll(b[where], -1)
    value = compare(a, b, keep, convention=convention, permutations=1)[0][1]
    taus = shifted_taus(a, turned, keep, convention)
    if taus.size and not np.isnan(value):
        assert taus[0] == pytest.approx(value, abs=1e-12)
        if convention == "sound":
            back = shifted_taus(b, a, keep)
            np.testing.assert_allclose(np.sort(back), np.sort(shifted_taus(a, b, keep)), atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 40, 200, 201, 5000])
def test_shifts_differ_and_are_spread_over_the_text(n):
    shifts = spread_shifts(n)
    assert len(shifts) == min(n - 1, SHIFTS) == len(set(shifts.tolist()))
    assert (shifts[0], shifts[-1]) == (1, n - 1)
    assert np.diff(shifts).max(initial=1) <= math.ceil(n / SHIFTS) + 1


@few
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=250))
def test_a_band_leaves_out_as_many_on_both_sides(values):
    low, high, level, shifts = band(np.array(values, dtype=np.float64))
    assert shifts == len(values)
    ordered = sorted(values)
    out = 0  # values that may be left out on each side: less than 2.5%, counting one more value
    while 2 * (out + 2) / (shifts + 1) <= 0.05 + 1e-9:
        out += 1
    assert (low, high) == (ordered[out], ordered[-1 - out])
    assert level == pytest.approx(1 - 2 * (out + 1) / (shifts + 1))
    assert level >= 0.95 - 1e-9 or (low, high) == (ordered[0], ordered[-1])


def smooth(rng, n):
    """Scores whose neighbours are alike."""
    return np.convolve(rng.standard_normal(n + 6), np.ones(7) / 7, "valid")


def test_chance_stays_in_the_band_where_neighbours_are_alike():
    """Shuffling says "more than chance" about unrelated texts far more often than 5%."""
    rng, n, draws = np.random.default_rng(3), 150, 200
    outside = {"shifted": 0, "shuffled": 0}
    for draw in range(draws):
        a, b = smooth(rng, n), smooth(rng, n)
        tau = compare(a, b, permutations=1)[0][1]
        low, high, *_ = tau_band(a, b)
        outside["shifted"] += not low <= tau <= high
        orders = permutations(n, SHIFTS, draw)
        shuffled = [compare(a, b[order], permutations=1)[0][1] for order in orders[:99]]
        low, high, *_ = band(np.array(shuffled))
        outside["shuffled"] += not low <= tau <= high
    assert outside["shifted"] <= 0.1 * draws
    assert outside["shuffled"] >= 0.3 * draws


def test_agreement_is_outside_the_band():
    rng = np.random.default_rng(0)
    a = smooth(rng, 100)
    low, high, level, shifts = tau_band(a, a + 0.1 * rng.standard_normal(100))
    assert high < 0.9 < compare(a, a, permutations=1)[0][1]
    assert (level, shifts) == (0.96, 99)
    assert low < 0


def test_short_texts_have_few_shifts_and_say_so():
    a = np.arange(5.0)
    assert tau_band(a, a)[2:] == (pytest.approx(0.6), 4)
    assert tau_band(a, a, np.array([True, True, False, False, False]))[2:] == (0.0, 1)
    for nothing in (np.array([True, False, False, False, False]), np.zeros(5, dtype=bool)):
        assert np.isnan(tau_band(a, a, nothing)[:3]).all()
        assert tau_band(a, a, nothing).shifts == 0
    assert np.isnan(tau_band(a, np.ones(5)).low)  # equal scores have no order
