"""A picture never contradicts its control: the laws of shades, over any values and controls."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from attlas.support.errors import AttlasError
from attlas.views.charts import chart_spec, head_grid
from attlas.views.section import Prose, head_figure
from attlas.views.shades import excess, tint
from attlas.views.tables import Column, Kind, declared

NUMBER = st.floats(-100, 100, allow_nan=False)
PAIRS = st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=12)
KIND = st.sampled_from(["above", "below", "signed", "plain"])


def slow_excess(kind: Kind, value: float, control: float, smallest: float) -> float:
    """One value by the table of kinds."""
    if kind == "signed":
        return value
    if kind == "plain" or math.isnan(control):
        return value - min(0.0, smallest)
    if kind == "above":
        return value - control if value > control else 0.0
    return control - value if value < control else 0.0


@given(KIND, st.lists(st.tuples(NUMBER, NUMBER | st.just(math.nan)), min_size=1, max_size=12))
def test_excess_is_that_of_a_slow_twin(kind: Kind, pairs: list[tuple[float, float]]) -> None:
    values, controls = (np.array(part) for part in zip(*pairs, strict=True))
    slow = [slow_excess(kind, *pair, smallest=float(values.min())) for pair in pairs]
    assert excess(kind, values, controls).tolist() == slow


@given(KIND, PAIRS, st.sampled_from([0.0, 0.5]))
def test_no_value_on_the_wrong_side_of_its_own_control_has_a_tint(
    kind: Kind, pairs: list[tuple[float, float]], least: float
) -> None:
    column = Column("one", "one", kind=kind, control="one_uniform", least=least)
    own = tint(column, [value for value, _ in pairs], [control for _, control in pairs])
    assert (np.abs(own.shades) <= 1).all()
    for (value, control), shade in zip(pairs, own.shades, strict=True):
        apart = value - control
        if kind == "above":
            assert shade >= 0
            assert shade == 0 or (apart > 0 and apart >= least)
        elif kind == "below":
            assert shade >= 0
            assert shade == 0 or (apart < 0 and -apart >= least)
        elif kind == "signed":
            assert shade * value >= 0
            assert shade == 0 or abs(value) >= least
    assert ("uniform attention" in own.says) == (kind != "signed")


@given(st.sampled_from(["above", "below"]), PAIRS)
def test_the_control_is_never_the_darkest(kind: Kind, pairs: list[tuple[float, float]]) -> None:
    """Drawn among the values that it is the control of, it has no tint."""
    column = Column("one", "one", kind=kind, control="one_uniform")
    values = [value for value, _ in pairs] + [control for _, control in pairs]
    own = tint(column, values, [control for _, control in pairs] * 2)
    assert not own.shades[len(pairs) :].any()


def test_a_scale_without_a_control_says_so() -> None:
    own = tint(Column("cycles", "cycles"), [1.0, 3.0], [math.nan, math.nan])
    assert own.says == "cycles; plain scale: no control"
    assert own.ticks == ("0", "1.5", "3.0")


def test_a_legend_has_the_numbers_of_the_control() -> None:
    column = Column("cls", "[CLS]", kind="above", control="cls_uniform", least=0.02)
    alike = tint(column, [0.1, 0.5], [0.25, 0.25])
    assert alike.ticks == (".25", ".38", ".50")
    assert alike.says.endswith("tint above uniform attention (.25); none below a difference of .02")
    apart = tint(column, [0.1, 0.5], [0.05, 0.25])
    assert apart.ticks == ("control", "+.12", "+.25")
    assert "(.05 to .25)" in apart.says


def test_a_grid_names_the_control_of_the_column_that_is_shown() -> None:
    frame = pd.DataFrame({"layer": [0], "head": [0], "a": 0.5, "a_uniform": 0.25, "b": 3.0})
    columns = [Column("a", "share", kind="above", control="a_uniform"), Column("b", "cycles")]
    (title,) = [part["title"] for part in chart_spec(head_grid(frame, columns))["hconcat"][:1]]
    assert '["share", "tint above uniform attention (.25)"]' in title["text"]["expr"]
    assert '["cycles", "plain scale: no control"]' in title["text"]["expr"]


def test_a_column_that_is_not_declared_is_refused_in_one_line() -> None:
    words = Prose("Own", "What?", "Own.", {"heads": "Heads."})
    frame = pd.DataFrame({"layer": [0], "head": [0], "own_score": [1.0]})
    with pytest.raises(AttlasError, match=r"^the column 'own_score' is not declared; give the .*"):
        head_figure(words, frame)
    assert [one.control for one in declared([Column("b0@", "x", control="b0@_uniform")], ["b0@1"])]
