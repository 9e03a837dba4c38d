"""Values and gradients of a batch from its embeddings.

As many rows at a time as memory allows; layers are checkpointed where a single text is too large.
"""

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
from attlas.explain.target import ResolvedTarget, Target, resolve_target
from attlas.models import Model
from attlas.models.embeddings import Embeddings, checkpointed
from attlas.support.errors import ModelError
from attlas.support.machine import cores

BASELINES = ("padding", "mask", "zero", "mean")
BUDGET_TOKENS = 1024  # per pass on the CPU: more is not faster
SHARE = 4  # of the machine's memory, for all workers together


@dataclass(frozen=True, eq=False)
class GradientEvaluator:
    """The model's prediction for one batch as a function of its embeddings."""

    model: Model
    batch: Batch
    target: Target
    at: str = "embeddings"

    @cached_property
    def embeddings(self) -> Embeddings:
        return Embeddings(self.model, self.at)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the hooks on the model for all passes of the batch."""
        with self.embeddings.open(), checkpointed(self.model, self.rows == 0):
            yield

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """The embeddings of the texts, [text, token, dimension] each."""
        return self.embeddings.read(self.batch)

    @cached_property
    def answer(self) -> tuple[ResolvedTarget, Tensor]:
        """What is explained of each text, and that number for the text itself: [text]."""
        with torch.no_grad():
            output = self.embeddings.forward_from_embeddings(self.batch, {}, self.every)
        if not bool(torch.isfinite(output.logits).all()):
            raise ModelError(f"the model's prediction is NaN or infinite (text {self._ids})")
        target = resolve_target(self.model, self.batch, output, self.target)
        return target, target.values(output, self.every)

    @property
    def resolved(self) -> ResolvedTarget:
        """What is explained of each text."""
        return self.answer[0]

    @property
    def _ids(self) -> str:
        return ", ".join(repr(text.id) for text in self.batch.texts[:3])

    def with_model(self, model: Model) -> GradientEvaluator:
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
        on_cpu = self.model.device.type == "cpu"
        memory = machine_memory(self.model.device) // SHARE // (cores() if on_cpu else 1)
        fit = memory // row_bytes(self.model, self.batch.n_tokens)
        return min(fit, max(1, BUDGET_TOKENS // self.batch.n_tokens)) if on_cpu else fit

    def chunks(self, rows: Tensor, each: int = 1) -> Iterator[Tensor]:
        """Which rows go through the model together, where a row takes the memory of `each`."""
        yield from torch.split(rows, max(1, self.rows // each))

    def values(self, given: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The explained number of each row, [row], from embeddings [row, token, dimension]."""
        return self.resolved.values(
            self.embeddings.forward_from_embeddings(self.batch, given, rows), rows
        )

    def gradients(
        self, given: Mapping[str, Tensor], rows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The explained number of each row and its gradient by each embedding."""
        with torch.enable_grad():
            leaves = {name: tensor.detach().requires_grad_() for name, tensor in given.items()}
            values = self.values(leaves, rows)
            gradients = torch.autograd.grad(values.sum(), list(leaves.values()))
        return values.detach(), dict(zip(leaves, gradients, strict=True))

    def check(self, *scores: Tensor) -> None:
        """Refuse what is not finite."""
        if not all(bool(torch.isfinite(one).all()) for one in scores):
            raise ModelError(
                f"scores or gradients of text {self._ids} are NaN or infinite; check the model's "
                "weights and its precision"
            )


def baseline_of(evaluator: GradientEvaluator, baseline: str | Tensor) -> dict[str, Tensor]:
    """The embeddings an explanation starts from: the same text without its words.

    Special tokens, mask tokens and positions stay. Each word's vector is replaced by that of the
    padding token (as in Hou 2022), of the mask token, by zero, or by the mean of all word vectors.
    With parts, every position is the first one and every type 0. A tensor [text, token, dimension]
    is taken as it is.
    """
    inputs, model, batch = evaluator.inputs, evaluator.model, evaluator.batch
    if isinstance(baseline, Tensor):
        return _given_baseline(inputs, baseline)
    words = evaluator.embeddings.word_vectors(batch)
    stays = torch.from_numpy(batch.special).to(words.device)
    if model.tokenizer.mask_token_id is not None:
        stays = stays | (batch.ids == model.tokenizer.mask_token_id)
    blanked = torch.where(stays[..., None], words, blank_vector(model, baseline).to(words))
    start = evaluator.embeddings.read(batch, blanked)
    for name in ("position", "type"):
        if name in start:
            start[name] = inputs[name][:, :1].expand_as(inputs[name])
    return start


def _given_baseline(inputs: Mapping[str, Tensor], baseline: Tensor) -> dict[str, Tensor]:
    (name, own), *rest = inputs.items()
    fits = baseline.dim() == 3 and baseline.shape[-2:] == own.shape[-2:]
    if rest or not fits or len(baseline) not in (1, len(own)):
        raise ModelError(
            f"the baseline has the shape {list(baseline.shape)}; it must be that of the "
            f"embeddings, {list(own.shape)}"
        )
    return {name: baseline.to(own).expand_as(own)}


def blank_vector(model: Model, baseline: str) -> Tensor:
    """The vector that replaces a word: [dimension]."""
    table: Any = Embeddings(model).words
    if baseline == "zero":
        return torch.zeros_like(table.weight[0])
    if baseline == "mean":
        return table.weight.detach().mean(0) * getattr(table, "embed_scale", 1.0)
    names = {"padding": "pad_token_id", "mask": "mask_token_id"}
    number = getattr(model.tokenizer, names[baseline])
    if number is None:
        raise ModelError(
            f"the tokenizer has no {baseline} token; choose another baseline: zero or mean "
            "(--baseline)"
        )
    with torch.no_grad():
        vector: Tensor = table(torch.tensor([[number]], device=table.weight.device))[0, 0]
    return vector


def row_bytes(model: Model, tokens: int) -> int:
    """An estimate of the memory that a backward pass takes for a text of this many tokens."""
    config = model.network.config.get_text_config()
    width = int(config.hidden_size)
    sizes = (getattr(config, name, None) for name in ("intermediate_size", "hidden_dim"))
    inner = int(next(filter(None, sizes), 4 * width))
    windows = getattr(config, "attention_window", 0)
    window = max(windows) if isinstance(windows, list | tuple) else windows
    seen = window + min(tokens, 128) + 1 if model.banded else tokens
    cells = model.n_heads * seen * (5 if model.banded else 3)
    vocabulary = model.network.config.vocab_size if model.task in ("lm", "mlm") else 0
    return 4 * tokens * (model.n_layers * (14 * width + 4 * inner + cells) + 3 * vocabulary)


def machine_memory(device: torch.device) -> int:
    """All memory in bytes; free memory varies, and the last digits of results would with it."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
