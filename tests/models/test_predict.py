"""Forward passes without attention: a text's output does not depend on its batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import attlas
from attlas.core.batch import Batch
from attlas.models.predict import head_inputs, last_layer, logits_of, run_batches
from attlas.support.errors import CorpusError
from attlas.testing import tiny

WORDS = (
    "the cat sat",
    "a dog saw it",
    "a good film",
    "not very bad",
    "the cat sat on the mat , and it was good .",
)
TEXTS = [attlas.Text(str(number), text) for number, text in enumerate(WORDS)]


def alone(model: attlas.Model, text: attlas.Text, **options: Any) -> Any:
    """The output of transformers itself for one text."""
    network = model.network if not options else model.part
    with torch.no_grad():
        return network(**model.tokenizer(text.text, return_tensors="pt"), **options)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "longformer"])
def test_logits_are_those_of_one_text_at_a_time(family: str) -> None:
    model = tiny(family, "classify")
    expected = np.concatenate([alone(model, one).logits for one in TEXTS])
    np.testing.assert_allclose(logits_of(model, TEXTS), expected, atol=1e-5)
    layer = last_layer(model.network)
    again = torch.nn.functional.linear(
        torch.from_numpy(head_inputs(model, TEXTS)).float(), layer.weight, layer.bias
    )
    np.testing.assert_allclose(again.detach(), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5"])
def test_hidden_states_are_those_of_one_text_at_a_time(family: str) -> None:
    model, states = tiny(family), {}

    def keep(batch: Batch, output: Any) -> None:
        states.update(zip(batch.indices, torch.stack(output.hidden_states, dim=1), strict=True))

    assert run_batches(model, TEXTS, keep, head=False, states=True) == []
    for place, one in enumerate(TEXTS):
        expected = torch.cat(alone(model, one, output_hidden_states=True).hidden_states)
        np.testing.assert_allclose(states[place], expected, rtol=1e-4, atol=1e-4)


def test_texts_without_a_token_are_named() -> None:
    model, read = tiny("gpt2"), []
    texts = [attlas.Text("first", "a cat"), attlas.Text("second", "")]
    assert run_batches(model, texts, lambda batch, _: read.extend(batch.indices), head=False) == [1]
    assert read == [0]
    with pytest.raises(
        CorpusError, match=r"the tokenizer produces no tokens for text 'second' \(''\)"
    ):
        logits_of(tiny("gpt2", "lm"), texts)


def test_dropout_is_off_and_nothing_stays() -> None:
    model = tiny("longformer", "classify")
    with pytest.raises(ZeroDivisionError):
        run_batches(model, TEXTS, lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.network.modules())
    expected = logits_of(model, TEXTS)
    model.network.train()
    assert np.array_equal(logits_of(model, TEXTS), expected)
    assert all(one.training for one in model.network.modules())
