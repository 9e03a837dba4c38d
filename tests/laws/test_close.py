from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from attlas.testing import tiny
from tests.close import EPSILON, bound, close, close_tables, terms_of


@pytest.mark.parametrize("terms", [10, 1_000, 100_000])
def test_sums_in_another_order_are_close(terms: int) -> None:
    values = np.random.default_rng(terms).normal(size=(terms, 20)).astype(np.float32)
    one_by_one, from_the_end = np.add.accumulate(values), np.add.accumulate(values[::-1])
    magnitude = float(np.abs(one_by_one).max())
    close(one_by_one[-1], from_the_end[-1], terms, magnitude)
    close(torch.from_numpy(values).sum(0), values.sum(0, dtype=np.float64), terms, magnitude)


def test_what_is_more_than_rounding_is_not_close() -> None:
    allowed = 3 * 2 * EPSILON * math.sqrt(4)
    assert bound(3, 4) == allowed
    close([1.0, 3.0], [1.0 + 0.99 * allowed, 3.0], 4)
    with pytest.raises(
        AssertionError,
        match=r"^words: .*at \(0,\), expected .*magnitude 3 x sqrt\(4 terms\).*1 of 2",
    ):
        close([1.0, 3.0], [1.0 + 1.01 * allowed, 3.0], 4, name="words")
    with pytest.raises(AssertionError, match=r"\(2,\), expected \(3,\)"):
        close(np.zeros(2), np.zeros(3), 1)
    with pytest.raises(AssertionError, match="off by"):
        close([0.0], [1e-30], 1, magnitude=0)


def test_only_the_same_is_close_to_what_is_not_finite() -> None:
    close([math.nan, math.inf, 1.0], [math.nan, math.inf, 1.0], 1)
    close(torch.ones(2, 3), 1, 1)
    for other in ([math.nan, 1.0], [1.0, -math.inf], [1.0, math.nan]):
        with pytest.raises(AssertionError, match="off by inf"):
            close(other, [1.0, math.inf], 1)


def test_tables_are_close_column_by_column() -> None:
    table = pd.DataFrame(
        {"text": ["a", "b"], "large": [1e6, 1.0], "small": [1e-6, math.nan], "count": [1, 2]}
    )
    close_tables(table.assign(large=table["large"] + 0.1), table, 1)
    close_tables(table.assign(small=table["small"] + 1e-8), table, 1, {"small": 1})
    for name, value in (("small", table["small"] + 1e-8), ("count", [1, 3]), ("text", ["a", "c"])):
        with pytest.raises(AssertionError, match=name):
            close_tables(table.assign(**{name: value}), table, 1)
    with pytest.raises(AssertionError):
        close_tables(table, table[["text", "small", "large", "count"]], 1)


def test_the_terms_of_a_network_are_the_inputs_of_its_linear_maps() -> None:
    for family in ("bert", "gpt2"):
        config = tiny(family).network.config
        size, layers = config.hidden_size, config.num_hidden_layers
        inner = getattr(config, "intermediate_size", None) or config.n_inner or 4 * size
        maps, pooler = (
            (5, size) if family == "bert" else (3, 0)
        )  # GPT-2 has one map to queries, keys and values
        assert terms_of(tiny(family).network) == layers * (maps * size + inner) + pooler
