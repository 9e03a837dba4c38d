"""Corpora made to order, after the recipe of Sun and Lu (2020): words of a class and words of none, and nothing else.

Every text has a few different words of its class among a few different neutral ones, in random order. What a classifier should attend to is known: the words of classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attlas.core.text import Text
from attlas.support.errors import CorpusError

NAMES = ("negative", "positive")


def synthetic(
    texts: int = 12_000,
    *,
    classes: int = 2,
    class_words: int = 50,
    neutral_words: int = 1000,
    words: int = 2,
    neutral: int = 10,
    noise: float = 0.0,
    ratio: Sequence[float] | None = None,
    seed: int = 2,
) -> list[Text]:
    """So many texts, by default as in the paper: 1,000 neutral words and 50 of each of two classes; a text has 10 neutral ones and 2 of its class.

    `noise` is the share of texts whose class words are those of the next class, `ratio` how many texts classes have to each other (1:1 if None). Neutral words are called n0, n1, ...,
    those of a class by its first letters: p0 and g0 (positive, negative), or c0_0 for class 0 of more than two. The label is the class.

    >>> one = synthetic(4, neutral=3)[0]
    >>> len(one.words), one.label
    (5, 'negative')
    """
    _check(texts, classes, class_words, neutral_words, words, neutral, noise, ratio)
    if seed < 0:
        raise CorpusError(f"seed is {seed}; it must not be below 0")
    shares = np.ones(classes) if ratio is None else np.asarray(ratio, dtype=float)
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), _counts(texts, shares))
    labels = labels[draw.permutation(len(labels))] if texts > 2 * classes else labels
    swapped = draw.random(len(labels)) < noise
    out = []
    for number, label in enumerate(labels.tolist()):
        source = (label + 1) % classes if swapped[number] else label
        own = draw.choice(class_words, words, replace=False)
        rest = draw.choice(neutral_words, neutral, replace=False)
        tokens = [
            *(_word(source, int(place), classes) for place in own),
            *(f"n{place}" for place in rest),
        ]
        out.append(
            Text(
                str(number),
                words=tuple(tokens[place] for place in draw.permutation(len(tokens))),
                label=_name(label, classes),
            )
        )
    return out


def synthetic_named(asked: str) -> list[Text]:
    """A corpus from a line such as `texts=600,noise=0.1,classes=3,ratio=1:2`; an empty line is the paper's.

    >>> len(synthetic_named("texts=30,classes=3,ratio=1:2:3"))
    30
    """
    given: dict[str, object] = {}
    for part in filter(None, (one.strip() for one in asked.split(","))):
        name, _, value = part.partition("=")
        known = (
            "texts",
            "classes",
            "class_words",
            "neutral_words",
            "words",
            "neutral",
            "noise",
            "ratio",
            "seed",
        )
        if name not in known:
            raise CorpusError(f"a synthetic corpus has no {name!r}; it has {', '.join(known)}")
        try:
            given[name] = (
                [float(one) for one in value.split(":")]
                if name == "ratio"
                else float(value)
                if name == "noise"
                else int(value)
            )
        except ValueError as error:
            raise CorpusError(
                f"{name} of a synthetic corpus is {value!r}; give a number (ratio: numbers with colons)"
            ) from error
    return synthetic(**given)  # type: ignore[arg-type]


def _check(
    texts: int,
    classes: int,
    class_words: int,
    neutral_words: int,
    words: int,
    neutral: int,
    noise: float,
    ratio: Sequence[float] | None,
) -> None:
    if classes < 2 or texts < classes:
        raise CorpusError(
            f"a synthetic corpus has at least two classes and a text of each, not {classes} classes and {texts} texts"
        )
    if not 1 <= words <= class_words:
        raise CorpusError(
            f"a text cannot have {words} different words of {class_words} words of a class"
        )
    if not 0 <= neutral <= neutral_words:
        raise CorpusError(
            f"a text cannot have {neutral} different words of {neutral_words} neutral ones"
        )
    if not 0 <= noise <= 1:
        raise CorpusError(f"noise is {noise}; it is a share of the texts, from 0 to 1")
    if ratio is not None and (len(ratio) != classes or not all(0 < one < np.inf for one in ratio)):
        raise CorpusError(
            f"ratio is {':'.join(f'{one:g}' for one in ratio)}; give a number above 0 for each of {classes} classes"
        )


def _counts(texts: int, shares: np.ndarray) -> np.ndarray:
    """How many texts each class gets: at least one, in all so many."""
    ends = np.round(np.cumsum(shares) / shares.sum() * texts).astype(int)
    counts = np.maximum(np.diff(ends, prepend=0), 1)
    for _ in range(counts.sum() - texts):
        counts[counts.argmax()] -= 1
    return counts


def _name(label: int, classes: int) -> str:
    return NAMES[label] if classes == 2 else f"class{label}"


def _word(label: int, place: int, classes: int) -> str:
    return f"{'gp'[label]}{place}" if classes == 2 else f"c{label}_{place}"
