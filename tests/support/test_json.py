"""Strict JSON: no NaN, no infinity, plain numbers."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, strategies as st

from attlas.support.json import to_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_everything_can_be_written_and_comes_back(value: object) -> None:
    plain = to_json(value)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert to_json(plain) == plain


def test_numbers_of_numpy_are_plain_and_what_is_missing_is_none() -> None:
    found = to_json(
        {
            1: np.float64(0.5),
            "n": np.int64(3),
            "b": np.bool_(True),
            "x": (np.float32("nan"), float("inf")),
        }
    )
    assert found == {"1": 0.5, "n": 3, "b": True, "x": [None, None]}
    assert [type(one) for one in found.values()] == [float, int, bool, list]
