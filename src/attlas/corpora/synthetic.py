"""Synthetic corpora after Sun and Lu (2020): class words among neutral words, in random order.

Which words a classifier should attend to is known: the class words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from attlas.core.text import Text
from attlas.support.errors import CorpusError
from attlas.support.options import check_fields, option, seed_option

NAMES = ("negative", "positive")


@dataclass(frozen=True)
class Synthetic:
    """The options of a synthetic corpus, by default those of Sun and Lu (2020)."""

    texts: int = option(12_000, "Number of texts.")
    classes: int = option(2, "Number of classes.")
    class_words: int = option(50, "Vocabulary of each class.")
    neutral_words: int = option(1_000, "Vocabulary of neutral words.")
    words: int = option(2, "Different class words per text.")
    neutral: int = option(10, "Different neutral words per text.")
    noise: float = option(
        0.0, "Share of texts with words of the next class.", at_least=0, at_most=1
    )
    ratio: tuple[float, ...] | None = option(None, "Relative class sizes.", above=0, below=np.inf)
    seed: int = seed_option(2)

    def __post_init__(self) -> None:
        check_fields(self, CorpusError)
        if self.classes < 2 or self.texts < self.classes:
            raise CorpusError(
                "a synthetic corpus needs at least two classes and a text of each, "
                f"got {self.classes} classes and {self.texts} texts"
            )
        if not 1 <= self.words <= self.class_words:
            raise CorpusError(f"a text cannot have {self.words} of {self.class_words} class words")
        if not 0 <= self.neutral <= self.neutral_words:
            raise CorpusError(
                f"a text cannot have {self.neutral} of {self.neutral_words} neutral words"
            )
        if self.ratio is not None and len(self.ratio) != self.classes:
            raise CorpusError(
                f"ratio has {len(self.ratio)} values; give one for each of {self.classes} classes"
            )


def synthetic(texts: int = 12_000, **options: Any) -> list[Text]:
    """Random texts of class words and neutral words, labelled by class; see `Synthetic`.

    Neutral words are called n0, n1, ...; those of positive and negative texts p0 and g0, ...; those
    of class 0 of more than two c0_0, ...

    >>> one = synthetic(4, neutral=3)[0]
    >>> len(one.words), one.label
    (5, 'negative')
    """
    corpus = Synthetic(texts, **options)
    classes = corpus.classes
    shares = np.ones(classes) if corpus.ratio is None else np.asarray(corpus.ratio)
    rng = np.random.default_rng(corpus.seed)
    labels = np.repeat(np.arange(classes), _counts(corpus.texts, shares))
    labels = labels[rng.permutation(len(labels))] if corpus.texts > 2 * classes else labels
    is_noise = rng.random(len(labels)) < corpus.noise
    out = []
    for number, label in enumerate(labels.tolist()):
        source = (label + 1) % classes if is_noise[number] else label
        own = rng.choice(corpus.class_words, corpus.words, replace=False)
        neutral = rng.choice(corpus.neutral_words, corpus.neutral, replace=False)
        words = [_word(source, int(index), classes) for index in own]
        words += [f"n{index}" for index in neutral]
        order = rng.permutation(len(words))
        shuffled = tuple(words[index] for index in order)
        out.append(Text(str(number), words=shuffled, label=_name(label, classes)))
    return out


def synthetic_named(name: str) -> list[Text]:
    """A corpus from options such as `texts=600,noise=0.1,classes=3,ratio=1:2`.

    >>> len(synthetic_named("texts=30,classes=3,ratio=1:2:3"))
    30
    """
    known = [field.name for field in fields(Synthetic)]
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in name.split(","))):
        option_name, _, value = part.partition("=")
        if option_name not in known:
            raise CorpusError(
                f"a synthetic corpus has no option {option_name!r}; choose {', '.join(known)}"
            )
        options[option_name] = value.split(":") if option_name == "ratio" else value
    return synthetic(**options)


def _counts(texts: int, shares: np.ndarray) -> np.ndarray:
    """How many of the texts each class gets: at least one."""
    ends = np.round(np.cumsum(shares) / shares.sum() * texts).astype(int)
    counts = np.maximum(np.diff(ends, prepend=0), 1)
    for _ in range(counts.sum() - texts):
        counts[counts.argmax()] -= 1
    return counts


def _name(label: int, classes: int) -> str:
    return NAMES[label] if classes == 2 else f"class{label}"


def _word(label: int, index: int, classes: int) -> str:
    return f"{'gp'[label]}{index}" if classes == 2 else f"c{label}_{index}"
