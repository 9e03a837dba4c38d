"""Vectors that are given and stay as they are: static vectors of words, and the hidden states of a frozen model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.errors import MeasureError
from attlas.core.progress import progress_bar
from attlas.core.text import Text
from attlas.dynamics.bags import Bags
from attlas.models import Model, load
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors, standardised

Floats = npt.NDArray[np.float32]


def static_rows(words: Sequence[str], source: Any = None) -> Floats:
    """The vectors of words and, last, zeros for tokens that are not known: [word + 1, size]. A word without a vector has zeros, too, which is the mean word."""
    if isinstance(source, Mapping):
        known = standardised(np.array(list(source.values()), dtype=np.float32))
        place = {str(word): row for row, word in enumerate(source)}
        rows = np.zeros((len(words), known.shape[1]), dtype=np.float32)
        for number, word in enumerate(words):
            if word in place:
                rows[number] = known[place[word]]
    else:
        vectors: Vectors
        if isinstance(source, str | Path) and Path(source).expanduser().is_file():
            vectors = GloveVectors(source)
        else:
            vectors = ModelVectors(_model(source))
        rows = vectors.of(list(words))
    if not rows.any():
        raise MeasureError("none of the words learnt from has a vector; are the vectors of another language, or cased?")
    return np.concatenate([rows, np.zeros((1, rows.shape[1]), dtype=np.float32)])


def word_states(words: Sequence[str], source: Any, progress: bool | None = None) -> Floats:
    """What a frozen model makes of each word by itself, and zeros for tokens that are not known: [word + 1, size]."""
    rows = _states(_model(source), [[word] for word in words], progress, "words by themselves")
    return np.concatenate([rows, np.zeros((1, rows.shape[1]), dtype=np.float32)])


def encoded(bags: Bags, tokens: Sequence[Sequence[str]], source: Any, progress: bool | None = None) -> Bags:
    """The same texts with what a frozen model makes of each token in its text; a token is a word, the mean of its pieces. Tokens that are cut off, or that a tokenizer makes nothing of, have zeros."""
    return Bags(bags.ids, bags.starts, bags.words, _states(_model(source), tokens, progress, "hidden states"))


def _model(source: Any) -> Model:
    return source if isinstance(source, Model) else load(source)


def _states(model: Model, tokens: Sequence[Sequence[str]], progress: bool | None, what: str) -> Floats:
    """The last hidden state of every token of every text, the mean over its pieces: [token, size]."""
    starts = np.concatenate([[0], np.cumsum([len(text) for text in tokens])])
    texts = [(place, Text(str(place), words=tuple(text))) for place, text in enumerate(tokens)]
    out: Floats | None = None
    done = 0
    with progress_bar(what, wanted=progress) as report, model.reading(states=True) as read:
        for batch in model.batches(model.encode(texts)):
            hidden = read(batch).hidden_states[-1].float().cpu().numpy()
            if out is None:
                out = np.zeros((int(starts[-1]), hidden.shape[-1]), dtype=np.float32)
            for row, (place, split) in enumerate(zip(batch.places, batch.words, strict=True)):
                source = np.array(split.source)[split.of]
                own = source >= 0
                count = np.bincount(source[own], minlength=len(tokens[place])).astype(np.float32)
                part = out[starts[place] : starts[place + 1]]
                np.add.at(part, source[own], hidden[row][own])
                part /= np.maximum(count, 1)[:, None]
            done += len(batch.places)
            report(done, len(texts))
    if out is None:
        raise MeasureError("the model's tokenizer makes nothing of these texts")
    return out
