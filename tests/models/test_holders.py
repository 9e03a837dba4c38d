"""Models as people hold them: in pipelines, compiled, with adapters, or without a tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn

import attlas
from attlas.core.text import Text
from attlas.models.holders import plain_network
from attlas.support.errors import CorpusError, ModelError
from attlas.testing import tiny

TEXT = "the cat sat on it"


class SentenceTransformer(nn.Sequential):
    """A stand-in with the parts of the library's own."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        first = nn.Module()
        first.auto_model = network
        super().__init__(first)
        self.tokenizer = tokenizer


class PeftModel(nn.Module):
    """A stand-in with the parts of the library's own."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.base_model = network

    def get_base_model(self) -> Any:
        return self.base_model


class PeftModelForFeatureExtraction(PeftModel):
    """Made for a task."""


def held(how: str) -> Any:
    model = tiny("bert")
    network, tokenizer = model.network, model.tokenizer
    if how == "pipeline":
        return transformers.pipeline("feature-extraction", model=network, tokenizer=tokenizer)
    if how == "sentence transformer":
        return SentenceTransformer(network, tokenizer)
    if how == "compiled in place":
        network.compile()
        return network, tokenizer
    wrap = {"compiled": torch.compile, "adapter": PeftModelForFeatureExtraction}[how]
    return wrap(network), tokenizer


@pytest.mark.parametrize(
    "how", ["pipeline", "sentence transformer", "compiled", "compiled in place", "adapter"]
)
def test_what_holds_a_model_is_read_as_the_model(how: str) -> None:
    expected = attlas.attention(tiny("bert"), TEXT).weights
    model = attlas.load(held(how))
    assert type(model.network).__name__ == "BertModel"
    assert torch.equal(attlas.attention(model, TEXT).weights, expected)


def test_a_plain_network_stays_as_it_is() -> None:
    network = tiny("bert").network
    assert plain_network(network) is network


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tiny("bert").network, r"the model is a BertModel; give .*\(model, tokenizer\)"),
        (lambda: (tiny("bert").network, None), "this BertModel has no tokenizer"),
        (lambda: (tiny("bert").network,), "a tuple of 1"),
        (lambda: 5, "the model is a int"),
    ],
)
def test_other_things_are_refused_in_one_line(wrong: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        attlas.load(wrong())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [["a", "b"], ("a", "b"), [1, 2], None])
def test_a_text_that_is_none_is_refused_in_one_line(text: Any) -> None:
    with pytest.raises(CorpusError, match=f"the text is a {type(text).__name__}; give one text"):
        attlas.attention(tiny("bert"), text)
    assert attlas.attention(tiny("bert"), Text("a", TEXT)).n_layers == 3
