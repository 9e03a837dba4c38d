"""Batch: texts of one token length, encoded. There is no padding anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attlas.core.alignment import Words, align
from attlas.core.text import Text
from attlas.language.words import given_spans, word_spans
from attlas.support.arrays import Array, Bools, Ints
from attlas.support.memo import Memo


@dataclass(frozen=True, eq=False)
class Batch(Memo):
    """Encoded texts that all have the same number of tokens.

    `indices` are those of the texts in the corpus; `truncated_by` counts truncated tokens.
    """

    texts: tuple[Text, ...]
    indices: tuple[int, ...]  # text
    ids: Tensor  # text token
    tokens: tuple[tuple[str, ...], ...]  # text token: the tokenizer's own strings
    offsets: Ints  # text token 2: characters from, to
    special: Bools  # text token
    cls: Tensor  # text token, bool
    sep: Tensor  # text token, bool
    truncated_by: tuple[int, ...]  # text
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # what the model takes with the ids

    @property
    def n_texts(self) -> int:
        return int(self.ids.shape[0])

    @property
    def n_tokens(self) -> int:
        return int(self.ids.shape[1])

    @cached_property
    def surfaces(self) -> tuple[tuple[str, ...], ...]:
        """The characters of each token in the text; of a special token the tokenizer's string."""
        return tuple(
            tuple(
                text.text[start:stop].strip() or token if not special else token
                for token, (start, stop), special in zip(
                    tokens, offsets.tolist(), specials.tolist(), strict=True
                )
            )
            for text, tokens, offsets, specials in zip(
                self.texts, self.tokens, self.offsets, self.special, strict=True
            )
        )

    @cached_property
    def words(self) -> tuple[Words, ...]:
        """The words of each text and which token belongs to which."""
        return tuple(
            align(
                text.text,
                word_spans(text.text) if text.words is None else given_spans(text.words),
                offsets.tolist(),
                special.tolist(),
                tokens,
                given=text.words is not None,
            )
            for text, offsets, special, tokens in zip(
                self.texts, self.offsets, self.special, self.tokens, strict=True
            )
        )

    def token_columns(self) -> dict[str, Array]:
        """Columns `text token start stop string`; characters of special tokens are -1."""
        n = self.n_tokens
        return {
            "text": np.repeat(np.array([text.id for text in self.texts], dtype=object), n),
            "token": np.tile(np.arange(n, dtype=np.int32), self.n_texts),
            "start": np.where(self.special, -1, self.offsets[..., 0]).astype(np.int32).reshape(-1),
            "stop": np.where(self.special, -1, self.offsets[..., 1]).astype(np.int32).reshape(-1),
            "string": np.array(
                [surface for surfaces in self.surfaces for surface in surfaces], dtype=object
            ),
        }

    def mask(self, strings: frozenset[str]) -> Tensor:
        """Which ordinary tokens are one of these strings: [text, token], on the ids' device."""
        return self.once(("mask", strings), lambda: self._mask(strings))

    def _mask(self, strings: frozenset[str]) -> Tensor:
        marked = [[surface in strings for surface in surfaces] for surfaces in self.surfaces]
        return torch.tensor(
            np.array(marked, dtype=bool).reshape(self.ids.shape) & ~self.special,
            device=self.ids.device,
        )

    def __getitem__(self, texts: slice) -> Batch:
        """Some of the texts as a batch of their own."""
        inputs = {name: tensor[texts] for name, tensor in self.inputs.items()}
        others = [one.name for one in fields(self) if one.name != "inputs"]
        return Batch(**{name: getattr(self, name)[texts] for name in others}, inputs=inputs)

    def of_text(self, text: int) -> Batch:
        """One of the texts as a batch of its own, the same one each time."""
        return self.once(("text", text), lambda: self[text : text + 1])

    def by_word(self, text: int) -> Batch:
        """One text with words instead of tokens; a word's id is that of its first token."""
        words, one = self.words[text], self[text : text + 1]
        first = np.unique(words.of, return_index=True)[1]  # word -> its first token
        last = len(words.of) - 1 - np.unique(words.of[::-1], return_index=True)[1]
        pick = torch.from_numpy(first).to(self.ids.device)
        offsets = np.stack([self.offsets[text, first, 0], self.offsets[text, last, 1]], -1)
        return replace(
            one,
            ids=one.ids[:, pick],
            tokens=(words.strings,),
            offsets=offsets[None],
            special=one.special[:, first],
            cls=one.cls[:, pick],
            sep=one.sep[:, pick],
            inputs={},
        )
