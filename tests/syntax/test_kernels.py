"""What a word attends to most, against loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from attlas.syntax import kernels as probe_kernels
from tests import strategies
from tests.twins.syntax import most_slowly


@given(strategies.generators, st.integers(1, 12), st.booleans())
@settings(max_examples=80)
def test_most_attended_is_its_twin(random, n, ties):
    words = int(random.integers(1, 7))
    of = random.integers(-1, words, n)
    if random.integers(2):
        of = np.where(of >= 0, np.sort(of), -1)
    count = int(of.max(initial=-1)) + 1 + int(random.integers(0, 2))
    if ties:  # eighths add up exactly; words of 1, 2 or 4 tokens divide them exactly
        weights = (random.integers(1, 4, (2, n, n)) / 8).astype(np.float32)
        of = np.where([np.sum(of == word) in (1, 2, 4) for word in of], of, -1)
    else:
        weights = random.random((2, n, n)).astype(np.float32)
    found = probe_kernels.most_attended(weights, of, count)
    for head in range(2):
        attended, attending = most_slowly(
            weights[head].astype(np.float64).tolist(), of.tolist(), count
        )
        assert found[0][head].tolist() == attended
        assert found[1][head].tolist() == attending


def test_most_attended_by_hand():
    of = np.array([-1, 0, 1, 1, 2, -1])  # [CLS] a sit ##ting cat [SEP]
    weights = np.zeros((1, 6, 6), dtype=np.float32)
    weights[0, 1] = [0.4, 0.2, 0.1, 0.1, 0.1, 0.1]  # a: 0.2 to sitting, 0.1 to cat
    weights[0, 2] = [0, 0.5, 0.5, 0, 0, 0]  # sit: half to a, half to itself
    weights[0, 3] = [0, 0.0, 0, 0, 0.5, 0.5]  # ting: half to cat: a tie
    weights[0, 4] = [0, 0.25, 0.125, 0.125, 0.5, 0]  # cat: as much to a as to sitting
    attended, attending = probe_kernels.most_attended(weights, of, 3)
    assert attended[0].tolist() == [1, 0, 0]  # among equals the earlier; not itself, not the marks
    assert attending[0].tolist() == [
        1,
        2,
        1,
    ]  # sitting gives a 0.25 (a mean) and cat as much: the earlier; a gives sitting 0.2, cat 0.25
    attended, attending = probe_kernels.most_attended(weights[:, :2, :2].copy(), of[:2].copy(), 1)
    assert attended.tolist() == attending.tolist() == [[-1]]  # one word only
