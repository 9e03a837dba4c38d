"""Streams of attention, and the laws of every measure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.core.measure import NEEDS, Measure, Shape
from attlas.core.states import State
from attlas.core.text import Text
from attlas.models import Model
from attlas.studies.shard_job import outputs_of


def stream(model: Model, texts: Iterable[str | Text]) -> list[list[Attention]]:
    """The attention of texts, one batch per text: a list of its layers."""
    out = []
    for number, text in enumerate(texts):
        one = text if isinstance(text, Text) else Text(str(number), text)
        for batch in model.batches(model.encode([(number, one)])):
            layers: list[Attention] = []
            model.forward(batch, layers.append)
            out.append(layers)
    return out


def fold(measure: Measure[Any], batches: Sequence[Sequence[Attention]], model: Shape) -> State:
    """A state that has taken in all layers of these batches."""
    state: State = measure.start(model)
    for layers in batches:
        _add(measure, state, layers, model)
    return state


def _add(measure: Measure[Any], state: State, layers: Sequence[Attention], model: Shape) -> None:
    """Take in the layers of one batch."""
    for layer in layers if "network" not in measure.needs else ():
        measure.update(state, layer)
    if layers:
        batch = layers[0].batch
        measure.finish_batch(state, batch, outputs_of(model, batch, measure.needs))


def check_measure(
    measure: Measure[Any],
    batches: Sequence[Sequence[Attention]],
    model: Shape,
    tolerance: float = 1e-9,
) -> None:
    """Prove the laws of a measure on a stream of batches.

    Splitting the stream anywhere and merging gives the whole (splits at the ends prove that `start`
    is neutral); merging is associative; a state survives a file; `result` does not change the
    state; streamed tables are the rows of the parts, joined; and tables are flat: one per head
    begins with `layer head`, one per text with `text`.
    """

    def run(part: Sequence[Sequence[Attention]]) -> State:
        return fold(measure, part, model)

    assert measure.needs <= NEEDS, f"{measure!r} needs {sorted(measure.needs - NEEDS)}"
    begun = [measure.start(model)]  # states of the first 0, 1, ... batches
    for layers in batches:
        begun.append(copy.deepcopy(begun[-1]))
        _add(measure, begun[-1], layers, model)
    state = copy.deepcopy(begun[-1])
    whole = measure.result(begun[-1])
    assert whole, f"{measure!r} has no tables"
    for cut, left in enumerate(begun):
        right = run(batches[cut:])
        assert_same(measure.result(measure.merge(left, right)), whole, tolerance)
    singles = [run([batch]) for batch in batches]
    assert_same(measure.result(reduce(measure.merge, singles)), whole, tolerance)
    from_the_right = reduce(lambda right, left: measure.merge(left, right), reversed(singles))
    assert_same(measure.result(from_the_right), whole, tolerance)
    kept = {name: np.array(array) for name, array in state.arrays().items()}
    first, again = measure.result(state), measure.result(state)
    assert_same(again, first, 0)
    for name, array in state.arrays().items():
        message = f"result changed {name} of the state"
        np.testing.assert_array_equal(array, kept[name], err_msg=message)
    restored = measure.start(model).restored(kept)
    streamed = state.streamed()
    assert_same(
        {name: table for name, table in measure.result(restored).items() if name not in streamed},
        {name: table for name, table in first.items() if name not in streamed},
        0,
    )
    for name, table in whole.items():
        assert isinstance(table.columns, pd.Index), f"table {name} has nested columns"
        assert not isinstance(table.columns, pd.MultiIndex), f"table {name} has nested columns"
        assert table.columns.is_unique, f"table {name} has a column twice"
        begins = ["text"] if name in streamed else ["layer", "head"] if "head" in table else []
        assert list(table.columns[: len(begins)]) == begins, (
            f"table {name} begins with {list(table.columns[:2])}"
        )


def assert_same(
    left: dict[str, pd.DataFrame], right: dict[str, pd.DataFrame], tolerance: float = 1e-9
) -> None:
    """Two results have the same tables, columns and rows; numbers to a tolerance (0: exactly)."""
    assert list(left) == list(right), f"tables {list(left)} and {list(right)}"
    for name in left:
        how: dict[str, Any] = {"check_exact": True}
        if tolerance:
            how = {"check_exact": False, "rtol": tolerance, "atol": tolerance}
        pd.testing.assert_frame_equal(left[name], right[name], obj=f"table {name}", **how)
