"""Quantiles of Student's t are scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from attlas.stats.student import MANY, student_quantile

FREE = np.array([1, 1.5, 2, 3, 4.25, 7, 29, 30, 59.5, MANY - 1, MANY, 999, 10_000])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.975, 0.999, 1 - 1e-5, 1 - 1e-7])
def test_quantiles_are_scipys(share: float) -> None:
    own = student_quantile(share, FREE + 1)
    np.testing.assert_allclose(own, stdtrit(FREE, share), rtol=1e-8, atol=1e-12)


def test_the_shape_is_that_of_the_texts_and_one_text_counts_as_two() -> None:
    assert student_quantile(0.975, np.full((2, 3), 10)).shape == (2, 3)
    assert student_quantile(0.975, np.array([0, 1, 2])).tolist() == pytest.approx([12.7062] * 3)
