"""Values and gradients of a batch from embeddings: as many rows at a time as memory allows, checkpointed where one alone is too much."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attlas.core.batch import Batch
from attlas.explain.target import Aim, Target, aim
from attlas.models import Model
from attlas.models.embeddings import Embeddings, checkpointed
from attlas.support.errors import ModelError
from attlas.support.machine import cores

BASELINES = ("padding", "mask", "zero", "mean")
BUDGET_TOKENS = 1024  # a pass on the CPU: more is not faster
SHARE = 4  # of the machine's memory, for all workers together


@dataclass(frozen=True, eq=False)
class Field:
    """The model's answer for one batch as a function of its embeddings."""

    model: Model
    batch: Batch
    target: Target
    at: str = "embeddings"

    @cached_property
    def embeddings(self) -> Embeddings:
        return Embeddings(self.model, self.at)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold what is put on the model over all passes of the batch."""
        with self.embeddings.open(), checkpointed(self.model, self.rows == 0):
            yield

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """The embeddings of the texts, [text, token, dimension] each."""
        return self.embeddings.read(self.batch)

    @cached_property
    def answer(self) -> tuple[Aim, Tensor]:
        """What is explained of each text, and that number of the text itself: [text]."""
        with torch.no_grad():
            output = self.embeddings.forward_from_embeddings(self.batch, {}, self.every)
        if not bool(torch.isfinite(output.logits).all()):
            raise ModelError(f"the model's answer is not a number (text {self._named})")
        found = aim(self.model, self.batch, output, self.target)
        return found, found.values(output, self.every)

    @property
    def aim(self) -> Aim:
        """What is explained of each text."""
        return self.answer[0]

    @property
    def _named(self) -> str:
        return ", ".join(repr(text.id) for text in self.batch.texts[:3])

    def on(self, model: Model) -> Field:
        """The same batch, target and answers on another network with the same weights."""
        other = replace(self, model=model)
        other.__dict__.update(answer=self.answer, inputs=self.inputs)
        return other

    @property
    def every(self) -> Tensor:
        return torch.arange(self.batch.n_texts, device=self.batch.ids.device)

    @cached_property
    def rows(self) -> int:
        """How many rows go through the model at a time; 0 if one must be checkpointed."""
        memory = (
            machine_memory(self.model.device)
            // SHARE
            // (cores() if self.model.device.type == "cpu" else 1)
        )
        fit = memory // row_bytes(self.model, self.batch.n_tokens)
        return (
            min(fit, max(1, BUDGET_TOKENS // self.batch.n_tokens))
            if self.model.device.type == "cpu"
            else fit
        )

    def chunks(self, rows: Tensor, each: int = 1) -> Iterator[Tensor]:
        """Which rows go through the model together, where a row takes the place of `each`."""
        yield from torch.split(rows, max(1, self.rows // each))

    def values(self, given: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The explained number of each row, [row], of embeddings [row, token, dimension]."""
        return self.aim.values(
            self.embeddings.forward_from_embeddings(self.batch, given, rows), rows
        )

    def gradients(
        self, given: Mapping[str, Tensor], rows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The explained number of each row and its gradient by each embedding."""
        with torch.enable_grad():
            leaves = {name: tensor.detach().requires_grad_() for name, tensor in given.items()}
            values = self.values(leaves, rows)
            found = torch.autograd.grad(values.sum(), list(leaves.values()))
        return values.detach(), dict(zip(leaves, found, strict=True))

    def check(self, *found: Tensor) -> None:
        """Refuse what is not a number."""
        if not all(bool(torch.isfinite(one).all()) for one in found):
            raise ModelError(
                f"scores of text {self._named} are not numbers, or their gradients are not numbers; the model's weights or its precision are at fault"
            )


def baseline_of(field: Field, baseline: str | Tensor) -> dict[str, Tensor]:
    """The embeddings an explanation starts from: the same text with its words taken away, its special tokens, mask tokens and positions left.

    In the place of each word's vector stands that of the padding token (as in Hou 2022), of the mask token, zero, or the mean of all word vectors. With parts apart every position
    is the first one and every type 0. A tensor [text, token, dimension] is taken as it is.
    """
    inputs = field.inputs
    if isinstance(baseline, Tensor):
        (name, own), *rest = inputs.items()
        if (
            rest
            or baseline.shape[-2:] != own.shape[-2:]
            or baseline.dim() != 3
            or len(baseline) not in (1, len(own))
        ):
            raise ModelError(
                f"the baseline has the shape {list(baseline.shape)}; it must be that of the embeddings, {list(own.shape)}"
            )
        return {name: baseline.to(own).expand_as(own)}
    words = field.embeddings.word_vectors(field.batch)
    stays = torch.from_numpy(field.batch.special).to(words.device)
    if field.model.tokenizer.mask_token_id is not None:
        stays = stays | (field.batch.ids == field.model.tokenizer.mask_token_id)
    away = torch.where(stays[..., None], words, blank_vector(field.model, baseline).to(words))
    found = field.embeddings.read(field.batch, away)
    for name in ("position", "type"):
        if name in found:
            found[name] = inputs[name][:, :1].expand_as(inputs[name])
    return found


def blank_vector(model: Model, baseline: str) -> Tensor:
    """What stands for a word that is taken away: [dimension]."""
    table: Any = Embeddings(model).words
    if baseline == "zero":
        return torch.zeros_like(table.weight[0])
    if baseline == "mean":
        return table.weight.detach().mean(0) * getattr(table, "embed_scale", 1.0)
    names = {"padding": "pad_token_id", "mask": "mask_token_id"}
    number = getattr(model.tokenizer, names[baseline])
    if number is None:
        raise ModelError(
            f"the tokenizer has no {baseline} token; choose another baseline: zero or mean (--baseline)"
        )
    with torch.no_grad():
        found: Tensor = table(torch.tensor([[number]], device=table.weight.device))[0, 0]
    return found


def row_bytes(model: Model, tokens: int) -> int:
    """About how much memory one text of so many tokens takes through a backward pass (tests hold it against what is measured)."""
    config = model.network.config.get_text_config()
    width = int(config.hidden_size)
    inner = int(
        getattr(config, "intermediate_size", None)
        or getattr(config, "hidden_dim", None)
        or 4 * width
    )
    windows = getattr(config, "attention_window", 0)
    window = max(windows) if isinstance(windows, list | tuple) else windows
    seen = window + min(tokens, 128) + 1 if model.banded else tokens
    cells = model.n_heads * seen * (5 if model.banded else 3)
    vocabulary = model.network.config.vocab_size if model.task in ("lm", "mlm") else 0
    return 4 * tokens * (model.n_layers * (14 * width + 4 * inner + cells) + 3 * vocabulary)


def machine_memory(device: torch.device) -> int:
    """All the memory there is, in bytes: what is free changes, and with it results would in their last digits."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
