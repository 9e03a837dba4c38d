"""Correlations are scipy's, and NaN where they are not defined."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy import stats

from attlas.stats.correlations import pearson, spearman
from tests import strategies


@settings(max_examples=60)
@given(strategies.generators)
def test_correlations_are_scipys(rng: np.random.Generator) -> None:
    size = int(rng.integers(3, 30))
    left, right = rng.integers(0, 6, size) / 3, rng.normal(size=size)
    left[:2] = 0.0, 7.0
    assert pearson(left, right) == pytest.approx(stats.pearsonr(left, right).statistic)
    assert spearman(left, right) == pytest.approx(stats.spearmanr(left, right).statistic)
    assert spearman(np.exp(left), right) == pytest.approx(spearman(left, right))


def test_items_without_a_value_are_excluded_as_pandas_does() -> None:
    frame = pd.DataFrame({"a": [0.1, 0.5, math.nan, 0.2, 0.3], "b": [1.0, 2.0, 9.0, math.nan, 0.5]})
    assert spearman(frame["a"], frame["b"]) == pytest.approx(
        frame["a"].corr(frame["b"], "spearman")
    )
    assert pearson(frame["a"], frame["b"]) == pytest.approx(frame["a"].corr(frame["b"]))


@pytest.mark.parametrize(
    "flat", [[0.1] * 3, [math.nan] * 3, [0.5, math.nan, math.nan], [0.3, 0.3, math.nan]]
)
def test_a_flat_map_correlates_with_nothing(flat: list[float]) -> None:
    for found in (pearson, spearman):
        assert math.isnan(found(flat, [1.0, 2.0, 3.0]))
        assert math.isnan(found([1.0, 2.0, 3.0], flat))
