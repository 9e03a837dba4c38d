"""The rows of a text: the largest weights, what is on other words, what tokens see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import attlas
from attlas.models import look
from attlas.testing import tiny
from attlas.views import text_page
from attlas.views.packing import (
    FAINTEST,
    LOG_ERROR,
    STEPS,
    logs,
    packed,
    roots,
    unpacked,
)
from attlas.views.text_page import focused_heads, text_data
from tests.builders.text_views import (
    SENTENCE,
    between_words,
    computed,
    page_of,
    seen_by,
    uniform_weights,
    view_of,
)

FAMILIES = ("bert", "gpt2", "longformer")
VIEWS = ("", "L1", "L2H3", "L0H1")


@given(arrays(np.float64, (3, 20), elements=st.floats(0, 50)))
def test_packed_numbers_come_back(values: Any) -> None:
    codes = roots(values)
    back = unpacked(codes["codes"]).reshape(values.shape) / STEPS
    tops = np.array(codes["scales"])[:, None]
    assert np.abs(back - np.sqrt(values / np.where(tops > 0, tops, 1))).max() < 1e-4


@given(arrays(np.float64, 30, elements=st.floats(FAINTEST, 1)))
def test_logarithms_are_rounded_as_stated(values: Any) -> None:
    codes = unpacked(logs(values)).astype(np.float64)
    back = FAINTEST ** (1 - (codes - 1) / 254)
    assert np.abs(back / values - 1).max() <= LOG_ERROR + 1e-9


@settings(max_examples=20)
@given(arrays(np.int64, (4, 5), elements=st.integers(-1, 60_000)))
def test_packed_integers_come_back(values: Any) -> None:
    np.testing.assert_array_equal(unpacked(packed(values, "i4")).reshape(4, 5), values)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_largest_weights_of_every_head(
    family: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the weights that were kept, or from the layers as they passed: the same."""
    model = tiny(family)
    every = attlas.attention(model, SENTENCE).to_words().double().numpy()
    monkeypatch.setattr(look, "MOST_BYTES", 2**30 if kept else 0)
    seen = attlas.attention(model, SENTENCE)
    assert (seen.square is not None) == kept
    tops = seen.head_tops
    rows = [*every.reshape(12, *every.shape[2:]), *every.mean(1), every.mean((0, 1))]
    for row, matrix in enumerate(rows):
        for side, between in enumerate((matrix, matrix.T)):
            assert_tops_of(between, *(one[side, row] for one in (tops.words, tops.weights)))
            left = between.sum(-1) - tops.weights[side, row].sum(-1)
            np.testing.assert_allclose(tops.rest[side, row], left, atol=1e-5)


def assert_tops_of(between: Any, words: Any, weights: Any) -> None:
    """Loops: the eight largest of each row, each at its own place."""
    for query, row in enumerate(between):
        largest = sorted(row, reverse=True)[:8]
        np.testing.assert_allclose(weights[query][: len(largest)], largest, atol=1e-6)
        for word, weight in zip(words[query], weights[query], strict=True):
            assert (word < 0 and weight == 0) or row[word] == pytest.approx(weight, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_numbers_of_heads_are_those_of_loops(family: str) -> None:
    seen = attlas.attention(tiny(family), "a cat sat on the mat and it was good")
    weights, n = seen.weights.double().numpy(), len(seen.tokens)
    uniform = uniform_weights(family, n)
    for row in seen.heads.itertuples():
        for end, matrix in (("", weights[row.layer, row.head]), ("_uniform", uniform[row.layer])):
            entropy = distance = first = 0.0
            for query in range(n):
                for key in range(n):
                    weight = float(matrix[query, key])
                    entropy -= weight * np.log(weight) / n if weight else 0.0
                    distance += weight * abs(query - key) / n
                    first += weight / n if key == 0 else 0.0
            for name, value in (("entropy", entropy), ("distance", distance), ("first", first)):
                assert getattr(row, name + end) == pytest.approx(value, abs=1e-4), (name, end)


def test_heads_with_lines_are_the_furthest_below_uniform() -> None:
    seen = attlas.attention(tiny("bert"), SENTENCE)
    below = (seen.heads["entropy_uniform"] - seen.heads["entropy"]).to_numpy()
    names = [f"L{at // 4}H{at % 4}" for at in np.argsort(-below)[:4]]
    assert focused_heads(seen.heads) == names


@pytest.mark.parametrize("family", FAMILIES)
def test_what_tokens_see(family: str) -> None:
    seen = attlas.attention(tiny(family), SENTENCE)
    n, visible = len(seen.tokens), seen.visible
    expected = seen_by(family, n)
    for layer, query in np.ndindex(3, n):
        kind = visible.of[layer, 0]
        keys = visible.always[kind].copy()
        keys[visible.first[kind, query] : visible.stop[kind, query]] = True
        np.testing.assert_array_equal(keys, expected[layer, query])
        assert visible.count[kind, query] == expected[layer, query].sum()


@pytest.mark.slow
def test_a_text_of_512_tokens_in_144_heads_is_light() -> None:
    """A fiftieth of the 850 MB that all weights take as text."""
    model = tiny("bert", num_hidden_layers=12, num_attention_heads=12, hidden_size=48)
    words = np.random.default_rng(0).choice(SENTENCE.split(), 900)
    seen = attlas.attention(model, " ".join(words))
    assert len(seen.tokens) == 512
    data = text_data(seen.numbers)
    assert "weights" not in data
    assert len(seen.page()) < 17e6 / 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("exact", [True, False])
def test_the_browser_reads_what_python_packed(
    family: str, exact: bool, tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over selected words, and over tokens of a short text, are those of the weights."""
    monkeypatch.setattr(text_page, "PAGE_BYTES", 2**23 if exact else 0)
    seen = attlas.attention(tiny(family), SENTENCE)
    page = page_of(browser, seen, tmp_path)
    weights, n = seen.weights.double().numpy(), len(seen.tokens)
    uniform = np.repeat(uniform_weights(family, n)[:, None], 4, axis=1)
    for view in VIEWS:
        tokens = [view_of(one, view) for one in (weights, uniform)]
        words = [between_words(one[None], seen)[0] for one in tokens]
        for level in ("tokens", "words"):
            expected = [tokens_to(level, one.sum(0), seen) for one in tokens]
            found = computed(page, ("received", view, level), ("uniform", view, level))
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4)
        for level, (own, even) in {"tokens": tokens, "words": words}.items():
            if exact or level == "words":
                assert_rows(page, view, level, own, even, exact)
    assert page.wrong == []
    page.context.close()


def tokens_to(level: str, values: Any, seen: Any) -> Any:
    if level == "tokens":
        return values
    return np.bincount(seen.batch.words[0].of, values, len(seen.words))


def assert_rows(page: Any, view: str, level: str, own: Any, even: Any, exact: bool) -> None:
    for chosen in ([2], [1, 4, 6]):
        found = computed(page, *((("row", view, level, side, chosen)) for side in (0, 1)))
        rows = own[chosen].mean(0), own[:, chosen].sum(1)
        uniforms = even[chosen].mean(0), even[:, chosen].sum(1)
        for one, row, uniform in zip(found, rows, uniforms, strict=True):
            np.testing.assert_allclose(one["uniform"], uniform, atol=1e-6)
            listed = np.array(one["values"])
            if exact:
                np.testing.assert_allclose(listed, row, atol=1e-4)
                assert one["rest"] == 0
                continue
            room = LOG_ERROR * row.sum() + 1e-3
            assert listed.sum() + one["rest"] == pytest.approx(row.sum(), abs=room)
            assert (listed <= row * (1 + LOG_ERROR) + 1e-5).all()
            if len(chosen) == 1:
                shown = listed > 0
                np.testing.assert_allclose(listed[shown], row[shown], rtol=LOG_ERROR + 1e-3)
                assert shown.sum() == min(8, (row > 0).sum())
