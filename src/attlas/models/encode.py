"""Texts to batches: tokenise, truncate (and count it), group by length."""

from __future__ import annotations

import inspect
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from attlas.core.annotations import GLOBAL_SPANS
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.support.errors import ModelError

BUDGET_TOKENS = 1024  # of a batch whose attention is read
BUDGET_CELLS = 2**18  # query x key cells per head, over the texts of a batch
FORWARD_TOKENS = 4096  # of a batch whose attention is not kept
FORWARD_CELLS = 2**20
GLOBAL_TOKENS = ("first", "special", "none")
_READ = {"input_ids", "special_tokens_mask", "offset_mapping"}  # of the tokenizer's output
T = TypeVar("T")


def groups(
    things: Iterable[T], length: Callable[[T], tuple[int, ...]], size: Callable[[int], int]
) -> Iterator[list[T]]:
    """Group things by length, short ones first; within a group they keep their order.

    `length` is a thing's length, then whatever else the things of a group share; `size` is the
    maximum size of a group of things of a length.

    >>> list(groups(["to", "a", "be", "or"], lambda word: (len(word),), lambda length: 2))
    [['a'], ['to', 'be'], ['or']]
    """
    by_length: dict[tuple[int, ...], list[T]] = defaultdict(list)
    for thing in things:
        by_length[length(thing)].append(thing)
    for key in sorted(by_length):
        same, count = by_length[key], max(1, size(key[0]))
        yield from (same[start : start + count] for start in range(0, len(same), count))


@dataclass(frozen=True)
class Encoded:
    """One tokenised text."""

    text: Text
    index: int
    ids: list[int]
    tokens: tuple[str, ...]
    offsets: list[tuple[int, int]]
    special: list[bool]
    extra: Mapping[str, list[int]]
    truncated_by: int
    global_tokens: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Encoder:
    """A tokenizer set up for analysis: offsets always, padding never, truncation counted."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int | None
    wants: frozenset[str]  # inputs of the model's forward in addition to the ids
    banded: bool = False
    global_tokens: str | tuple[int, ...] = "first"  # of a banded model: a name, or positions
    embedded: int | None = None  # ids below this have an embedding; None if all have

    def encode(self, texts: Sequence[tuple[int, Text]]) -> list[Encoded]:
        """Tokenise texts, each with its index in the corpus."""
        if not texts:
            return []
        with self._lock:  # truncation is a setting of the tokenizer, which threads may share
            return self._encode(texts)

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()

    def _encode(self, texts: Sequence[tuple[int, Text]]) -> list[Encoded]:
        rows = self._call([text.text for _, text in texts], truncation=False)
        lengths = [len(row["input_ids"]) for row in rows]
        limit = max(lengths) if self.max_length is None else self.max_length
        long = [index for index, length in enumerate(lengths) if length > limit]
        if long:
            strings = [texts[index][1].text for index in long]
            truncated = self._call(strings, truncation=True, max_length=self.max_length)
            for index, row in zip(long, truncated, strict=True):
                rows[index] = row
        return [
            self._encoded(index, text, row, length)
            for (index, text), row, length in zip(texts, rows, lengths, strict=True)
        ]

    def _encoded(self, index: int, text: Text, row: dict[str, Any], length: int) -> Encoded:
        """One text from its row of the tokenizer's output; `length` is that before truncation."""
        ids = row["input_ids"]
        self._check_embedded(text, ids)
        flags = zip(row["special_tokens_mask"], ids, strict=True)
        special = [bool(flag) or id_ in self._marks for flag, id_ in flags]
        offsets = [tuple(span) for span in row["offset_mapping"]]
        return Encoded(
            text=text,
            index=index,
            ids=ids,
            tokens=tuple(self.tokenizer.convert_ids_to_tokens(ids)),
            offsets=offsets,
            special=special,
            extra={name: row[name] for name in row if name in self.wants - _READ},
            truncated_by=length - len(ids),
            global_tokens=self._global(text, special, offsets) if self.banded else (),
        )

    def _check_embedded(self, text: Text, ids: list[int]) -> None:
        """Refuse a text with a token that the network has no embedding for."""
        if self.embedded is not None and max(ids, default=0) >= self.embedded:
            token = self.tokenizer.convert_ids_to_tokens(max(ids))
            raise ModelError(
                f"text {text.id!r} has the token {token!r} (id {max(ids)}), but the model has "
                f"embeddings for {self.embedded} tokens; load it with its own tokenizer"
            )

    def _global(
        self, text: Text, special: list[bool], offsets: list[tuple[int, int]]
    ) -> tuple[int, ...]:
        """The positions of the tokens that see, and are seen by, all."""
        if self.global_tokens == "first":
            positions = {0}
        elif self.global_tokens == "special":
            positions = {position for position, is_special in enumerate(special) if is_special}
        elif self.global_tokens == "none":
            positions = set()
        else:
            positions = {int(one) for one in self.global_tokens if int(one) < len(special)}
        try:
            spans = [
                (int(start), int(stop)) for start, stop in text.annotations.get(GLOBAL_SPANS, ())
            ]
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"the annotation {GLOBAL_SPANS!r} of text {text.id!r} is not a list of character "
                "spans such as [(0, 12)]"
            ) from error
        for start, stop in spans:
            positions |= {
                position
                for position, (first, last) in enumerate(offsets)
                if not special[position] and first < stop and last > start
            }
        return tuple(sorted(positions))

    @cached_property
    def _marks(self) -> frozenset[int]:
        names = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
        return frozenset(
            id_ for name in names if (id_ := getattr(self.tokenizer, name, None)) is not None
        )

    def _call(self, strings: list[str], **options: Any) -> list[dict[str, Any]]:
        """The tokenizer's output, one row per string."""
        if not self.tokenizer.is_fast:
            raise ModelError(
                f"{type(self.tokenizer).__name__} has no character offsets; "
                "load the fast tokenizer of this model"
            )
        encoding = self.tokenizer(
            strings,
            add_special_tokens=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_attention_mask=False,
            verbose=False,
            **options,
        )
        return [
            dict(zip(encoding, values, strict=True))
            for values in zip(*encoding.values(), strict=True)
        ]

    def groups(
        self, encoded: Iterable[Encoded], tokens: int = BUDGET_TOKENS, cells: int = BUDGET_CELLS
    ) -> Iterator[list[Encoded]]:
        """Group texts by length and number of global tokens, as many as the budgets allow."""

        def size(length: int) -> int:
            return min(tokens // length, tokens if self.banded else cells // length**2)

        return groups(encoded, lambda one: (len(one), len(one.global_tokens)), size)

    def batch(self, encoded: Sequence[Encoded], device: torch.device) -> Batch:
        """One batch of texts that have one length."""
        ids = torch.tensor([text.ids for text in encoded], device=device)
        inputs = {
            name: torch.tensor([list(text.extra[name]) for text in encoded], device=device)
            for name in encoded[0].extra
        }
        if self.banded:
            mask = torch.zeros_like(ids)
            tokens = [text.global_tokens for text in encoded]
            positions = torch.tensor(tokens, dtype=torch.long, device=device)
            positions = positions.reshape(len(encoded), -1)
            inputs["global_attention_mask"] = mask.scatter_(1, positions, 1)
        return Batch(
            texts=tuple(text.text for text in encoded),
            indices=tuple(text.index for text in encoded),
            ids=ids,
            tokens=tuple(text.tokens for text in encoded),
            offsets=np.array([text.offsets for text in encoded], np.int64).reshape(*ids.shape, 2),
            special=np.array([text.special for text in encoded], dtype=bool).reshape(ids.shape),
            cls=self._is(ids, "cls_token_id"),
            sep=self._is(ids, "sep_token_id"),
            truncated_by=tuple(text.truncated_by for text in encoded),
            inputs=inputs,
        )

    def _is(self, ids: torch.Tensor, name: str) -> torch.Tensor:
        wanted = getattr(self.tokenizer, name, None)
        return torch.zeros_like(ids, dtype=torch.bool) if wanted is None else ids == wanted


def inputs_of(network: nn.Module) -> frozenset[str]:
    """The inputs of a network in addition to the ids."""
    return frozenset(inspect.signature(network.forward).parameters) - {
        "input_ids",
        "attention_mask",
    }


def forward_options(network: nn.Module, states: bool = False) -> dict[str, bool]:
    """The options of a forward pass: no cache, and hidden states on request."""
    options = {"output_hidden_states": True} if states else {}
    if "use_cache" in inspect.signature(network.forward).parameters:
        options["use_cache"] = False
    return options
