"""Embeddings: the input of a network's first layer, read and replaced.

The whole network runs, with its real ids, and the outputs of its embedding modules are read or
replaced on the way. So positions and types stay those of the text even if its words are replaced,
and every family of models works alike. Nothing is left on the network afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attlas.core.batch import Batch
from attlas.models.encode import forward_options
from attlas.models.install import Undo, installed, replace_method
from attlas.models.model import Model
from attlas.support.errors import ModelError

AT = ("embeddings", "words", "parts")
PARTS = {
    "word": ("word_embeddings", "wte", "embed_tokens", "tok_embeddings", "embed_in", "shared"),
    "position": ("position_embeddings", "wpe", "embed_positions"),
    "type": ("token_type_embeddings",),
}


class _StopForwardError(Exception):
    """All embeddings have been read; the rest of the network need not run."""


@dataclass
class _Frame:
    """The outputs that one pass replaces and reads, by module."""

    replacements: dict[int, Tensor]
    wanted: set[int] = field(default_factory=set)
    outputs: dict[int, Tensor] = field(default_factory=dict)


class _Frames(threading.local):
    """The open passes of this thread, outermost first, and whether layers are checkpointed."""

    def __init__(self) -> None:
        self.stack: list[_Frame] = []
        self.checkpointed = False


_frames = _Frames()


def _pass(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
    """The hook on embedding modules.

    A replacement is used once: a decoder may share the encoder's table.
    """
    if not _frames.stack:
        return None
    frame = _frames.stack[-1]
    replacement = frame.replacements.pop(id(module), None)
    if id(module) in frame.wanted and id(module) not in frame.outputs:
        frame.outputs[id(module)] = (output if replacement is None else replacement).detach()
        if len(frame.outputs) == len(frame.wanted):
            raise _StopForwardError
    return None if replacement is None else replacement.to(output.dtype)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The embeddings of a model.

    With `at="embeddings"` the input of the first layer, with `words` the word vectors, with `parts`
    word, position and type vectors separately.
    """

    model: Model
    at: str = "embeddings"

    def __post_init__(self) -> None:
        if self.at not in AT:
            raise ModelError(f"at is {self.at!r}; it must be {', '.join(AT)}")

    @cached_property
    def words(self) -> nn.Module:
        """The module that gives word vectors."""
        part: Any = self.model.part
        has_table = hasattr(part, "get_input_embeddings")
        return (part if has_table else self._network).get_input_embeddings()

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
        modules: dict[str, nn.Module] = {"word": self.words}
        root = whole if isinstance(whole, nn.Module) else self.model.part
        for name, module in root.named_modules():
            for part, names in PARTS.items():
                if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in names:
                    modules.setdefault(part, module)
        return modules

    @contextmanager
    def open(self) -> Iterator[None]:
        """While open, its modules can be read and replaced, in many passes.

        Attention is computed as while it is observed, because the implementation changes the last
        digits.
        """
        with (
            installed(self._network, "embeddings", self._install),
            self.model.without_dropout(),
            self.model.observe(),
        ):
            yield

    def _install(self) -> Undo:
        every = [module for at in AT for module in Embeddings(self.model, at).modules.values()]
        distinct = {id(module): module for module in every}
        return [module.register_forward_hook(_pass).remove for module in distinct.values()]

    def read(self, batch: Batch, words: Tensor | None = None) -> dict[str, Tensor]:
        """The embeddings of a batch, each [text, token, dimension]; `words` replace its own."""
        replacements = {} if words is None else {id(self.words): words}
        frame = _Frame(replacements, {id(module) for module in self.modules.values()})
        with self.open(), _on(frame), torch.no_grad(), suppress(_StopForwardError):
            self._call(batch, torch.arange(batch.n_texts, device=batch.ids.device))
        if not frame.outputs:
            name = type(self._network).__name__
            raise ModelError(f"{name} does not use its embeddings in a way that Attlas can read")
        outputs = {name: frame.outputs.get(id(module)) for name, module in self.modules.items()}
        return {  # positions may be computed once for all texts
            name: tensor.reshape(-1, *tensor.shape[-2:]).expand(batch.n_texts, -1, -1)
            for name, tensor in outputs.items()
            if tensor is not None
        }

    def word_vectors(self, batch: Batch) -> Tensor:
        """The word vectors of a batch: [text, token, dimension]."""
        return Embeddings(self.model, "words").read(batch)["word"]

    def forward_from_embeddings(
        self, batch: Batch, embeddings: Mapping[str, Tensor], rows: Tensor
    ) -> Any:
        """Run the network from embeddings [row, token, dimension] and return transformers' output.

        `rows` is the text of each row.
        """
        with self.replacing(embeddings):
            return self._call(batch, rows)

    @contextmanager
    def replacing(self, embeddings: Mapping[str, Tensor]) -> Iterator[None]:
        """While open, the next pass in this thread starts from these embeddings."""
        frame = _Frame({id(self.modules[name]): tensor for name, tensor in embeddings.items()})
        with self.open(), _on(frame):
            yield

    def _call(self, batch: Batch, rows: Tensor) -> Any:
        inputs = {name: tensor[rows] for name, tensor in batch.inputs.items()}
        options = forward_options(self._network)
        return self._network(input_ids=batch.ids[rows], **inputs, **options)


@contextmanager
def _on(frame: _Frame) -> Iterator[None]:
    _frames.stack.append(frame)
    try:
        yield
    finally:
        _frames.stack.pop()


@contextmanager
def checkpointed(model: Model, wanted: bool = True) -> Iterator[None]:
    """While open, and if `wanted`, layers are computed again in this thread's backward pass.

    It needs the memory of one layer instead of all.
    """
    before, _frames.checkpointed = _frames.checkpointed, wanted
    checkpoints = partial(
        installed, model.network, "checkpoints", partial(_checkpoint_layers, model)
    )
    try:
        with checkpoints() if wanted else nullcontext():
            yield
    finally:
        _frames.checkpointed = before


def _checkpoint_layers(model: Model) -> Undo:
    for module in model.part.modules():
        if isinstance(module, nn.ModuleList) and len(module) == model.n_layers:
            return [
                replace_method(layer, "forward", _Checkpointed(layer.forward)) for layer in module
            ]
    return []


@dataclass(frozen=True)
class _Checkpointed:
    """The forward of a layer, with checkpoints where this thread wants them.

    It is no closure, so that a copy of the network has its own.
    """

    forward: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (_frames.checkpointed and torch.is_grad_enabled()):
            return self.forward(*args, **kwargs)
        return checkpoint(self.forward, *args, use_reentrant=False, **kwargs)
