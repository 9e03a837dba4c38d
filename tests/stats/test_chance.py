"""Permutations are uniform, p-values are those of a permutation test, draws do not depend on n."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats

from attlas.explain.agreement import agreement, compare
from attlas.explain.faithfulness import Perturbation, faithfulness
from attlas.explain.measure import Explanations
from attlas.explain.plausibility import plausibility, scores_of
from attlas.stats.chance import RUNS, SHUFFLES, p_value, permutations


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default  # type: ignore[arg-type]


def test_one_text_and_a_corpus_draw_alike() -> None:
    corpus = Explanations()
    alone = [default(agreement, "permutations"), default(compare, "permutations")]
    alone += [default(plausibility, "draws"), default(scores_of, "draws")]
    assert {*alone, corpus.permutations} == {SHUFFLES}
    assert {default(faithfulness, "draws"), Perturbation().draws, corpus.draws} == {RUNS}


def test_permutations_are_even_and_follow_the_seed() -> None:
    drawn = permutations(4, 24_000, (3, 1))
    assert (np.sort(drawn) == np.arange(4)).all()
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 0.001
    assert (permutations(4, 24_000, (3, 1)) == drawn).all()
    assert (permutations(4, 24_000, (3, 2)) != drawn).any()
    assert permutations(0, 2, 0).shape == (2, 0)


def test_a_p_value_is_scipys() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=12), rng.normal(size=12) + 0.8

    def gap(one: np.ndarray, two: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(two.mean(axis) - one.mean(axis))

    theirs = stats.permutation_test(
        (left, right), gap, alternative="greater", n_resamples=9999, rng=1
    )
    both = np.concatenate([left, right])
    drawn = [gap(both[order[:12]], both[order[12:]]) for order in permutations(24, 9999, 2)]
    assert p_value(float(gap(left, right)), drawn) == pytest.approx(theirs.pvalue, abs=0.01)


def test_what_chance_always_reaches_has_p_1() -> None:
    assert p_value(0.3, [0.1 + 0.2, 0.3]) == 1
    assert p_value(0.1 + 0.2, [0.3]) == 1  # equal but for rounding
    assert p_value(1.0, [0.0] * 99) == 0.01
