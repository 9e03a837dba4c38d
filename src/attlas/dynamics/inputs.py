"""Frozen encoders: static word vectors, and the hidden states of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from attlas.core.alignment import word_means
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.dynamics.experiment import is_vector_file
from attlas.dynamics.ragged import RaggedTexts, starts_of
from attlas.models import Model, load
from attlas.models.predict import run_batches
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors, rows_content, standardised
from attlas.support.errors import MeasureError
from attlas.support.fingerprint import Put, feed, fingerprint
from attlas.support.progress import progress_bar

Floats = npt.NDArray[np.float32]


def vectors_of(source: Any = None) -> Vectors:
    """Static vectors from a file in GloVe's format, a mapping, or a model's input embeddings."""
    if isinstance(source, Mapping):
        return MappedVectors(source)
    if is_vector_file(source):
        return GloveVectors(source)
    if hasattr(source, "of"):
        return cast(Vectors, source)
    return ModelVectors(model_of(source))


class MappedVectors:
    """Vectors from a mapping of words to numbers, standardised as others are."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        sizes = {np.shape(vector) for vector in given.values()}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1:
            raise MeasureError(
                "word vectors must be lists of numbers of one length; "
                f"got the shapes {sorted(sizes)[:3]}"
            )
        self.table = standardised(np.array(list(given.values()), dtype=np.float32))
        self.rows = {str(word): row for row, word in enumerate(given)}

    name = "a mapping"

    @property
    def size(self) -> int:
        return int(self.table.shape[1])

    @property
    def digest(self) -> str:
        return fingerprint(self)

    def of(self, words: Sequence[str]) -> Floats:
        """The vector of each word, zeros if unknown: [word, size]."""
        rows = np.array([self.rows.get(word, -1) for word in words], dtype=np.int64)
        return np.where(rows[:, None] < 0, np.float32(0), self.table[rows])


@feed.register
def _(vectors: MappedVectors, put: Put) -> None:
    """The words and the row of each, and all numbers."""
    feed(("vectors of words", *rows_content(vectors.rows), vectors.table), put)


def static_rows(words: Sequence[str], source: Any = None) -> Floats:
    """The vectors of words and, last, zeros for unknown tokens: [word + 1, size].

    A word without a vector has zeros too, which is the mean vector.
    """
    rows = vectors_of(source).of(list(words))
    if not rows.any():
        raise MeasureError(
            "none of the words of the training texts has a vector; "
            "use vectors of the same language, lower-cased"
        )
    return _with_unknown(rows)


def word_states(words: Sequence[str], source: Any, progress: bool | None = None) -> Floats:
    """Hidden states of each word alone, and zeros for unknown tokens: [word + 1, size]."""
    alone = [[word] for word in words]
    return _with_unknown(_states(model_of(source), alone, progress, "words by themselves"))


def _with_unknown(rows: Floats) -> Floats:
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def encoded(
    ragged: RaggedTexts, tokens: Sequence[Sequence[str]], source: Any, progress: bool | None = None
) -> RaggedTexts:
    """The same texts with the hidden state of each token, the mean over its word pieces.

    Tokens that are truncated, or for which the tokenizer has no pieces, have zeros.
    """
    return replace(ragged, states=_states(model_of(source), tokens, progress, "hidden states"))


def model_of(source: Any) -> Model:
    """Return a model as it is, or load it; never from a cache, as its files may have changed."""
    return source if isinstance(source, Model) else load(source)


def identity_parts(given: Vectors | Model) -> dict[str, str]:
    """The fingerprints of the parts of a frozen model, or the fingerprint of vectors."""
    model = given.model if isinstance(given, ModelVectors) else given
    return model.identity() if isinstance(model, Model) else {"content": fingerprint(given)}


def cut_off(model: Model, tokens: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The numbers of texts, and of their word pieces, that a model truncates."""
    lost = [one.truncated_by for one in model.encode(list(enumerate(_texts(tokens))))]
    return sum(count > 0 for count in lost), sum(lost)


def _states(
    model: Model, tokens: Sequence[Sequence[str]], progress: bool | None, what: str
) -> Floats:
    """The last hidden state of every token, the mean over its word pieces: [token, size]."""
    starts = starts_of(np.array([len(text) for text in tokens]))
    out: list[Floats] = []  # one array, made when its size is known
    read: list[int] = []
    with progress_bar(what, wanted=progress) as report:

        def keep(batch: Batch, output: Any) -> None:
            hidden = output.hidden_states[-1].float().cpu().numpy()
            if not out:
                out.append(np.zeros((int(starts[-1]), hidden.shape[-1]), dtype=np.float32))
            for states, index, words in zip(hidden, batch.indices, batch.words, strict=True):
                source = np.array(words.source)[words.of]
                own = source >= 0
                means = word_means(states[own], source[own], len(tokens[index]))
                out[0][starts[index] : starts[index + 1]] = means
            read.extend(batch.indices)
            report(len(read), len(tokens))

        run_batches(model, _texts(tokens), keep, head=False, states=True)
    if not out:
        raise MeasureError(
            "the model's tokenizer produces no tokens for these texts; use another model"
        )
    return out[0]


def _texts(tokens: Sequence[Sequence[str]]) -> list[Text]:
    return [Text(str(index), words=tuple(text)) for index, text in enumerate(tokens)]
