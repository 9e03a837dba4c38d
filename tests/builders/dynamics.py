"""Short reviews of two or three classes, and classifiers of them."""

from __future__ import annotations

import numpy as np

from attlas.dynamics import AttentionClassifier

GOOD, BAD, REST = (
    ("good", "fine", "great", "nice"),
    ("bad", "poor", "awful", "sad"),
    tuple("abcdefgh"),
)


TINY = {"dim": 6, "epochs": 4, "batch_size": 16, "progress": False}


def reviews(count: int, classes: int = 2, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    """Short texts of class words among neutral words, and their labels."""
    rng, own = np.random.default_rng(seed), (BAD, GOOD, ("so", "odd", "meh", "eh"))[:classes]
    texts, labels = [], []
    for number in range(count):
        label = number % classes
        marked = rng.choice(
            own[label if rng.random() < 0.85 else rng.integers(classes)], rng.integers(1, 3)
        ).tolist()
        texts.append(
            [
                str(word)
                for word in rng.permutation(
                    [*marked, *rng.choice(REST, rng.integers(0, 5)).tolist()]
                )
            ]
        )
        labels.append(("bad", "good", "odd")[label])
    return texts, labels


def fitted(
    attention: str = "dot",
    encoder: str = "none",
    classes: int = 2,
    count: int = 60,
    dev: object = False,
    **options: object,
) -> AttentionClassifier:
    return AttentionClassifier(attention=attention, encoder=encoder, **{**TINY, **options}).fit(
        *reviews(count, classes), dev=dev
    )  # type: ignore[arg-type]
