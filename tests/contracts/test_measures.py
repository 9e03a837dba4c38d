"""The contract of measures, on every measure of the catalogue."""

from __future__ import annotations

import pytest

from attlas.catalogue import MEASURES
from attlas.measures.entropy import Entropy
from attlas.measures.positions import Positions
from attlas.measures.surface import Surface
from attlas.testing import assert_same, check_measure, fold
from tests.builders.measures import READING, in_batches, make_measure, model_for, seen, together


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_every_measure_keeps_the_contract(name, family):
    model, batches = model_for(name, family)
    check_measure(
        make_measure(name), batches if name in READING else batches[:5], model
    )  # others run the model for each cut


@pytest.mark.parametrize("name", READING)
def test_a_band_turned_dense_gives_the_same_tables(name):
    model, batches, _ = seen("longformer")
    measure = MEASURES[name]()
    dense = [[layer.dense() for layer in layers] for layers in batches]
    check_measure(measure, dense, model)
    assert_same(
        measure.result(fold(measure, dense, model)),
        measure.result(fold(measure, batches, model)),
        1e-6,
    )


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_texts_in_one_batch_give_the_same_as_texts_alone(name, family):
    model, batches = model_for(name, family)
    measure = make_measure(name)
    joined = together(family) if name in READING else in_batches(model, batches)
    assert_same(
        measure.result(fold(measure, joined, model)),
        measure.result(fold(measure, batches, model)),
        1e-5,
    )


class ForgetsTheRight(Entropy):
    def merge(self, left, right):
        return left


class StartsWithAText(Surface):
    def start(self, model):
        state = super().start(model)
        state.heads.mean.count += 1
        return state


class DoublesWhatItReports(Positions):
    def result(self, state):
        tables = super().result(state)
        state.mass.mean *= 2
        return tables


@pytest.mark.parametrize("broken", [ForgetsTheRight, StartsWithAText, DoublesWhatItReports])
def test_the_contract_catches_a_broken_measure(broken):
    model, batches, _ = seen("bert")
    check_measure(broken.__base__(), batches, model)
    with pytest.raises(AssertionError, match=f"table {broken.name}.* are different"):
        check_measure(broken(), batches, model)
