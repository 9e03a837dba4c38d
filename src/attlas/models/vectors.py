"""Static word vectors: a model's input embeddings, or GloVe's.

Both are standardised: each dimension has mean 0 and standard deviation 1 over the rows of its
table, so that one learning rate and one weight decay fit all. A word without a vector is all zeros,
the mean word.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from attlas.core.text import Text
from attlas.models import Model
from attlas.support.arrays import Floats32, Ints
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import Put, feed, fingerprint

CARRIER = "a"  # encoded before a word to find the word's tokens
SMALLEST_SPREAD = 1e-6  # below, a dimension is taken as constant


class Vectors(Protocol):
    """Static vectors of words."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def digest(self) -> str:
        """The fingerprint of words and numbers."""

    def of(self, words: Sequence[str]) -> Floats32:
        """The vector of each word: [word, size]."""


def standardised(table: Floats32) -> Floats32:
    """Each dimension with mean 0 and standard deviation 1 over the rows; 0 if it is constant.

    >>> standardised(np.array([[1, 5], [3, 5]], dtype=np.float32))
    array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32)
    """
    mean = table.mean(0, dtype=np.float64).astype(np.float32)
    spread = table.std(0, dtype=np.float64).astype(np.float32)
    varies = spread > SMALLEST_SPREAD
    return (table - mean) * np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)


class ModelVectors:
    """Mean of a model's own input embeddings over the tokens of a word, without positions.

    A word's tokens are those it has after another word: some tokenizers split the first word of a
    text differently.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._tokens: dict[str, list[int]] = {}

    def __repr__(self) -> str:
        return f"ModelVectors({self.model.name!r})"

    @property
    def name(self) -> str:
        return f"input embeddings of {self.model.name}"

    @cached_property
    def table(self) -> Tensor:
        """The standardised embeddings: [token id, size]."""
        network: Any = self.model.network
        rows = network.get_input_embeddings().weight.detach().float().cpu().numpy()
        return torch.from_numpy(standardised(rows))

    @property
    def size(self) -> int:
        return int(self.table.shape[1])

    @property
    def digest(self) -> str:
        return fingerprint(self)

    def of(self, words: Sequence[str]) -> Floats32:
        """The vector of each word, zeros if it has no tokens: [word, size]."""
        self._encode([word for word in dict.fromkeys(words) if word not in self._tokens])
        tokens = [self._tokens[word] for word in words]
        if not any(tokens):
            return np.zeros((len(words), self.size), dtype=np.float32)
        starts = np.cumsum([0, *map(len, tokens[:-1])])
        flat = torch.tensor([token for one in tokens for token in one])
        return embedding_bag(flat, self.table, torch.from_numpy(starts), mode="mean").numpy()

    def _encode(self, words: Sequence[str]) -> None:
        """Store the tokens of new words."""
        pairs = (Text(str(index), words=(CARRIER, word)) for index, word in enumerate(words))
        for batch in self.model.batches(self.model.encode(list(enumerate(pairs)))):
            each = zip(batch.indices, batch.ids.tolist(), batch.words, strict=True)
            for index, ids, split in each:
                self._tokens[words[index]] = [
                    token
                    for token, word in zip(ids, split.of.tolist(), strict=True)
                    if split.source[word] == 1
                ]


class GloveVectors:
    """Vectors from a file in GloVe's format (also .gz); words are looked up in lower case.

    The file is read when it is first used, and kept in memory.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def __repr__(self) -> str:
        return f"GloveVectors({str(self.path)!r})"

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def _read(self) -> tuple[dict[str, int], Floats32]:
        """Rows by word, and the standardised table whose last row is that of unknown words."""
        rows: dict[str, int] = {}
        numbers: list[Floats32] = []
        for word, vector in read_glove(self.path):
            rows.setdefault(word, len(numbers))
            numbers.append(vector)
        if not numbers:
            raise CorpusError(
                f"{self.path} is empty; give a file of vectors such as glove.6B.100d.txt"
            )
        table = standardised(np.stack(numbers))
        return rows, np.concatenate([table, np.zeros_like(table[:1])])

    @property
    def size(self) -> int:
        return int(self._read[1].shape[1])

    @cached_property
    def digest(self) -> str:
        """The words in the order of the file, the row of each, all numbers; not the file's name."""
        words, table = self._read
        return fingerprint(("vectors of lower-cased words", *rows_content(words), table))

    def of(self, words: Sequence[str]) -> Floats32:
        """The vector of each word, zeros if unknown: [word, size]."""
        rows, table = self._read
        return table[[rows.get(word.lower(), -1) for word in words]]


@feed.register
def _(vectors: ModelVectors, put: Put) -> None:
    """The model: its embeddings, and its tokenizer."""
    feed(("model vectors", vectors.model), put)


@feed.register
def _(vectors: GloveVectors, put: Put) -> None:
    """The digest of its content, computed once: a file is read once."""
    feed(("vectors", vectors.digest), put)


def rows_content(rows: Mapping[str, int]) -> tuple[list[str], Ints]:
    """Words, and the row of each, for a fingerprint."""
    return list(rows), np.array(list(rows.values()), dtype=np.int64)


def read_glove(path: Path) -> Iterator[tuple[str, Floats32]]:
    """The words and vectors of a file, one per line; the first line sets the size of vectors."""
    size: int | None = None
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8", "replace").rstrip()
                word, vector = _split(text, size, f"{path}, line {number}")
                size = len(vector)
                yield word, vector
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CorpusError(f"{path} cannot be read as vectors: {reason}") from error


def _split(line: str, size: int | None, where: str) -> tuple[str, Floats32]:
    """The word and the numbers of one line; a word may contain blanks, as some of GloVe's do."""
    word, *fields = line.split(" ") if size is None else line.rsplit(" ", size)
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError:
        vector = np.empty(0, dtype=np.float32)
    if not len(vector) or not np.isfinite(vector).all():
        raise CorpusError(f"{where}: it is not a word and its numbers ({line[:40]!r})")
    last = word.rpartition(" ")[2] if " " in word else ""
    if size is not None and (len(vector) != size or _is_number(last)):
        raise CorpusError(
            f"{where}: it does not have {size} numbers as the lines before ({line[:40]!r})"
        )
    return word, vector


def _is_number(string: str) -> bool:
    try:
        float(string)
    except ValueError:
        return False
    return True
