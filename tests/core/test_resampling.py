"""Bootstrap replicates and halves: a text decides alone, parts add up, and errors are those of
closed forms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import attlas
from attlas.core import states
from attlas.core.measure import head_tables
from attlas.core.resampling import REPLICATES, draws, poisson
from attlas.core.states import HeadMeans, Replicates
from attlas.core.text import Text
from attlas.stats.correlations import spearman
from attlas.support.memo import Memo
from attlas.testing import fold, stream, tiny
from tests import strategies
from tests.builders.texts import sentences
from tests.twins.core import poisson_slowly, replicates_slowly

MANY = 5000
TEXTS = [Text(str(number), f"text {number}") for number in range(MANY)]


@dataclass
class Batch(Memo):
    texts: list[Text]


@dataclass
class Layer:
    """What an accumulator knows of a layer."""

    texts: list[Text]
    index: int = 0
    batch: Batch = field(init=False)

    def __post_init__(self) -> None:
        self.batch = Batch(self.texts)


def test_draws_are_those_of_a_poisson_distribution_of_mean_1() -> None:
    weights, half = draws(TEXTS)
    n = weights.size
    assert weights.mean() == pytest.approx(1, abs=4 / np.sqrt(n))
    assert weights.var() == pytest.approx(1, abs=4 * np.sqrt(3 / n))  # fourth moment of Poisson: 4
    for number, share in enumerate(np.exp(-1) / np.array([1, 1, 2, 6, 24])):
        error = np.sqrt(share * (1 - share) / n)
        assert (weights == number).mean() == pytest.approx(share, abs=4 * error)
    between = np.corrcoef(np.column_stack([weights[:, :20], half]), rowvar=False)
    assert np.abs(between - np.eye(21)).max() < 5 / np.sqrt(MANY)  # of replicates and the half
    along = np.corrcoef(weights[:60])
    assert np.abs(along - np.eye(60)).max() < 5 / np.sqrt(REPLICATES)  # of texts
    assert half.mean() == pytest.approx(0.5, abs=2 / np.sqrt(MANY))


@given(st.integers(0, 2**32 - 1))
def test_a_random_number_becomes_the_draws_of_its_twin(random: int) -> None:
    assert poisson(np.array([random]))[0] == poisson_slowly(random)


def test_a_text_is_drawn_by_itself_alone() -> None:
    chosen = [TEXTS[index] for index in (7, 3, 400)]
    whole, some = draws(TEXTS[:500]), draws(chosen)
    np.testing.assert_array_equal(some.weights, whole.weights[[7, 3, 400]])
    np.testing.assert_array_equal(some.half, whole.half[[7, 3, 400]])
    more = Text("7", "text 7", label="other", annotations={"where": "elsewhere", "n": 1})
    np.testing.assert_array_equal(draws([more]).weights[0], whole.weights[7])
    for other in (Text("7", "text 8"), Text("8", "text 7")):
        assert (draws([other]).weights[0] != whole.weights[7]).any()
    assert draws([]).weights.shape == (0, REPLICATES)


@settings(max_examples=25)
@given(strategies.generators, st.integers(1, 6), st.sampled_from([np.float32, np.float64]))
def test_replicates_are_their_twin_in_any_grouping(rng, n_texts, dtype) -> None:
    values = rng.normal(size=(n_texts, 2, 3)).astype(dtype)
    values[rng.random(values.shape) < 0.1] = np.nan
    weights = draws(TEXTS[:n_texts]).weights
    whole, parts = Replicates.zeros(2, 2, 3), []
    whole.add(1, values, weights)
    for text in range(n_texts):
        parts.append(Replicates.zeros(2, 2, 3))
        parts[-1].add(1, values[text : text + 1], weights[text : text + 1])
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    expected = replicates_slowly(values.astype(float).tolist(), weights.astype(int).tolist())
    for one in (whole, merged):
        np.testing.assert_allclose(one.means()[1], expected, rtol=1e-9, atol=1e-12)
        assert np.isnan(one.means()[0]).all()


def test_the_spread_of_replicates_is_the_standard_error() -> None:
    rng, n = np.random.default_rng(0), 400
    heads = HeadMeans.zeros(1, 1, 60)
    values = rng.gamma(2.0, size=(n, 1, 60))
    for start in range(0, n, 50):  # in batches
        part = slice(start, start + 50)
        heads.add(Layer(TEXTS[part]), values[part], values[part] / 2)
    spread = heads.replicates.means()[0, 0].std(axis=-1, ddof=1)
    ratio = spread / heads.columns()["error"][0, 0]
    noise = 1 / np.sqrt(2 * (REPLICATES - 1))  # of one ratio; the columns are independent
    assert np.abs(ratio - 1).max() < 4 * noise
    assert ratio.mean() == pytest.approx(1, abs=4 * noise / np.sqrt(60) + 1 / n)
    assert heads.replicates.means().mean() == pytest.approx(values.mean(), abs=0.01)


def test_a_study_in_other_shards_and_another_order_has_the_same_replicates() -> None:
    model = tiny("bert")
    texts = [Text(f"t{number}", text) for number, text in enumerate(sentences(30, longest=8))]
    study = attlas.study(model, texts, "surface", workers=1, progress=False)
    measure = attlas.MEASURES["surface"]()
    backwards = measure.result(fold(measure, stream(model, texts[::-1]), model))
    for name in ("surface_replicates", "surface_reliability"):
        table = study.table(name)
        assert list(table.columns) == list(backwards[name].columns)
        numbers = table.select_dtypes("number")
        np.testing.assert_allclose(
            numbers, backwards[name][numbers.columns], rtol=1e-4, atol=1e-6, err_msg=name
        )
    rows = study.table("surface_replicates")
    assert len(rows) == 12 * REPLICATES
    assert list(rows.columns[:4]) == ["layer", "head", "replicate", "self"]


def test_of_very_many_heads_the_first_columns_have_replicates(monkeypatch) -> None:
    monkeypatch.setattr(states, "MOST_REPLICATED", 25)
    heads, values = HeadMeans.zeros(2, 4, 5), np.random.default_rng(1).random((6, 4, 5))
    for index in range(2):
        heads.add(Layer(TEXTS[:6], index), values, values)
    tables = head_tables("betti_heads", list("abcde"), heads)
    assert list(tables) == ["betti_heads", "betti_replicates", "betti_reliability"]
    names = list(tables["betti_replicates"].columns)
    assert names == ["layer", "head", "replicate", "a", "b", "c"]  # 2 layers, 4 heads, 3 columns
    assert tables["betti_reliability"]["column"].tolist() == list("abcde")
    monkeypatch.setattr(states, "MOST_REPLICATED", 1)
    few = head_tables("surface", list("abcde"), HeadMeans.zeros(2, 4, 5))["surface_replicates"]
    assert list(few.columns) == names[:3]


def test_reliability_correlates_the_means_of_two_halves() -> None:
    rng = np.random.default_rng(2)
    values = rng.random((4, 3, 1)) + 0.1 * rng.random((60, 4, 3, 1))  # text layer head column
    heads = HeadMeans.zeros(4, 3, 1)
    for index in range(4):
        heads.add(Layer(TEXTS[:60], index), values[:, index], np.zeros((60, 1, 1)))
    half = draws(TEXTS[:60]).half
    one, other = (values[half == which].mean(0).reshape(-1) for which in (0, 1))
    found = {name: float(value[0]) for name, value in heads.reliability().items()}
    r = spearman(one, other)
    assert found["spearman"] == pytest.approx(r)
    assert found["reliability"] == pytest.approx(2 * r / (1 + r))
    assert (found["first_texts"], found["second_texts"]) == ((half == 0).sum(), (half == 1).sum())
    assert np.isnan(HeadMeans.zeros(4, 3, 1).reliability()["reliability"]).all()
