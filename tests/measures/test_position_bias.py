"""Attention by position, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from attlas.measures.position_bias import PositionBias
from attlas.support.errors import MeasureError
from attlas.testing import check_measure, fold, stream, tiny
from tests.builders.long_texts import TEXTS, even, reference_texts, result

# position_bias


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize(("span", "period"), [(8192, 5), (9, 4), (8192, 1), (6, 100), (8192, None)])
def test_position_bias_is_its_twin(family: str, span: int, period: int | None) -> None:
    model = tiny(family)
    batches = stream(model, TEXTS)
    texts = reference_texts(model, batches)
    measure = PositionBias(span=span, period=period)
    if span == 9:
        check_measure(measure, batches, model)
    found = measure.result(fold(measure, batches, model))
    cells = []  # layer head position received uniform
    for text in texts:
        for layer, heads in enumerate(text.weights):
            seen = np.array(text.visible[layer], dtype=float)
            control = (seen / seen.sum(1, keepdims=True)).sum(0)
            for head, weights in enumerate(heads):
                received = np.array(weights).sum(0)
                cells += [
                    (layer, head, place, received[place], control[place])
                    for place in range(min(span, len(text.tokens)))
                    if not text.special[place]
                ]
    frame = pd.DataFrame(cells, columns=["layer", "head", "position", "received", "uniform"])
    period = period or model.position_period
    assert list(found) == [
        "position_bias",
        *(["position_bias_period"] if period else []),
        "position_bias_heads",
    ]
    for name, number in (("position", None), ("residue", period)):
        if name == "residue" and not period:
            continue
        table = found["position_bias" if name == "position" else "position_bias_period"]
        frame[name] = frame["position"] if number is None else frame["position"] % number
        assert table[name].tolist() == sorted(frame[name].unique())
        assert table["tokens"].tolist() == (frame.groupby(name).size() // 12).tolist()
        means = frame.groupby(["layer", name])[["received", "uniform"]].mean()
        for layer in range(3):
            np.testing.assert_allclose(table[f"L{layer}"], means.loc[layer]["received"], rtol=1e-5)
        np.testing.assert_allclose(table["all"], means["received"].groupby(name).mean(), rtol=1e-5)
        np.testing.assert_allclose(
            table["uniform"], means["uniform"].groupby(name).mean(), rtol=1e-5
        )
    heads_table = found["position_bias_heads"]
    for row in heads_table.itertuples():
        own = frame[(frame["layer"] == row.layer) & (frame["head"] == row.head)]
        for column, chosen in (
            ("at_multiples", own[own["position"] % (period or 10**9) == 0]),
            ("elsewhere", own[own["position"] % (period or 10**9) != 0]),
        ):
            value = getattr(row, column)
            if period and len(chosen):
                assert value == pytest.approx(
                    chosen["received"].sum() / chosen["uniform"].sum(), rel=1e-5
                )
            else:
                assert np.isnan(value)


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_even_attention_has_no_position_bias(family: str) -> None:
    model = even(tiny(family))
    found = result(PositionBias(period=6), model, TEXTS)
    np.testing.assert_allclose(found["position_bias_heads"]["at_multiples"], 1, rtol=1e-5)
    np.testing.assert_allclose(found["position_bias_heads"]["elsewhere"], 1, rtol=1e-5)
    for name in ("position_bias", "position_bias_period"):
        np.testing.assert_allclose(found[name]["all"], found[name]["uniform"], rtol=1e-5)


def test_special_tokens_are_no_positions() -> None:
    table = result(PositionBias(), tiny("bert"), ["the cat [SEP] sat", "the dog"])["position_bias"]
    assert dict(zip(table["position"], table["tokens"], strict=True)) == {1: 2, 2: 2, 4: 1}


@pytest.mark.parametrize("options", [{"span": 0}, {"period": 0}, {"period": -3}])
def test_position_bias_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(MeasureError, match="it must be a whole number at least 1"):
        PositionBias(**options)
