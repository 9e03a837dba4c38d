"""Example texts of heads: against twins on transformers' own weights, and as a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attlas
from attlas.core.text import Text
from attlas.measures.examples import QUANTILES, SCORES, Examples, example_scores
from attlas.support.errors import MeasureError
from attlas.testing import fold, tiny
from tests.builders.measures import FAMILIES, TEXTS, seen, together
from tests.builders.studies import table_bytes
from tests.twins import measures as twins

SIZE, KEYS = 6, 3


def sampled(size: int = SIZE) -> list[int]:
    """The places of the texts with the smallest keys, in the order of their keys."""
    keys = [Text(str(place), text).key for place, text in enumerate(TEXTS)]
    return sorted(range(len(TEXTS)), key=lambda place: keys[place])[:size]


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_and_weights_are_those_of_the_twin(family: str) -> None:
    model, batches, raw = seen(family)
    measure = Examples(size=SIZE, keys=KEYS)
    tables = measure.result(fold(measure, batches, model))
    examples, keys = tables["examples"], tables["examples_keys"]
    assert examples["quantile"].tolist() == [*QUANTILES] * (model.n_layers * model.n_heads)
    for (layer, head), rows in examples.groupby(["layer", "head"]):
        scores = [
            twins.entropy_below_uniform(one.weights[layer, head], one.visible[layer]) for one in raw
        ]
        assert rows["place"].tolist() == twins.examples(scores, sampled())
        expected = [scores[place] for place in rows["place"]]
        np.testing.assert_allclose(rows["score"], expected, atol=1e-5)
        assert (rows["control"] == 0).all()
        own = keys[(keys["layer"] == layer) & (keys["head"] == head)]
        assert set(own["place"]) == set(rows["place"])
        for place, part in own.groupby("place"):
            weights = raw[place].weights[layer, head]
            expected = twins.largest_keys(weights, raw[place].visible[layer], KEYS)
            assert list(zip(part["query"], part["key"], strict=True)) == expected
            np.testing.assert_allclose(
                part["weight"], [weights[pair] for pair in expected], atol=1e-6
            )


@pytest.mark.parametrize("score", SCORES)
def test_every_score_of_uniform_attention_is_its_control(score: str) -> None:
    for layers in seen("bert")[1]:
        values, control = example_scores(layers[0], score)
        even, same = example_scores(layers[0].uniform, score)
        np.testing.assert_allclose(even[:, :1], control[: len(even), :1], atol=1e-6)
        np.testing.assert_allclose(same, even, atol=1e-6)
        assert values.shape == control.shape == (layers[0].n_texts, layers[0].n_heads)


def test_a_head_without_a_score_has_no_examples() -> None:
    """No text of a decoder has [SEP]."""
    model, batches, _ = seen("gpt2")
    measure = Examples(score="sep")
    tables = measure.result(fold(measure, batches, model))
    assert [len(table) for table in tables.values()] == [0, 0, 0]
    assert list(tables["examples"].columns[:2]) == ["layer", "head"]


def test_of_longer_texts_no_weights_are_kept() -> None:
    model, batches, raw = seen("bert")
    lengths = [len(one.tokens) for one in raw]
    most = sorted(lengths)[3]
    measure = Examples(tokens=most)
    tables = measure.result(fold(measure, batches, model))
    examples = tables["examples"]
    assert examples["tokens"].tolist() == [lengths[place] for place in examples["place"]]
    assert (examples["has_keys"] == (examples["tokens"] <= most)).all()
    assert examples["has_keys"].nunique() == 2
    for name in ("examples_keys", "examples_tokens"):
        assert set(tables[name]["place"]) == set(examples[examples["has_keys"]]["place"])
    tokens = tables["examples_tokens"]
    for place, rows in tokens.groupby("place"):
        assert rows["token"].tolist() == list(range(lengths[place]))
        for row in rows[rows["start"] >= 0].to_dict("records"):
            assert TEXTS[place][row["start"] : row["stop"]].strip() == row["string"]


def test_examples_do_not_depend_on_shards_batches_or_workers(tmp_path: Path) -> None:
    texts = [Text(f"t{n}", TEXTS[n % len(TEXTS)] + " a" * (n % 3)) for n in range(80)]
    model, measure = tiny("bert"), Examples(size=7)
    for workers in (1, 2):
        done = attlas.study(model, texts, [measure], tmp_path / str(workers), workers=workers)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2")
    smallest = sorted(texts, key=lambda text: text.key)[:7]
    assert set(done.table("examples")["text"]) <= {text.id for text in smallest}
    card = done.head("L1H2")
    assert [one.quantile for one in card.examples] == [*QUANTILES]
    own = done.table("examples").query("layer == 1 and head == 2")
    assert [one.text for one in card.examples] == own["text"].tolist()
    by_id = {text.id: text.text for text in texts}
    assert all(by_id[one.text].startswith(one.begins) for one in card.examples)


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_one_text_of_a_batch_is_the_text_alone(family: str) -> None:
    """Dense and banded, with what it sees and its uniform control."""
    alone = seen(family)[1]
    for layers in together(family):
        for number, place in enumerate(layers[0].batch.indices):
            for layer, expected in zip(layers, alone[place], strict=True):
                one = layer.of_text(number)
                assert one.batch.indices == (place,)
                part = layer.dense().weights[number : number + 1]
                np.testing.assert_array_equal(one.dense().weights, part)
                np.testing.assert_array_equal(
                    one.uniform.dense().weights, expected.uniform.dense().weights
                )
                np.testing.assert_array_equal(
                    one.n_visible_keys.expand(1, 1, -1), expected.n_visible_keys.expand(1, 1, -1)
                )


def test_a_sample_that_would_not_fit_in_memory_is_refused() -> None:
    with pytest.raises(MeasureError, match=r"examples would hold .* lower size or tokens"):
        Examples(size=10_000, tokens=4_096).start(tiny("bert"))
