"""Verdicts are Benjamini-Hochberg's, as scipy has it, and rarely find what is not there."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, strategies as st
from scipy.special import stdtr, stdtrit
from scipy.stats import false_discovery_control

from attlas.stats.verdicts import (
    ENOUGH,
    RATE,
    VERDICTS,
    Comparison,
    discoveries,
    judge,
)

SMALLEST = 0.05


def comparison(difference: float, half: float, texts: int = 100, **more: object) -> Comparison:
    return Comparison(
        0.5 + difference,
        0.5,
        difference - half,
        difference + half,
        texts,
        **more,  # type: ignore[arg-type]
    )


@given(st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=60), st.integers(30, 2000))
def test_discoveries_are_scipys(sizes: list[float], texts: int) -> None:
    """With p-values of Student's t, whose 95% interval has the width of one."""
    wide = np.array(sizes)
    p = 2 * stdtr(texts - 1, -wide * stdtrit(texts - 1, 1 - RATE / 2))
    adjusted = false_discovery_control(p)
    if np.abs(adjusted - RATE).min() > 1e-4:  # at the border the series decides
        assert discoveries(wide, np.full(len(wide), texts)) == (adjusted <= RATE).sum()


def test_the_three_verdicts() -> None:
    clear, few = comparison(0.2, 0.05), comparison(0.2, 0.05, texts=ENOUGH - 1)
    small, none = comparison(0.02, 0.01), comparison(0.02, 0.05)
    below = comparison(-0.2, 0.05)
    verdicts = [one.verdict for one in judge([clear, few, small, none, below], SMALLEST)]
    assert verdicts == ["signal", "weak", "weak", VERDICTS[2], VERDICTS[2]]
    turned = comparison(-0.2, 0.05, direction="below", best=0.0)
    assert judge([turned], SMALLEST)[0].verdict == "signal"


def test_choosing_the_best_of_many_is_corrected() -> None:
    """What is beyond its own interval alone is weak among a hundred."""
    lucky = comparison(0.2, 0.19)
    assert judge([lucky], SMALLEST)[0].verdict == "signal"
    among = judge([lucky, *[comparison(0.0, 0.19)] * 99], SMALLEST)
    assert among[0].verdict == "weak"
    assert among[0].low < 0 < among[0].comparison.low
    assert among[0].comparisons == 100


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.001, 1)), min_size=1, max_size=40))
def test_a_signal_has_an_interval_without_zero(rows: list[tuple[float, float]]) -> None:
    for one in judge([comparison(*row, direction="either") for row in rows], SMALLEST):
        assert one.low <= one.comparison.low
        assert one.high >= one.comparison.high
        excludes = one.low > 0 or one.high < 0
        assert one.significant == excludes or math.isclose(0, min(abs(one.low), abs(one.high)))
        if one.verdict == "signal":
            assert excludes
            assert abs(one.comparison.difference) >= SMALLEST


def test_unknown_comparisons_are_not_judged() -> None:
    assert judge([], SMALLEST) == []
    assert judge([comparison(math.nan, 0.1), comparison(0.1, math.nan)], SMALLEST) == []
    assert [one.comparisons for one in judge([comparison(math.nan, 1), comparison(0.1, 1)], 0)] == [
        1
    ]


def test_nothing_is_found_in_noise() -> None:
    """Of 400 sections of 72 heads without an effect, at most 5% have a signal (here, fewer)."""
    random, found = np.random.default_rng(0), 0
    for _ in range(400):
        values = random.normal(0, 1, (72, 40))
        mean, half = values.mean(1), values.std(1, ddof=1) / math.sqrt(40) * stdtrit(39, 0.975)
        judged = judge([comparison(m, h, 40) for m, h in zip(mean, half, strict=True)], SMALLEST)
        found += any(one.verdict == "signal" for one in judged)
    assert found <= 20
