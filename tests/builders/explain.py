"""Tiny classifiers to explain."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import torch
import transformers

import attlas
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.models import Model
from attlas.testing import tiny, tiny_tokenizer
from tests.builders.models import perturbed_model

TEXT = "a cat sat on the mat with a dog"


PAD, MASK = 0, 4


@cache
def classifier(family: str = "bert") -> Model:
    """A tiny classifier of three classes; tests share it and must leave it as it was."""
    return perturbed_model(
        gpt2_classifier() if family == "gpt2" else tiny(family, "classify", num_labels=3)
    )


def gpt2_classifier() -> Model:
    tokenizer = tiny_tokenizer(marks=False)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=3,
        n_head=4,
        num_labels=3,
        initializer_range=0.3,
        pad_token_id=PAD,
        bos_token_id=PAD,
        eos_token_id=PAD,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = transformers.GPT2ForSequenceClassification(config)
    return attlas.load((network.eval(), tokenizer), task="classify")


def full_batch_of(model: Model, *texts: str) -> Batch:
    encoder = model.full_encoder
    (group,) = encoder.groups(
        encoder.encode([(place, Text(str(place), text)) for place, text in enumerate(texts)])
    )
    return encoder.batch(group, model.device)


def not_a_number(model: Model, forward: bool = False) -> Model:
    """A model that finds no gradient (or no answer) for texts with the word "bad"."""
    bad = model.tokenizer.convert_tokens_to_ids("bad")
    seen = threading.local()  # which rows have the word, in this thread

    def note(module: Any, args: Any) -> None:
        seen.rows = (args[0] == bad).any(1)

    def spoil(module: Any, args: Any, output: Any) -> Any:
        states = output[0] if isinstance(output, tuple) else output
        spoilt = states.clone()
        some = states[seen.rows]
        spoilt[seen.rows] = some / 0 * 0 if forward else some + (some * 0).sqrt()
        return (spoilt, *output[1:]) if isinstance(output, tuple) else spoilt

    model.network.get_input_embeddings().register_forward_pre_hook(note)
    model.network.base_model.encoder.layer[0].register_forward_hook(spoil)
    return model
