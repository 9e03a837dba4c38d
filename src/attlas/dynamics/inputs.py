"""Vectors that are given and stay as they are: static vectors of words, and the hidden states of a frozen model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from attlas.core.alignment import word_means
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.dynamics.ragged import Bags
from attlas.models import Model, load
from attlas.models.predict import run_batches
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors, rows_content, standardised
from attlas.support.errors import MeasureError
from attlas.support.fingerprint import Put, feed, fingerprint
from attlas.support.progress import progress_bar

Floats = npt.NDArray[np.float32]


def vectors_of(source: Any = None) -> Vectors:
    """Static vectors from a file of GloVe's layout, a mapping from words to numbers, or the input embeddings of a model (the embedded one if None)."""
    if isinstance(source, Mapping):
        return MappedVectors(source)
    if isinstance(source, str | Path) and _is_file(source):
        return GloveVectors(source)
    if hasattr(source, "of"):
        return cast(Vectors, source)
    return ModelVectors(model_of(source))


def _is_file(source: str | Path) -> bool:
    """Whether a name is that of a file of vectors; one that looks like a file and is not there is an error."""
    path = Path(source).expanduser()
    if path.suffix in (".txt", ".gz", ".vec") and not path.is_file():
        raise MeasureError(
            f"there is no file of vectors {source}; give one of GloVe's layout, or a model"
        )
    return path.is_file()


class MappedVectors:
    """Vectors from a mapping of words to numbers, standardised as others are."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        sizes = {np.shape(vector) for vector in given.values()}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1:
            raise MeasureError(
                f"the vectors of words must be lists of numbers, all as long; these have the shapes {sorted(sizes)[:3]}"
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
        out = np.zeros((len(words), self.size), dtype=np.float32)
        for number, word in enumerate(words):
            if word in self.rows:
                out[number] = self.table[self.rows[word]]
        return out


@feed.register
def _(vectors: MappedVectors, put: Put) -> None:
    """The words and the row of each, and all numbers."""
    feed(("vectors of words", *rows_content(vectors.rows), vectors.table), put)


def static_rows(words: Sequence[str], source: Any = None) -> Floats:
    """The vectors of words and, last, zeros for tokens that are not known: [word + 1, size]. A word without a vector has zeros, too, which is the mean word."""
    rows = vectors_of(source).of(list(words))
    if not rows.any():
        raise MeasureError(
            "none of the words learnt from has a vector; are the vectors of another language, or cased?"
        )
    return np.concatenate([rows, np.zeros((1, rows.shape[1]), dtype=np.float32)])


def word_states(words: Sequence[str], source: Any, progress: bool | None = None) -> Floats:
    """What a frozen model makes of each word by itself, and zeros for tokens that are not known: [word + 1, size]."""
    rows = _states(model_of(source), [[word] for word in words], progress, "words by themselves")
    return np.concatenate([rows, np.zeros((1, rows.shape[1]), dtype=np.float32)])


def encoded(
    bags: Bags, tokens: Sequence[Sequence[str]], source: Any, progress: bool | None = None
) -> Bags:
    """The same texts with what a frozen model makes of each token in its text; a token is a word, the mean of its pieces. Tokens that are cut off, or that a tokenizer makes nothing of, have zeros."""
    return Bags(
        bags.ids,
        bags.starts,
        bags.words,
        _states(model_of(source), tokens, progress, "hidden states"),
    )


def model_of(source: Any) -> Model:
    """Return a model as it is, or load it; never from memory, as its files may have changed."""
    return source if isinstance(source, Model) else load(source)


def identity_parts(given: Vectors | Model) -> dict[str, str]:
    """The fingerprints of the parts of a frozen model, or the fingerprint of vectors."""
    model = given.model if isinstance(given, ModelVectors) else given
    return model.identity() if isinstance(model, Model) else {"content": fingerprint(given)}


def cut_off(model: Model, tokens: Sequence[Sequence[str]]) -> tuple[int, int]:
    """How many texts, and how many word pieces of them, are behind what a model takes."""
    found = [one.truncated_by for one in model.encode(list(enumerate(_texts(tokens))))]
    return sum(cut > 0 for cut in found), sum(found)


def _states(
    model: Model, tokens: Sequence[Sequence[str]], progress: bool | None, what: str
) -> Floats:
    """The last hidden state of every token of every text, the mean over its pieces: [token, size]."""
    starts = np.concatenate([[0], np.cumsum([len(text) for text in tokens])])
    out: list[Floats] = []  # one array, made when its size is known
    read: list[int] = []
    with progress_bar(what, wanted=progress) as report:

        def keep(batch: Batch, output: Any) -> None:
            hidden = output.hidden_states[-1].float().cpu().numpy()
            if not out:
                out.append(np.zeros((int(starts[-1]), hidden.shape[-1]), dtype=np.float32))
            for states, place, words in zip(hidden, batch.places, batch.words, strict=True):
                source = np.array(words.source)[words.of]
                own = source >= 0
                means = word_means(states[own], source[own], len(tokens[place]))
                out[0][starts[place] : starts[place + 1]] = means
            read.extend(batch.places)
            report(len(read), len(tokens))

        run_batches(model, _texts(tokens), keep, head=False, states=True)
    if not out:
        raise MeasureError("the model's tokenizer makes nothing of these texts")
    return out[0]


def _texts(tokens: Sequence[Sequence[str]]) -> list[Text]:
    return [Text(str(place), words=tuple(text)) for place, text in enumerate(tokens)]
