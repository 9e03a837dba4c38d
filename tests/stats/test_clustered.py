"""Sums over cases of texts, and intervals over texts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attlas.core.cases import add_cases, add_followed, sums_frame, width
from attlas.core.states import Rows, Tally
from attlas.stats.clustered import ClusteredProportions, paired_differences, proportions_of
from attlas.stats.intervals import Z, wilson
from tests.twins.stats import sums_slowly

# cases


def cases(seed, texts=7, answers=3, baselines=2):
    """Random cases: the kind and the text of each, and what is right; and a list a case for
    loops."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    kinds = random.choice(["det", "obj", "all"], count).tolist()
    of = random.integers(0, texts, count) * 3 + 5
    return kinds, of, random.random((count, answers)) < 0.6, random.random((count, baselines)) < 0.3


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


@pytest.mark.parametrize("seed", range(5))
def test_answers_of_two_passes_are_paired_as_those_of_one(seed):
    """An answer is a baseline of another pass; kinds that one pass does not follow are left out."""
    kinds, of, answers, _ = cases(seed)
    sums = Tally(width(1, 1))
    add_cases(sums, kinds, of, answers[:, :1], answers[:, 1:2])
    expected = proportions_of(sums_frame(sums, "kind"), "kind", 1, 1)
    one, other = Rows.empty(), Rows.empty()
    add_followed(one, dict.fromkeys(set(kinds), 0), kinds, of, answers)
    add_followed(other, dict.fromkeys({"det", "obj"}, 1), kinds, of, answers)
    frames = one.frame(), other.frame().iloc[::-1]
    found = paired_differences(*frames).set_index("kind")
    assert set(found.index) == {"det", "obj"} & set(kinds)
    for kind, row in found.iterrows():
        assert tuple(row.iloc[:3]) == pytest.approx(expected[kind].difference(0, 0))
        assert row["n"] == expected[kind].cases
        assert row["texts"] == expected[kind].texts
