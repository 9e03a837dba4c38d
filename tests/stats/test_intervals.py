"""The same counts have the same interval everywhere, and intervals hold what they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from sklearn.metrics import matthews_corrcoef

from attlas.relations.answers import Answers, intervals
from attlas.stats.bootstrap import bootstrap, difference, ends, score
from attlas.stats.clustered import ClusteredProportions
from attlas.stats.intervals import Z, interval_over_seeds, mean_interval, student, wilson
from attlas.stats.scores import accuracy, confusion, macro_f1, mcc
from tests.twins.stats import bootstrap_slowly

counts = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
def test_wilsons_interval_is_scipys(count: tuple[int, int]) -> None:
    right, n = count
    theirs = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert wilson(right / n, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert pytest.approx(stats.norm.ppf(0.975)) == Z


def told_of(right: int, n: int) -> Answers:
    """A case of relation a or b in each text and an unrelated one, of which some are right."""
    gold = np.tile(["a", "b"], n)[:n]
    named = np.where(np.arange(n) < right, gold, np.where(gold == "a", "b", "a"))
    related, correct = np.repeat([True, False], n), np.tile(np.arange(n) < right, 2)
    return Answers(np.tile(np.arange(n), 2), related, correct, gold, named)


@settings(max_examples=20)
@given(counts)
def test_the_same_counts_have_the_same_interval_everywhere(count: tuple[int, int]) -> None:
    right, n = count
    labels = np.tile([0, 1], n)[:n]
    guesses = np.where(np.arange(n) < right, labels, 1 - labels)
    expected = wilson(right / n, n)
    texts, none = np.ones(n, int), np.zeros(n, int)
    assert ClusteredProportions.of(labels == guesses, none, texts).interval(0) == pytest.approx(
        expected
    )
    found = score(labels, guesses)
    assert (found.accuracy_low, found.accuracy_high) == pytest.approx(expected)
    low, high = expected
    assert interval_over_seeds([low, low], [high, high]) == pytest.approx(expected)
    assert low < high


@pytest.mark.parametrize(("right", "n"), [(20, 20), (90, 100), (0, 30)])
def test_topology_and_relations_draw_the_same_texts(right: int, n: int) -> None:
    """With one case per text, the bootstrap is the same with and without `texts`."""
    answers = told_of(right, n)
    row = intervals({"x": answers}, n, "x")["x"]
    codes = {"a": 0, "b": 1}
    gold, named = (
        np.array([codes[name] for name in part]) for part in (answers.gold, answers.named)
    )
    alone = ends(bootstrap(gold, [named], 2, macro_f1)[0])
    assert (row["f1_low"], row["f1_high"]) == pytest.approx(alone, abs=0.02)
    assert row["f1_low"] < row["f1_high"], "all right or all wrong is not certain"


def test_twenty_right_of_twenty_are_not_certain() -> None:
    labels = np.tile([0, 1], 10)
    found = score(labels, labels)
    assert found.accuracy_low == pytest.approx(0.839, abs=1e-3)
    assert 0.7 < found.mcc_low < 0.95
    assert found.mcc_high == 1
    gap = difference(labels, labels, labels)
    assert gap["low"] < 0 < gap["high"]


def test_the_bootstrap_is_its_slow_twin() -> None:
    rng = np.random.default_rng(3)
    texts, cases = 40, 130
    text, labels = rng.integers(0, texts, cases), rng.integers(0, 3, cases)
    guesses = np.where(rng.random(texts)[text] < 0.7, labels, rng.integers(0, 4, cases))
    fast = bootstrap(labels, [guesses], 4, macro_f1, texts=(text, texts))[0]
    slow = bootstrap_slowly(labels, guesses, text, texts, 4)
    width = np.ptp(ends(slow))
    assert ends(fast) == pytest.approx(ends(slow), abs=0.1 * width)
    assert fast.std() == pytest.approx(slow.std(), rel=0.1)
    alone = ends(bootstrap(labels, [guesses], 4, macro_f1)[0])
    assert np.ptp(alone) < 0.9 * np.ptp(ends(fast)), "cases of a text are right or wrong together"


def test_the_bootstrap_is_scipys() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    guesses = np.where(rng.random(400) < 0.7, labels, 1 - labels)
    options = {"paired": True, "method": "percentile", "vectorized": False, "n_resamples": 2000}
    theirs = stats.bootstrap((labels, guesses), matthews_corrcoef, rng=rng, **options)
    found = score(labels, guesses)
    low, high = theirs.confidence_interval
    assert (found.mcc_low, found.mcc_high) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_readers_are_compared_on_the_same_draws() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 200)
    one = np.where(rng.random(200) < 0.6, labels, 0)
    two = one.copy()
    two[:4] = (two[:4] + 1) % 3
    first, second, again = bootstrap(labels, [one, two, one], 3, mcc)
    assert np.corrcoef(first, second)[0, 1] > 0.9
    assert (first - second).std() < 0.5 * first.std()
    assert abs(first - again).max() < 0.1  # only the unknown text is answered in two ways
    assert abs(first.mean() - mcc(confusion(labels, one, 3))) < 0.02


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Wilson's of accuracy, Student's of a mean, the bootstrap of MCC, each of many samples."""
    rng, runs, n = np.random.default_rng(2), 300, 60
    held = np.zeros((3, runs), dtype=bool)
    truth = float(mcc(np.array([[0.4, 0.1], [0.1, 0.4]])))
    for run in range(runs):
        labels = rng.integers(0, 2, n)
        guesses = np.where(rng.random(n) < 0.8, labels, 1 - labels)
        found = score(labels, guesses)
        held[0, run] = found.accuracy_low <= 0.8 <= found.accuracy_high
        held[1, run] = found.mcc_low <= truth <= found.mcc_high
        _, low, high = mean_interval(rng.uniform(0, 2, n))
        held[2, run] = low <= 1 <= high
    assert (held.mean(1) >= 0.91).all(), held.mean(1)
    assert (held.mean(1) <= 0.99).all(), held.mean(1)


def test_the_interval_of_a_mean_is_students() -> None:
    values = np.array([0.1, 0.4, math.nan, 0.35, 0.9])
    known = values[~np.isnan(values)]
    low, high = stats.t.interval(0.95, 3, loc=known.mean(), scale=stats.sem(known))
    assert mean_interval(values) == pytest.approx((known.mean(), low, high))
    assert mean_interval([0.3, math.nan]) == pytest.approx((0.3, math.nan, math.nan), nan_ok=True)
    assert np.isnan(mean_interval([math.nan])).all()
    assert student(4) == pytest.approx(stats.t.ppf(0.975, 3))


def test_the_interval_of_seeds_leaves_nan_out() -> None:
    assert interval_over_seeds([0.2, math.nan], [0.4, math.nan]) == (0.2, 0.4)
    assert np.isnan(interval_over_seeds([math.nan], [math.nan])).all()


def test_accuracy_of_tables() -> None:
    assert accuracy(np.array([[3, 1], [0, 4]])) == 7 / 8
