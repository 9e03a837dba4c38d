"""Betti numbers of attention graphs (Kushnareva, Piontkovski and Piontkovskaya, arXiv 2207.01903): its Table 1 and Figure 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attlas.core.text import Text
from attlas.corpora import split
from attlas.papers.data import cola, imdb, sms, without

SEED = 0
HELD_OUT = 0.2  # of the texts for fine-tuning, kept out of it where the classifier must see fresh texts
CONVENTIONS = ("published", "corrected")


@dataclass(frozen=True)
class Parts:
    """A task's texts: to fine-tune on, to choose by, to score on."""

    train: list[Text]
    dev: list[Text]
    test: list[Text]


def _cola(root: Path) -> Parts:
    test = cola(root, "in_domain_dev") + cola(root, "out_of_domain_dev")
    train, dev = split(without(cola(root, "in_domain_train"), test), 0.1, SEED)
    return Parts(train, dev, test)


def _imdb(root: Path) -> Parts:
    test = imdb(root, "dev_le128")
    train, dev = split(without(imdb(root, "train_le128"), test), 0.2, SEED)
    return Parts(train, dev, test)


def _sms(root: Path) -> Parts:
    rest, test = split(sms(root), 0.1, SEED)
    train, dev = split(rest, 1 / 9, SEED)
    return Parts(train, dev, test)


@dataclass(frozen=True)
class Task:
    """One column of the table."""

    name: str
    title: str
    parts: Callable[[Path], Parts]
    epochs: int


TASKS = (
    Task("cola", "CoLA", _cola, 4),
    Task("sms_spam", "SMS spam", _sms, 3),
    Task("imdb", "IMDB, at most 128 tokens", _imdb, 4),
)
