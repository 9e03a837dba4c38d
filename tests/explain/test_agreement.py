"""Agreement of two explanations: against scipy, plain loops, published overlaps, and chance."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from string import ascii_lowercase

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import stats

from attlas.explain.agreement import CONVENTIONS, METRICS, agreement, compare
from attlas.explain.numpy_order import descending
from attlas.stats.chance import shuffled
from attlas.stats.intervals import mean_interval
from attlas.stats.rankings import TIES, rbo
from attlas.support.errors import MeasureError
from tests.twins.explain import mean_overlap_slowly, published_slowly, rbo_slowly, shuffle_slowly

few = settings(max_examples=100)  # the first call compiles
SHARES = (0.0, 0.44, 0.51, 0.70)
scores = st.integers(2, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-3, 3), min_size=n, max_size=n)] * 2)
)
persistences = st.floats(0.05, 0.98)


@st.composite
def rankings(draw, items=6, size=None):
    """A ranking of some of a few items, as a list with sets of ties."""
    order = draw(st.permutations(range(items)))[
        : draw(st.integers(1, items)) if size is None else size
    ]
    cuts = draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    groups: list[set[int]] = []
    for item, cut in zip(order, cuts, strict=True):
        if cut or not groups:
            groups.append(set())
        groups[-1].add(item)
    return [group if len(group) > 1 else group.pop() for group in groups]


def orders(ranking):
    """All ways to break the ties of a ranking."""
    groups = [tuple(entry) if isinstance(entry, set) else (entry,) for entry in ranking]
    for parts in itertools.product(*map(itertools.permutations, groups)):
        yield [item for part in parts for item in part]


def draws(share, times, n=2048):
    """Pairs of independent random vectors with a random mask that leaves out a share."""
    rng = np.random.default_rng(7)
    for _ in range(times):
        yield rng.random(n), rng.random(n), rng.random(n) >= share


# rank-biased overlap


def test_rbo_of_the_example_of_webber_et_al():
    agreements = [
        0,
        0,
        Fraction(2, 3),
        Fraction(2, 4),
        Fraction(2, 5),
        Fraction(2, 6),
        Fraction(2, 7),
    ]
    p = Fraction(9, 10)
    by_hand = (
        sum((1 - p) * p**depth * level for depth, level in enumerate(agreements))
        + p**7 * agreements[-1]
    )
    assert rbo(list("abcdefg"), list("zcavwxy"), 0.9) == pytest.approx(float(by_hand), abs=1e-12)
    assert mean_overlap_slowly("abcdefg", "zcavwxy") == pytest.approx(
        0.312, abs=5e-4
    )  # the last row of their table


@pytest.mark.parametrize(
    (
        "other",
        "p",
        "expected",
    ),  # what Webber's own program says of each and the alphabet, or its letters in order
    [
        ("f", 0.9, 0.053090),
        ("zclx", 0.9, 0.233312),
        ("nxqyk", 0.9, 0.049050),
        ("karfvodcjmwgzlypebunq", 0.9, 0.468431),
        ("bcxhkur", 0.4, 0.212763),
        ("akdwcjomxrubqitenhspyl", 0.1, 0.948509),
        ("agmtrsyhfidnjobwzkxvucqel", 0.9, 0.548749),
        ("achudyxfktsrzwbgqjenolivm", 0.99, 0.919628),
    ],
)
@pytest.mark.parametrize("ties", TIES)
def test_rbo_of_webbers_program(other, p, expected, ties):
    alphabet = sorted(other) if len(other) == 25 else list(ascii_lowercase)
    assert rbo(alphabet, list(other), p, ties) == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(
    ("left", "right", "p", "w", "a", "b"),  # README and test.csv of julian-urbano/sigir2024-rbo
    [
        ("1 2,3 4 5", "2,1 6 4,7,8 3", 0.95, 0.7068257, 0.6922853, 0.7207131),
        (
            "3,6 2,7 10",
            "3,6,7,10 1,2",
            0.965413635276732,
            0.946064537517568,
            0.92051534467649,
            0.956844651806714,
        ),
        (
            "2,4,5 9,11",
            "7 1,2,3,4,5",
            0.945785260564493,
            0.562374879224653,
            0.510040933443038,
            0.534789526096388,
        ),
        (
            "7,8,9,11 1",
            "1,2,5,10 3,7",
            0.915183282098296,
            0.274548418542976,
            0.263952907732836,
            0.266654845122571,
        ),
        (
            "3 1,5,7 9",
            "1,9 7 3 4",
            0.930093081332594,
            0.697096710334179,
            0.678580739450433,
            0.684614956129899,
        ),
        (
            "2 5 3 1,4",
            "5 8 2 3,9",
            0.968922741966306,
            0.580287544332462,
            0.580994268838527,
            0.583518284931614,
        ),
        (
            "13 1,5 6,9",
            "5,13 4,8 9,11 3,6",
            0.951157764059215,
            0.678703464246642,
            0.658727656190554,
            0.687999103493725,
        ),
        (
            "5,10 11 7 8",
            "3,6 1,2,9,13,14 4,5",
            0.910173837781455,
            0.0577985109052555,
            0.0552352333462,
            0.0553305060159779,
        ),
        (
            "6 5 2,4,7",
            "4 18 2 1,5,6,7,9,14,15,17 13 11",
            0.984365085297715,
            0.734068963712944,
            0.680057896807246,
            0.747819806375568,
        ),
    ],
)
def test_rbo_of_corsi_and_urbano(left, right, p, w, a, b):
    one, two = ([{*map(int, group.split(","))} for group in text.split()] for text in (left, right))
    for ties, expected in zip(TIES, (w, a, b), strict=True):
        assert rbo(one, two, p, ties) == pytest.approx(expected, abs=6e-8)


@few
@given(rankings(size=5), rankings(size=5), persistences)
def test_rbo_a_is_the_mean_over_all_orders_of_the_ties(left, right, p):
    each = [rbo_slowly(one, two, p) for one in orders(left) for two in orders(right)]
    assert rbo(left, right, p, "a") == pytest.approx(np.mean(each), abs=1e-9)


@few
@given(rankings(), st.permutations(range(6)), persistences)
def test_rbo_a_is_that_mean_also_if_only_the_shorter_list_has_ties(left, right, p):
    each = [rbo_slowly(one, right, p) for one in orders(left)]
    assert rbo(left, right, p, "a") == pytest.approx(np.mean(each), abs=1e-9)


@few
@given(rankings(), rankings(), persistences, st.sampled_from(TIES))
def test_rbo_is_symmetric_and_between_0_and_1(left, right, p, ties):
    one, two = rbo(left, right, p, ties), rbo(right, left, p, ties)
    assert one == pytest.approx(two, abs=1e-12)
    assert 0 <= one <= 1


@few
@given(rankings(), rankings(), persistences)
def test_rbo_b_is_at_least_a_and_1_for_a_ranking_and_itself(left, right, p):
    assert rbo(left, right, p, "b") >= rbo(left, right, p, "a") - 1e-12
    for ties in "wb":
        assert rbo(left, left, p, ties) == pytest.approx(1, abs=1e-12)


@few
@given(st.permutations(range(6)), rankings(), persistences, st.sampled_from(TIES))
def test_rbo_is_1_without_ties_for_the_same_and_0_for_nothing_in_common(order, ranking, p, ties):
    assert rbo(order, order, p, ties) == pytest.approx(1, abs=1e-12)
    assert rbo([f"another {item}" for item in order], ranking, p, ties) == 0


@few
@given(scores, persistences, st.sampled_from(TIES))
def test_rbo_of_scores_is_that_of_their_groups(pair, p, ties):
    ranked = [
        [
            {i for i, v in enumerate(values) if v == level}
            for level in sorted({*values}, reverse=True)
        ]
        for values in pair
    ]
    floats = [[float(value) for value in values] for values in pair]
    assert rbo(*map(np.array, floats), p, ties) == pytest.approx(rbo(*ranked, p, ties), abs=1e-12)
    assert (
        rbo(*floats, p, ties)
        == rbo(*map(torch.tensor, floats), p, ties)
        == rbo(*map(np.array, floats), p, ties)
    )


@pytest.mark.parametrize("p", [0.5, 0.9, 0.999])
def test_rbo_of_long_rankings_loses_nothing_by_stopping_early(p):
    places = np.arange(700.0)
    left, right = (
        places.tolist(),
        (places + np.random.default_rng(0).normal(0, 5, size=700)).argsort().tolist(),
    )
    assert rbo([int(item) for item in left], right, p) == pytest.approx(
        rbo_slowly(left, right, p), abs=1e-12
    )


@pytest.mark.parametrize(
    ("left", "right", "options", "message"),
    [
        ("ab", ["a"], {}, "left is a str"),
        (["a"], {"a"}, {}, "right is a set"),
        ([], ["a"], {}, "left is empty"),
        (["a"], np.array([]), {}, "right is empty"),
        (["a"], 3, {}, "right is a int"),
        (["a", "b", "a"], ["a"], {}, "left ranks 'a' twice"),
        (["a"], ["b", {"c", "b"}], {}, "right ranks 'b' twice"),
        (np.array([3, 1, 3]), np.array([1, 2, 3]), {}, "left ranks 3 twice.*use floats"),
        (["a", set()], ["a"], {}, "left has an empty group"),
        ([{"a": 1}], ["a"], {}, "item of type dict"),
        ([0.1, math.nan], [0.1, 0.2], {}, "score 1 of left is NaN"),
        ([0.1, 0.2], [0.1, 0.2, 0.3], {}, "left has 2 scores and right 3"),
        ([0.1, 0.2], ["a", "b"], {}, "one of left and right has scores"),
        (["a"], ["a"], {"p": 1}, "p is 1; it must be above 0 and below 1"),
        (["a"], ["a"], {"p": 0.0}, "p is 0.0"),
        (["a"], ["a"], {"p": math.nan}, "p is nan"),
        (["a"], ["a"], {"ties": "c"}, "ties is 'c'; it must be w or a or b"),
    ],
)
def test_rbo_refuses(left, right, options, message):
    with pytest.raises(MeasureError, match=message):
        rbo(left, right, **options)


# the four numbers of one text


@few
@given(scores)
def test_tau_is_scipys_with_many_ties(pair):
    a, b = (np.array(values, dtype=float) for values in pair)
    expected = stats.kendalltau(a, b, variant="b").statistic
    assert compare(a, b, permutations=1)[0][1] == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_tau_is_scipys_of_a_long_text():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=4096), rng.integers(0, 900, size=4096).astype(float)
    assert compare(a, b, permutations=1)[0][1] == pytest.approx(
        stats.kendalltau(a, b).statistic, abs=1e-12
    )


@few
@given(scores, st.floats(0.01, 1))
def test_cosine_and_jaccard_are_those_of_numpy_and_of_sets(pair, top):
    a, b = (np.array(values, dtype=float) for values in pair)
    values, _ = compare(a, b, top=top, permutations=1)
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    assert values[0] == pytest.approx(
        a @ b / norms if norms > 0 else math.nan, abs=1e-12, nan_ok=True
    )
    last = math.ceil(Fraction(top).limit_denominator(10**6) * len(a))
    one, two = (
        {i for i, v in enumerate(x) if v >= sorted(x, reverse=True)[max(last, 1) - 1]}
        for x in (a, b)
    )
    assert values[3] == len(one & two) / len(one | two)


@few
@given(scores, persistences)
def test_the_rbo_of_agreement_is_rbo(pair, p):
    a, b = (np.array(values, dtype=float) for values in pair)
    assert compare(a, b, p=p, permutations=1)[0][2] == pytest.approx(rbo(a, b, p), abs=1e-12)


def test_seven_per_cent_of_a_hundred_tokens_are_seven():
    a = np.arange(100.0)  # and 0.07 * 100 is a little more than 7
    assert compare(a, np.where(a >= 93, a, -a), top=0.07)[0][3] == 1
    assert compare(a, np.where(a == 92, 200, a), top=0.07)[0][3] == 6 / 8


def test_scores_of_any_size_have_a_cosine():
    a, b = np.array([3.0, 4.0]), np.array([4.0, 3.0])
    for scale in (1e-300, 1e300):
        assert compare(a * scale, b / scale)[0][0] == pytest.approx(24 / 25)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_masked_tokens_do_not_matter_to_sound_but_to_published(convention):
    a, b, keep = next(draws(0.4, 1, n=100))
    same, _ = compare(a, b, keep, convention=convention)
    a[np.flatnonzero(~keep)[0]], b[np.flatnonzero(~keep)[0]] = -9, 50
    other, _ = compare(a, b, keep, convention=convention)
    assert np.array_equal(same, other) == (convention == "sound")
    if convention == "sound":
        assert np.array_equal(same, compare(a[keep], b[keep])[0])


@few
@given(scores, st.data())
def test_the_order_of_tokens_does_not_matter(pair, data):
    a, b = (np.array(values, dtype=float) for values in pair)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a))))
    order = data.draw(st.permutations(range(len(a))))
    one, two = (
        compare(a, b, keep, permutations=5),
        compare(a[order], b[order], keep[order], permutations=5),
    )
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_undefined_is_nan_and_not_an_error():
    zeros, ones, some = np.zeros(4), np.ones(4), np.arange(4.0)
    for a, b, undefined in ((zeros, some, "cosine tau"), (some, ones, "tau"), (ones, ones, "tau")):
        for part in compare(a, b, top=0.5):
            assert {
                metric for metric, value in zip(METRICS, part, strict=True) if math.isnan(value)
            } == {*undefined.split()}
    for part in compare(ones, some, convention="published"):
        assert np.isnan(part).all()
    for convention in CONVENTIONS:
        assert np.isnan(compare(some, some, some > 2, convention=convention)).all()
        assert np.isnan(compare(np.array([1, math.nan, 2]), some[:3], convention=convention)).all()


# chance


def test_chance_is_the_mean_over_all_permutations():
    a, b = np.array([0.9, 0.4, 0.4, -0.1]), np.array([3.0, 1.0, 2.0, 0.0])
    _, chance = compare(a, b, top=0.5, permutations=20_000)
    each = np.array(
        [
            compare(a, b[list(order)], top=0.5, permutations=1)[0]
            for order in itertools.permutations(range(4))
        ]
    )
    assert (np.abs(chance - each.mean(0)) < 4 * each.std(0) / math.sqrt(20_000)).all()


KINDS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.pareto(1, size=n),
    "tied": lambda rng, n: rng.integers(0, 4, size=n).astype(float),
    "sparse": lambda rng, n: np.where(rng.random(n) < 0.8, 0, rng.random(n)),
}
MASKS = {
    "all": lambda rng, n: np.ones(n, dtype=bool),
    "some": lambda rng, n: rng.random(n) < 0.5,
    "front": lambda rng, n: np.arange(n) < n // 3,
}


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_independent_vectors_are_at_chance(kind, mask, convention):
    rng = np.random.default_rng(3)
    gaps = []
    for number in range(150):
        a, b, keep = KINDS[kind](rng, 80), KINDS[kind](rng, 80), MASKS[mask](rng, 80)
        values, chances = compare(a, b, keep, convention=convention, permutations=10, seed=number)
        gaps.append(values - chances)
    mean, error = np.nanmean(gaps, axis=0), stats.sem(gaps, axis=0, nan_policy="omit")
    assert (error > 0).all()
    assert (np.abs(mean) < 4 * error).all()


def test_chance_is_the_same_in_every_process_and_of_another_seed_another():
    assert shuffled(20, 1, np.uint64(5))[0].tolist() == shuffle_slowly(20, 5)
    a, b, keep = next(draws(0.4, 1, n=50))
    one, two, three = (agreement(a, b, keep, seed=seed, permutations=5) for seed in (1, 1, 2))
    assert one["tau"].chance == two["tau"].chance != three["tau"].chance
    assert one["tau"].value == three["tau"].value


def test_every_permutation_is_as_likely():
    counts = np.unique(shuffled(5, 24_000, np.uint64(1)), axis=0, return_counts=True)[1]
    assert len(counts) == 120
    assert stats.chisquare(counts).pvalue > 1e-4


# the published convention


def test_descending_breaks_ties_as_the_quicksort_of_numpy_did():
    squares = np.array([(7 * i * i + 3 * i) % 11 for i in range(40)], dtype=float)
    expected = (
        "19 1 34 8 12 30 23 25 3 6 14 17 39 28 36 10 21 32 26 37 "
        "38 4 5 16 15 27 2 35 7 13 29 18 24 9 33 11 31 20 22 0"
    )
    assert descending(squares).tolist() == [int(one) for one in expected.split()]
    zeroed = np.array([0 if i % 5 < 2 else i * 17 % 41 for i in range(40)], dtype=float)
    expected = (
        "12 24 7 19 2 14 38 9 33 4 28 23 18 13 37 8 32 3 27 39 "
        "22 34 17 29 30 1 36 35 5 6 31 20 21 10 11 26 25 15 16 0"
    )
    assert descending(zeroed).tolist() == [int(one) for one in expected.split()]


@few
@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_descending_is_an_order(n, levels, seed):
    values = np.random.default_rng(seed).integers(0, levels, size=n).astype(float)
    order = descending(values)
    assert sorted(order.tolist()) == list(range(n))
    assert (np.diff(values[order]) <= 0).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.97])
def test_published_is_the_procedure_of_hou(share):
    for a, b, keep in draws(share, 10, n=200):
        a[np.flatnonzero(keep)[0]] = -1  # kept, and yet a zero among the zeros
        np.testing.assert_allclose(
            compare(a, b, keep, convention="published", permutations=1)[0],
            published_slowly(a, b, keep),
            atol=1e-12,
        )


@pytest.mark.parametrize(
    ("share", "tau", "overlap"),
    zip(SHARES, (0, 0.61, 0.68, 0.85), (0.5, 0.70, 0.74, 0.83), strict=True),
)
def test_published_calls_independent_vectors_alike_the_more_is_masked(share, tau, overlap):
    found = [
        compare(a, b, keep, convention="published", permutations=1)[0]
        for a, b, keep in draws(share, 100)
    ]
    assert np.mean(found, axis=0)[1] == pytest.approx(tau, abs=0.02)
    assert np.mean(found, axis=0)[2] == pytest.approx(overlap, abs=0.02)


def test_zeroing_44_per_cent_makes_tau_of_chance_exceed_a_half_and_chance_shows_it():
    texts = list(zip(*draws(0.44, 20), strict=True))
    published, sound = (
        agreement(*texts, convention=convention, permutations=20)["tau"]
        for convention in ("published", "sound")
    )
    assert published.low > 0.5
    assert abs(sound.value) < 0.02
    for figure in (published, sound):
        assert abs(figure.difference) < 0.02
        assert figure.difference_low < 0 < figure.difference_high


# what agreement returns


def test_several_texts_are_averaged_and_one_has_no_interval():
    texts = [(a, b, keep) for n in (30, 50, 80) for a, b, keep in draws(0.3, 1, n=n)]
    found = agreement(*zip(*texts, strict=True), permutations=10, seed=4)
    each = [compare(*text, permutations=10, seed=(4, number)) for number, text in enumerate(texts)]
    for column, metric in enumerate(METRICS):
        values, chances = (np.array([part[side][column] for part in each]) for side in (0, 1))
        figure = found[metric]
        assert (figure.value, figure.low, figure.high) == mean_interval(values)
        assert figure.chance == mean_interval(chances)[0]
        assert (figure.difference, figure.difference_low, figure.difference_high) == mean_interval(
            values - chances
        )
    assert (found.texts, found.kept) == (3, sum(keep.sum() for _, _, keep in texts))
    alone = agreement(*texts[0])
    for metric in METRICS:
        figure = alone[metric]
        assert figure.value - figure.chance == pytest.approx(figure.difference)
        assert np.isnan(
            [figure.low, figure.high, figure.difference_low, figure.difference_high]
        ).all()


def test_texts_without_a_metric_are_left_out_of_it():
    found = agreement([[1, 2, 3], [1, 1, 1]], [[1, 3, 2], [1, 2, 3]])
    assert found["tau"].texts == 1
    assert found["tau"].value == pytest.approx(1 / 3)
    assert found["rbo"].texts == found.texts == 2


def test_arrays_lists_and_tensors_give_the_same():
    a, b, keep = next(draws(0.3, 1, n=20))
    as_arrays = agreement(a, b, keep, seed=1).to_frame()
    graded = torch.tensor(a, requires_grad=True)
    for one, two, kept in (
        (a.tolist(), b.tolist(), keep.tolist()),
        (graded, torch.tensor(b), torch.tensor(keep)),
        (a[None], b[None], keep[None]),
        ([a], [torch.tensor(b)], [keep]),
        (pd.Series(a), list(torch.tensor(b)), pd.Series(keep)),
        (np.array([a, None], dtype=object)[:1], [b], [keep]),
    ):
        pd.testing.assert_frame_equal(agreement(one, two, kept, seed=1).to_frame(), as_arrays)
    halves = agreement(torch.tensor(a, dtype=torch.bfloat16), b, keep)
    assert halves["tau"].value == pytest.approx(as_arrays.value[1], abs=0.02)


def test_an_agreement_shows_each_value_with_its_chance():
    texts = list(zip(*draws(0.3, 3, n=40), strict=True))
    found = agreement(*texts, p=0.8, top=0.1)
    frame = found.to_frame()
    assert frame.metric.tolist() == list(METRICS)
    assert frame.set_index("metric").loc["tau", "difference_low"] == found["tau"].difference_low
    for metric in METRICS:
        value, chance = (
            round(number, 3) + 0.0 for number in (found[metric].value, found[metric].chance)
        )
        assert f"{value:.3f} [{found[metric].low:.3f}, " in repr(found)
        assert f"(chance {chance:.3f})" in repr(found)
    for part in ("rbo (p = 0.8)", "jaccard (top 10%)", "3 texts, sound"):
        assert part in repr(found)
    rows = [re.findall("<td[^>]*>([^<]*)", row) for row in found._repr_html_().split("<tr>")[2:]]
    assert [row[0].split()[0] for row in rows] == list(METRICS)
    assert rows[1][2] == f"{round(found['tau'].chance, 3) + 0.0:.3f}"
    assert "rbo (p = 1)" in repr(agreement(*texts, convention="published"))
    with pytest.raises(
        MeasureError, match="no metric 'kendall'; the metrics are cosine, tau, rbo, jaccard"
    ):
        found["kendall"]


@pytest.mark.parametrize(
    ("a", "b", "keep", "options", "message"),
    [
        (
            [1, 2, 3],
            [1, 2],
            None,
            {},
            "^a has 3 scores and b 2; give one score per token in both",
        ),
        ([1, 2, 3], [1, 2, 3], [True, False], {}, "^keep has 2 entries for 3 tokens"),
        (
            [1] * 17,
            [2] * 17,
            [False] * 17,
            {},
            "^keep keeps 0 of 17 tokens; agreement needs at least 2",
        ),
        (
            [[1, 2], [3, 4]],
            [[1, 2], [3, 4]],
            [[True, True], [False, True]],
            {},
            "^text 1: keep keeps 1 of 2 tokens",
        ),
        ([1], [2], None, {}, "keeps 1 of 1 tokens"),
        ([], [], None, {}, "keeps 0 of 0 tokens"),
        ([1, 2, math.nan], [1, 2, 3], None, {}, "score of token 2 in a is not finite"),
        ([1, 2, 3], [1, math.inf, 3], None, {}, "score of token 1 in b is not finite"),
        (
            [1, 2, math.nan],
            [1, 2, 3],
            [True, True, False],
            {"convention": "published"},
            "token 2 in a is not finite",
        ),
        (
            [1, 2, 3],
            [1, 2, 3],
            [0, 1, 1],
            {},
            "keep must be True or False for each token, got 1 axes of int64",
        ),
        ([1, 2], [[1, 2], [3, 4]], None, {}, "a has 1 texts, b 2 and keep 1"),
        (["x", "y"], [1, 2], None, {}, "a has something other than numbers"),
        ("text", [1, 2], None, {}, "a is str"),
        ([1, 2], None, None, {}, "b is NoneType"),
        (np.ones((2, 3, 4)), np.ones((2, 3, 4)), None, {}, "a has texts with 2 axes"),
        (
            [1, 2],
            [1, 2],
            None,
            {"convention": "hou"},
            "no convention 'hou'; the conventions are sound, published",
        ),
        ([1, 2], [1, 2], None, {"p": 1}, "p between 0 and 1, both excluded, got 1"),
        ([1, 2], [1, 2], None, {"top": 0}, "top is the share"),
        ([1, 2], [1, 2], None, {"top": 5}, "top is the share"),
        ([1, 2], [1, 2], None, {"permutations": 0}, "at least 1 permutation"),
        ([1, 2], [1, 2], None, {"seed": -1}, "seed must be at least 0"),
    ],
)
def test_agreement_refuses(a, b, keep, options, message):
    with pytest.raises(MeasureError, match=message) as caught:
        agreement(a, b, keep, **options)
    assert "\n" not in str(caught.value)


def test_a_score_that_is_not_finite_may_be_masked():
    assert agreement([1, 2, math.nan], [1, 2, 3], [True, True, False])["tau"].value == 1
