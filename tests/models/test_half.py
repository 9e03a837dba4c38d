"""Half precision: every measure and every explanation, close to float32."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

import attlas
from attlas.catalogue import MEASURES
from attlas.core.attention import Attention
from attlas.explain.methods import METHODS
from attlas.testing import fold, stream, tiny

HALF = [torch.bfloat16, torch.float16]
TEXTS = ["a cat sat on the mat .", "the dog was not very good , a cat saw it"]


@cache
def model(dtype: torch.dtype) -> attlas.Model:
    """A classifier whose weights are the same numbers in every precision."""
    made = tiny("bert", "classify")
    with torch.no_grad():
        for parameter in made.network.parameters():
            parameter.copy_((parameter * 0.3).to(torch.bfloat16).to(torch.float16))
    made.network.to(dtype)
    return attlas.load((made.network, made.tokenizer), task="classify")


@cache
def tables(name: str, dtype: torch.dtype) -> dict[str, pd.DataFrame]:
    measure = MEASURES[name]()
    return measure.result(fold(measure, batches(dtype), model(dtype)))


@cache
def batches(dtype: torch.dtype) -> list[list[Attention]]:
    return stream(model(dtype), TEXTS)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", list(MEASURES))
def test_every_measure_reads_half_precision(name: str, dtype: torch.dtype) -> None:
    found, exact = tables(name, dtype), tables(name, torch.float32)
    assert found.keys() == exact.keys()
    for table, frame in found.items():
        expected = exact[table]
        assert list(frame) == list(expected)
        if list(frame)[:2] == ["layer", "head"] and len(frame) == len(expected):
            numbers = frame.select_dtypes("number")
            assert (
                np.isfinite(numbers).sum().sum() == np.isfinite(expected[list(numbers)]).sum().sum()
            )


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_importance_in_half_precision_is_near(dtype: torch.dtype) -> None:
    by_kind = {}
    for kind in (dtype, torch.float32):
        measure = MEASURES["importance"](accumulate="grad", ablation=1)
        by_kind[kind] = measure.result(fold(measure, batches(kind), model(kind)))["importance"]
    for column in ("taylor", "gate", "taylor_grad"):
        low, exact = by_kind[dtype][column], by_kind[torch.float32][column]
        assert float(np.abs(low - exact).max()) < 0.1 * float(exact.max())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("method", list(METHODS))
def test_every_explanation_reads_half_precision(method: str, dtype: torch.dtype) -> None:
    importance = np.ones((3, 4))
    options = {"importance": importance} if "scaled" in method else {}
    found, exact = (
        attlas.explain.explain(model(kind), TEXTS[:1], method, **options)[0].scores
        for kind in (dtype, torch.float32)
    )
    assert np.isfinite(found).all()
    assert float(np.abs(found - exact).max()) < 0.25 * float(np.abs(exact).max()) + 1e-3
