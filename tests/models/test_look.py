"""The attention of one text in Python: by layer and head, and as a table."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attlas
from attlas.support.errors import AttlasError
from tests.builders.models import tiny


def seen() -> attlas.models.look.TextAttention:
    return attlas.attention(tiny("bert"), "the cat sat on the mat")


def test_a_head_and_a_layer_are_parts_of_all_weights() -> None:
    one = seen()
    assert torch.equal(one[2, 3], one.weights[2, 3])
    assert torch.equal(one["L2H3"], one[2, 3])
    assert torch.equal(one.layer(2).head(3), one[2, 3])
    assert torch.equal(one[1], one.weights[1])
    assert torch.equal(one.layer(1).weights, one[1])
    assert torch.allclose(one[2, 3].sum(-1), torch.ones(len(one.tokens)))


@pytest.mark.parametrize("index", [(3, 0), (0, 4), 9, "L9H0"])
def test_what_the_model_does_not_have_is_refused(index: object) -> None:
    with pytest.raises(AttlasError, match="there is no"):
        seen()[index]


def test_a_table_has_a_row_for_every_weight() -> None:
    one = seen()
    table = one.to_frame()
    assert len(table) == one.weights.numel()
    np.testing.assert_array_equal(table["weight"], one.weights.reshape(-1))
    row = table.iloc[-1]
    assert (row["layer"], row["head"], row["query"], row["key"]) == (2, 3, 7, 7)
    assert row["query_token"] == one.tokens[7]
    for part in (one.to_frame("L2H3"), one.to_frame(2, 3)):
        np.testing.assert_array_equal(part["weight"], one[2, 3].reshape(-1))
    assert one.layer(1).to_frame().equals(one.to_frame(1))
    assert {*one.to_frame(1)["layer"]} == {1}


def test_of_a_text_that_is_not_kept_a_head_with_a_matrix_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = seen()
    monkeypatch.setattr("attlas.models.look.MOST_BYTES", 1)
    one = attlas.attention(tiny("bert"), "the cat sat on the mat", matrix="L2H3")
    assert torch.equal(one[2, 3], whole[2, 3])
    assert len(one.to_frame("L2H3")) == len(one.tokens) ** 2
    with pytest.raises(AttlasError, match="were not kept"):
        one[2, 2]
