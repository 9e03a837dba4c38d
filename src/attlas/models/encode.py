"""Texts to batches: tokenise, truncate and count it, group by length."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from attlas.core.annotations import GLOBAL_SPANS
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.support.errors import ModelError

BUDGET_TOKENS = 1024  # of a batch whose attention is read
BUDGET_CELLS = 2**18  # query x key cells a head, over the texts of a batch
FORWARD_TOKENS = 4096  # of a batch whose attention is not kept
FORWARD_CELLS = 2**20
GLOBAL_TOKENS = ("first", "special", "none")
T = TypeVar("T")


def groups(
    things: Iterable[T], length: Callable[[T], tuple[int, ...]], size: Callable[[int], int]
) -> Iterator[list[T]]:
    """Things of one length together, short ones first, in their order.

    `length` is a thing's length, then whatever else the things of a group share; `size` is how many
    things of a length go into one group.

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
    place: int
    ids: list[int]
    tokens: tuple[str, ...]
    offsets: list[tuple[int, int]]
    special: list[bool]
    extra: Mapping[str, list[int]]
    cut: int
    global_tokens: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Encoder:
    """A tokenizer set up for analysis: offsets always, padding never, truncation counted."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int | None
    wants: frozenset[str]  # what the model's forward takes beside the ids
    banded: bool = False
    global_tokens: str | tuple[int, ...] = (
        "first"  # of a banded model: one of GLOBAL_TOKENS, or places
    )
    embedded: int | None = None  # ids below this have an embedding; None if all have

    def encode(self, texts: Sequence[tuple[int, Text]]) -> list[Encoded]:
        """Tokenise texts, each with its place in the corpus."""
        if not texts:
            return []
        with self._lock:  # truncation is a setting of the tokenizer, which threads may share
            return self._encode(texts)

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()

    def _encode(self, texts: Sequence[tuple[int, Text]]) -> list[Encoded]:
        whole = self._call([text.text for _, text in texts], truncation=False)
        lengths = [len(ids) for ids in whole["input_ids"]]
        over = [
            index
            for index, length in enumerate(lengths)
            if self.max_length is not None and length > self.max_length
        ]
        cut = (
            dict(
                zip(
                    over,
                    self._rows(
                        self._call(
                            [texts[index][1].text for index in over],
                            truncation=True,
                            max_length=self.max_length,
                        )
                    ),
                    strict=True,
                )
            )
            if over
            else {}
        )
        out = []
        for index, ((place, text), row) in enumerate(zip(texts, self._rows(whole), strict=True)):
            row = cut.get(index, row)
            ids = row.pop("input_ids")
            self._check_embedded(text, ids)
            special = [
                bool(flag) or id_ in self._marks
                for flag, id_ in zip(row.pop("special_tokens_mask"), ids, strict=True)
            ]
            offsets = [tuple(span) for span in row.pop("offset_mapping")]
            tokens = tuple(self.tokenizer.convert_ids_to_tokens(ids))
            out.append(
                Encoded(
                    text,
                    place,
                    ids,
                    tokens,
                    offsets,
                    special,
                    {name: values for name, values in row.items() if name in self.wants},
                    lengths[index] - len(ids),
                    self._global(text, special, offsets) if self.banded else (),
                )
            )
        return out

    def _check_embedded(self, text: Text, ids: list[int]) -> None:
        """Refuse a text with a token that the network has no embedding for."""
        if self.embedded is not None and max(ids, default=0) >= self.embedded:
            token = self.tokenizer.convert_ids_to_tokens(max(ids))
            raise ModelError(
                f"text {text.id!r} has the token {token!r} (id {max(ids)}), but the model has embeddings for {self.embedded} tokens; load it with its own tokenizer"
            )

    def _global(
        self, text: Text, special: list[bool], offsets: list[tuple[int, int]]
    ) -> tuple[int, ...]:
        """Where the tokens stand that see, and are seen by, all."""
        if self.global_tokens == "first":
            chosen = {0}
        elif self.global_tokens == "special":
            chosen = {place for place, is_special in enumerate(special) if is_special}
        elif self.global_tokens == "none":
            chosen = set()
        else:
            chosen = {int(place) for place in self.global_tokens if int(place) < len(special)}
        try:
            spans = [
                (int(start), int(stop)) for start, stop in text.annotations.get(GLOBAL_SPANS, ())
            ]
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"the annotation {GLOBAL_SPANS!r} of text {text.id!r} is no list of character spans such as [(0, 12)]"
            ) from error
        for start, stop in spans:
            chosen |= {
                place
                for place, (first, last) in enumerate(offsets)
                if not special[place] and first < stop and last > start
            }
        return tuple(sorted(chosen))

    @cached_property
    def _marks(self) -> frozenset[int]:
        names = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
        return frozenset(
            id_ for name in names if (id_ := getattr(self.tokenizer, name, None)) is not None
        )

    def _call(self, strings: list[str], **options: Any) -> Mapping[str, Any]:
        if not self.tokenizer.is_fast:
            raise ModelError(
                f"{type(self.tokenizer).__name__} gives no character offsets; load the fast tokenizer of this model"
            )
        return self.tokenizer(
            strings,
            add_special_tokens=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_attention_mask=False,
            verbose=False,
            **options,
        )

    @staticmethod
    def _rows(encoding: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        names = list(encoding)
        for values in zip(*(encoding[name] for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def groups(
        self, encoded: Iterable[Encoded], tokens: int = BUDGET_TOKENS, cells: int = BUDGET_CELLS
    ) -> Iterator[list[Encoded]]:
        """Texts of one length (and one number of global tokens) together, short ones first, as many as the budgets allow; texts keep their order."""

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
            places = torch.tensor(
                [text.global_tokens for text in encoded], dtype=torch.long, device=device
            )
            inputs["global_attention_mask"] = mask.scatter_(1, places.reshape(len(encoded), -1), 1)
        return Batch(
            texts=tuple(text.text for text in encoded),
            places=tuple(text.place for text in encoded),
            ids=ids,
            tokens=tuple(text.tokens for text in encoded),
            offsets=np.array([text.offsets for text in encoded], dtype=np.int64).reshape(
                *ids.shape, 2
            ),
            special=np.array([text.special for text in encoded], dtype=bool).reshape(ids.shape),
            cls=self._is(ids, "cls_token_id"),
            sep=self._is(ids, "sep_token_id"),
            cut=tuple(text.cut for text in encoded),
            inputs=inputs,
        )

    def _is(self, ids: torch.Tensor, name: str) -> torch.Tensor:
        wanted = getattr(self.tokenizer, name, None)
        return torch.zeros_like(ids, dtype=torch.bool) if wanted is None else ids == wanted
