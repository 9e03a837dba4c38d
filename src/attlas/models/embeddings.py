"""Embeddings: what a network makes of its tokens before its first layer, read and replaced.

The network is run whole, with its real ids, and what its embedding modules give is taken or replaced on the way. So positions and types stay those of the
text whatever stands in the place of its words, and every family of models is served alike. Nothing is left on the network afterwards.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attlas.core.batch import Batch
from attlas.models.install import Undo, fitted, replace_method
from attlas.models.model import Model
from attlas.support.errors import ModelError

AT = ("embeddings", "words", "parts")
PARTS = {
    "word": ("word_embeddings", "wte", "embed_tokens", "tok_embeddings", "embed_in", "shared"),
    "position": ("position_embeddings", "wpe", "embed_positions"),
    "type": ("token_type_embeddings",),
}


class _EnoughError(Exception):
    """All that was wanted has been seen; the rest of the network need not run."""


@dataclass
class _Frame:
    """What one pass replaces and reads, by module."""

    given: dict[int, Tensor]
    wanted: set[int] = field(default_factory=set)
    seen: dict[int, Tensor] = field(default_factory=dict)


class _Frames(threading.local):
    """The passes under way in this thread, outermost first, and whether its layers are checkpointed."""

    def __init__(self) -> None:
        self.stack: list[_Frame] = []
        self.checkpointed = False


_frames = _Frames()


def _pass(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
    """The hook on embedding modules. A replacement serves once: a decoder may share the encoder's table."""
    if not _frames.stack:
        return None
    frame = _frames.stack[-1]
    replaced = frame.given.pop(id(module), None)
    if id(module) in frame.wanted and id(module) not in frame.seen:
        frame.seen[id(module)] = (output if replaced is None else replaced).detach()
        if len(frame.seen) == len(frame.wanted):
            raise _EnoughError
    return None if replaced is None else replaced.to(output.dtype)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The embeddings of a model at one place: `embeddings` is what enters its first layer, `words` its word vectors, `parts` word, position and type vectors apart."""

    model: Model
    at: str = "embeddings"

    def __post_init__(self) -> None:
        if self.at not in AT:
            raise ModelError(f"at is {self.at!r}; it must be {', '.join(AT)}")

    @cached_property
    def words(self) -> nn.Module:
        """The module that gives word vectors."""
        part: Any = self.model.part
        return (
            part.get_input_embeddings()
            if hasattr(part, "get_input_embeddings")
            else self._network.get_input_embeddings()
        )

    @property
    def _network(self) -> Any:
        return self.model.network

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """The modules whose output is read and replaced, by name."""
        if self.at == "words":
            return {"word": self.words}
        whole = getattr(self.model.part, "embeddings", None)
        if self.at == "embeddings":
            return {"embeddings": whole if isinstance(whole, nn.Module) else self.words}
        found: dict[str, nn.Module] = {"word": self.words}
        for name, module in (
            whole if isinstance(whole, nn.Module) else self.model.part
        ).named_modules():
            for part, names in PARTS.items():
                if (
                    part not in found
                    and isinstance(module, nn.Embedding)
                    and name.rpartition(".")[2] in names
                ):
                    found[part] = module
        return found

    @contextmanager
    def open(self) -> Iterator[None]:
        """While open, its modules can be read and replaced; to be held over many passes.

        Attention is computed as while it is observed, whatever other threads do: how it is computed changes the last digits.
        """
        with (
            fitted(self._network, "embeddings", self._fit),
            self.model.without_dropout(),
            self.model.observe(),
        ):
            yield

    def _fit(self) -> Undo:
        each = {
            id(module): module
            for at in AT
            for module in Embeddings(self.model, at).modules.values()
        }
        return [module.register_forward_hook(_pass).remove for module in each.values()]

    def read(self, batch: Batch, words: Tensor | None = None) -> dict[str, Tensor]:
        """What the modules give for a batch, each [text, token, dimension]; with other word vectors in the place of the text's if given."""
        frame = _Frame(
            {} if words is None else {id(self.words): words},
            {id(one) for one in self.modules.values()},
        )
        with self.open(), _on(frame), torch.no_grad(), suppress(_EnoughError):
            self._call(batch, torch.arange(batch.n_texts, device=batch.ids.device))
        if not frame.seen:
            raise ModelError(
                f"{type(self._network).__name__} does not use its embeddings in a way that Attlas can read"
            )
        found = {name: frame.seen.get(id(module)) for name, module in self.modules.items()}
        return {
            name: tensor.reshape(-1, *tensor.shape[-2:]).expand(
                batch.n_texts, -1, -1
            )  # positions may stand there once for all texts
            for name, tensor in found.items()
            if tensor is not None
        }

    def word_vectors(self, batch: Batch) -> Tensor:
        """The word vectors of a batch: [text, token, dimension]."""
        return Embeddings(self.model, "words").read(batch)["word"]

    def run(self, batch: Batch, given: Mapping[str, Tensor], rows: Tensor) -> Any:
        """Run the whole network from these embeddings, each [row, token, dimension]; `rows` says of which text each row is. Returns transformers' output."""
        frame = _Frame({id(self.modules[name]): tensor for name, tensor in given.items()})
        with self.open(), _on(frame):
            return self._call(batch, rows)

    @contextmanager
    def replaced(self, given: Mapping[str, Tensor]) -> Iterator[None]:
        """While open, the next pass in this thread, whoever makes it, starts from these embeddings."""
        with (
            self.open(),
            _on(_Frame({id(self.modules[name]): tensor for name, tensor in given.items()})),
        ):
            yield

    def _call(self, batch: Batch, rows: Tensor) -> Any:
        network = self._network
        options = (
            {"use_cache": False}
            if "use_cache" in inspect.signature(network.forward).parameters
            else {}
        )
        inputs = {name: tensor[rows] for name, tensor in batch.inputs.items()}
        return network(input_ids=batch.ids[rows], **inputs, **options)


@contextmanager
def _on(frame: _Frame) -> Iterator[None]:
    _frames.stack.append(frame)
    try:
        yield
    finally:
        _frames.stack.pop()


@contextmanager
def checkpointed(model: Model, wanted: bool = True) -> Iterator[None]:
    """While open, a layer keeps only its input for this thread's backward pass and is computed again there: a layer's memory instead of all layers'. Not if not `wanted`."""
    before, _frames.checkpointed = _frames.checkpointed, wanted
    try:
        with (
            fitted(model.network, "checkpoints", lambda: _checkpoint_layers(model))
            if wanted
            else nullcontext()
        ):
            yield
    finally:
        _frames.checkpointed = before


def _checkpoint_layers(model: Model) -> Undo:
    for module in model.part.modules():
        if isinstance(module, nn.ModuleList) and len(module) == model.n_layers:
            return [replace_method(layer, "forward", _Again(layer.forward)) for layer in module]
    return []


@dataclass(frozen=True)
class _Again:
    """The forward of a layer, computed again on the way back where this thread wants that. No closure, so that a copy of the network has its own."""

    forward: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (_frames.checkpointed and torch.is_grad_enabled()):
            return self.forward(*args, **kwargs)
        return checkpoint(self.forward, *args, use_reentrant=False, **kwargs)
