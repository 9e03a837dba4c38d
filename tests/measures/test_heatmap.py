"""Attention between bins of positions, against loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.measures.heatmap import Heatmap
from attlas.support.errors import MeasureError
from attlas.testing import check_measure, fold, stream, tiny
from tests.builders.long_texts import (
    HEADS,
    TEXTS,
    cells_of,
    even,
    grid_twin,
    reference_texts,
    result,
)


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize(
    ("size", "span"), [(4, None), (1, None), (7, None), (3, 9), (5, 14), (4, 40), (2, 2)]
)
def test_heatmap_is_its_twin(family: str, size: int, span: int | None) -> None:
    model = tiny(family)
    batches = stream(model, TEXTS)
    texts = reference_texts(model, batches)
    measure = Heatmap(size=size, span=span, examples=2)
    if span == 14:
        check_measure(measure, batches, model, 1e-6)
    found = measure.result(fold(measure, batches, model))
    grids = np.array(
        [
            [[grid_twin(np.array(head), size, span) for head in heads] for heads in text.weights]
            for text in texts
        ]
    )
    uniform = np.array(
        [
            [
                grid_twin(np.array(seen) / np.array(seen).sum(-1, keepdims=True), size, span)
                for seen in text.visible
            ]
            for text in texts
        ]
    )
    reached = np.isfinite(grids[:, 0, 0])  # text bin bin
    with np.errstate(invalid="ignore"):
        share = np.where(reached.any(0), reached.sum(0), np.nan)
    np.testing.assert_allclose(
        cells_of(found["heatmap"], size), (np.nansum(grids, 0) / share).reshape(-1, size), atol=2e-6
    )
    np.testing.assert_allclose(
        cells_of(found["heatmap_uniform"], size),
        (np.nansum(uniform, 0) / share).reshape(-1, size),
        atol=2e-6,
    )
    keys = found["heatmap"][["layer", "head", "row"]].to_numpy().tolist()
    assert keys == [list(key) for key in itertools.product(range(3), range(HEADS), range(size))]
    assert found["heatmap_uniform"][["layer", "row"]].to_numpy().tolist() == [
        list(key) for key in itertools.product(range(3), range(size))
    ]
    if span is None:
        for table in found.values():
            np.testing.assert_allclose(cells_of(table, size).sum(1), 1, atol=1e-5)
    else:
        assert bool(np.isnan(cells_of(found["heatmap"], size)).any()) == (not reached.any(0).all())
    examples = found["heatmap_texts"]
    assert list(examples["text"].unique()) == ["0", "1"]
    assert examples[["text", "layer", "head", "row"]].to_numpy().tolist() == [
        list(key) for key in itertools.product(["0", "1"], range(3), range(HEADS), range(size))
    ]
    np.testing.assert_allclose(
        cells_of(examples, size), np.nan_to_num(grids[:2]).reshape(-1, size), atol=2e-6
    )


def test_heatmap_of_several_global_tokens_is_its_twin() -> None:
    base = tiny("longformer")
    model = attlas.load((base.network, base.tokenizer), global_tokens=(2, 3, 11))
    batches = stream(model, [TEXTS[2], TEXTS[2].replace("cat", "dog")])
    texts = reference_texts(model, batches)
    found = result(Heatmap(size=5), model, [TEXTS[2], TEXTS[2].replace("cat", "dog")])
    grids = np.array(
        [
            [[grid_twin(np.array(head), 5) for head in heads] for heads in text.weights]
            for text in texts
        ]
    )
    np.testing.assert_allclose(
        cells_of(found["heatmap"], 5), grids.mean(0).reshape(-1, 5), atol=2e-6
    )


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_a_heatmap_of_even_attention_is_its_control(family: str) -> None:
    found = result(Heatmap(size=6), even(tiny(family)), TEXTS)
    heads = cells_of(found["heatmap"], 6).reshape(3, HEADS, 6, 6)
    np.testing.assert_allclose(
        heads,
        np.repeat(cells_of(found["heatmap_uniform"], 6).reshape(3, 1, 6, 6), HEADS, 1),
        atol=1e-6,
    )
    assert len(result(Heatmap(size=6, examples=0), tiny(family), TEXTS)["heatmap_texts"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0; it must be a whole number at least 1"),
        ({"size": 5, "span": 4}, "span is 4; it must be at least size, which is 5"),
        ({"examples": -1}, "examples is -1; it must be a whole number at least 0"),
    ],
)
def test_heatmaps_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MeasureError, match=message):
        Heatmap(**options)
