"""The best head is the one that a loop over heads would keep."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from attlas.stats.choose import best, best_first, first_best, ranked_places
from attlas.topology.heads import best_heads
from tests import strategies
from tests.twins.stats import best_slowly


@settings(max_examples=60)
@given(strategies.generators)
def test_the_best_is_that_of_a_loop(rng: np.random.Generator) -> None:
    shape = tuple(rng.integers(1, 4, 3))
    scores = rng.integers(0, 3, shape) / 2  # with many ties
    assert best(scores) == best_slowly(scores)
    assert best(scores[0]) == best_slowly(scores[:1])
    order = ranked_places(scores)
    assert sorted(order) == list(range(scores.size))
    assert (np.diff(scores.reshape(-1)[order]) <= 0).all()


@settings(max_examples=30)
@given(strategies.generators)
def test_a_table_of_heads_in_any_order_names_the_same_heads(rng: np.random.Generator) -> None:
    grid = rng.integers(0, 3, (3, 4)) / 2
    rows = [
        {"layer": layer, "head": head, "train": grid[layer, head]}
        for layer, head in rng.permutation([*np.ndindex(3, 4)]).tolist()
    ]
    expected = [divmod(int(place), 4) for place in ranked_places(grid)]
    assert best_heads(pd.DataFrame(rows), 12) == expected


def test_what_is_not_defined_comes_last() -> None:
    layers, heads = np.arange(3), np.zeros(3)
    assert best_first(np.array([np.nan, 0.1, 0.2]), layers, heads).tolist() == [2, 1, 0]


@pytest.mark.parametrize(("scores", "place"), [([0.2], 0), ([0.1, 0.3, 0.3], 1), ([0.3, 0.1], 0)])
def test_the_first_of_equals(scores: list[float], place: int) -> None:
    assert first_best(scores) == place
