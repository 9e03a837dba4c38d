"""Codes of the weights of heads: read back within their rounding, masked where nothing is seen."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import attlas
from attlas.core.attention import DenseAttention
from attlas.core.banded import BandedAttention
from attlas.models.head_codes import head_codes, parse_matrices
from attlas.support.errors import AttlasError
from attlas.views.matrices import (
    FLOOR,
    MASKED,
    ROUNDING,
    HeadCodes,
    HeadMatrices,
    code_weights,
    weight_codes,
)
from tests.builders.models import shared
from tests.builders.processes import CommandOutput
from tests.strategies.attention import Layer, banded_layers, dense_layers, make_batch

TEXT = "the cat sat on the mat , it was good ."


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_a_weight_is_read_back_within_the_rounding(weights: list[float]) -> None:
    given_weights = np.array(sorted(weights))
    codes = weight_codes(given_weights)
    back = code_weights(codes)
    above = given_weights >= FLOOR
    assert (np.abs(back[above] / given_weights[above] - 1) <= ROUNDING + 1e-9).all()
    assert (codes[above] >= 1).all()
    assert (codes[~above] == 0).all()
    assert (np.diff(codes.astype(int)) >= 0).all()
    assert codes.max() < MASKED


def test_the_rounding_is_the_smallest_that_holds() -> None:
    weights = np.geomspace(FLOOR, 1, 100_001)
    worst = np.abs(code_weights(weight_codes(weights)) / weights - 1).max()
    assert 0.99 * ROUNDING < worst <= ROUNDING + 1e-12


@settings(max_examples=60)
@given(st.one_of(dense_layers(), banded_layers()), st.integers(1, 10))
def test_codes_of_a_layer_are_those_of_its_square(made: Layer, most: int) -> None:
    """Dense and banded layers, whatever their heads see, and their first tokens alone."""
    one = made.layer.of_text(0)
    weights, visible = made.weights[0], made.visible[0]
    for head in range(one.n_heads):
        coded = head_codes(one, head, most)
        size = min(most, len(visible))
        for query in range(size):
            assert coded.seen[query] == visible[query].sum()
            for key in range(size):
                if not visible[query, key]:
                    assert coded.codes[query, key] == MASKED
                else:
                    weight = weights[head, query, key]
                    assert coded.codes[query, key] == weight_codes(np.array([weight]))[0]
        assert coded.codes.shape == (size, size)


def test_a_long_band_is_never_a_square_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared("longformer")
    batches: list[Any] = []
    encoded = model.encode([(0, attlas.Text("0", " ".join(["cat"] * 60)))])
    model.forward(next(iter(model.batches(encoded))), batches.append)
    assert isinstance(batches[0], BandedAttention)

    def refuse(self: BandedAttention) -> None:
        raise AssertionError("the band became a square")

    whole = head_codes(batches[0].dense(), 1)
    monkeypatch.setattr(BandedAttention, "dense", refuse)
    coded = head_codes(batches[0], 1)
    assert (coded.codes == whole.codes).all()
    assert (coded.seen == whole.seen).all()
    assert (coded.codes == MASKED).any()


def test_heads_that_see_different_keys_are_masked_each_by_its_own() -> None:
    visible = torch.stack([torch.ones(4, 4).bool(), torch.ones(4, 4).tril().bool()])[None]
    weights = visible / visible.sum(-1, keepdim=True)
    layer = DenseAttention(weights, make_batch(np.random.default_rng(0), 1, 4), 2, visible)
    free, causal = head_codes(layer, 0), head_codes(layer, 1)
    assert (free.name, causal.name) == ("L2H0", "L2H1")
    assert not (free.codes == MASKED).any()
    assert ((causal.codes == MASKED) == ~np.tril(np.ones((4, 4), bool))).all()
    assert causal.seen.tolist() == [1, 2, 3, 4]


def test_names_of_heads_and_sizes_are_checked() -> None:
    assert parse_matrices(["l1.h3", "L0H2"], (2, 4)) == [(1, 3), (0, 2)]
    assert parse_matrices((), (2, 4)) == []
    for wrong, message in (
        ("L2H0", "there is no L2H0"),
        ("L0H4", "layers 0 to 1 and heads 0 to 3"),
    ):
        with pytest.raises(AttlasError, match=message):
            parse_matrices(wrong, (2, 4))
    with pytest.raises(AttlasError, match="1 to 4,096 tokens, not 5,000"):
        attlas.attention(shared("bert"), TEXT, matrix="L0H0", matrix_tokens=5_000)


def test_matrices_of_a_text_hold_its_weights() -> None:
    seen = attlas.attention(shared("bert"), TEXT, matrix="L2H1,L0H3", matrix_tokens=6)
    assert [one.name for one in seen.matrices] == ["L2H1", "L0H3"]
    (part,) = seen.numbers.matrix_parts
    data = json.loads(json.dumps(part.data))
    assert data["tokens"] == list(seen.tokens[:6])
    assert data["total"] == len(seen.tokens)
    for one, (layer, head) in zip(data["heads"], ((2, 1), (0, 3)), strict=True):
        raw = np.frombuffer(zlib.decompress(base64.b64decode(one["codes"])), dtype=np.uint8)
        weights = seen.weights[layer, head, :6, :6].numpy()
        assert one["seen"] == [len(seen.tokens)]
        back = code_weights(raw.reshape(6, 6))
        assert (back > 0).sum() > 20
        assert (np.abs(back / weights - 1)[weights >= FLOOR] <= ROUNDING + 1e-6).all()
        assert (back[weights < FLOOR] == 0).all()
    assert not attlas.attention(shared("bert"), TEXT).numbers.matrix_parts


def test_pictures_tint_what_is_above_uniform_attention() -> None:
    codes = weight_codes(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[1, 0], [1, 1]], dtype=bool))
    heads = (HeadCodes("L0H0", codes, np.array([1, 2])),)
    part = HeadMatrices("text", ("a", "<b>"), np.array([0, 1]), 2, heads)
    (svg,) = part.pictures()
    assert "&lt;b&gt;" in svg
    assert "<b>" not in svg
    assert part._matrix(heads[0]).uniform.tolist() == [[1, 0], [0.5, 0.5]]


def test_look_writes_matrices(
    inside: Callable[..., CommandOutput], tmp_path: Path, tiny_folder: Path
) -> None:
    look = ["look", TEXT, "--model", tiny_folder, "--matrix", "L1H2,L0H0"]
    done = inside(*look, "--html", "page.html", "--matrix-tokens", "8")
    assert done.code == 0, done.error
    assert "matrix    the first 8 of 13 tokens (--matrix-tokens, at most 4,096)" in done.out
    page = (tmp_path / "page.html").read_text()
    assert '"name": "L1H2"' in page
    done = inside(*look, "--html", "page.html")
    assert "--matrix-tokens" not in done.out
    for wrong, message in (
        (look, "--matrix needs a page: give --html PAGE.html"),
        ([*look, "--html", "picture.svg"], "--matrix needs a page"),
        ([*look[:-1], "L9H0", "--html", "page.html"], "there is no L9H0; the model has layers 0"),
        ([*look, "--html", "page.html", "--matrix-tokens", "4097"], "at most 4096"),
    ):
        done = inside(*wrong)
        assert done.code == 2
        assert message in " ".join(done.error.split())
