"""Fitting and scoring a tree probe: from sentences to a scorer and its UAS."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from attlas.corpora.splits import split_indices
from attlas.support.errors import CorpusError, MeasureError
from attlas.support.options import check_fields, option, same_option, seed_option
from attlas.tree.data import BATCH_TEXTS, IGNORED, Array, Sentences
from attlas.tree.experiment import Tree
from attlas.tree.scorers import BASELINES, FASTER, SCORERS, Scorer
from attlas.tree.spanning import spanning_tree

DECODERS = ("argmax", "tree")
NO_WORDS = [np.zeros(0, dtype=np.int64)]  # the heads of a sentence of which no word was seen
HELD_OUT = 0.05  # of the sentences, to choose the epoch
PATIENCE = 3  # epochs without a better score, after which training ends
_SEEDING = threading.Lock()  # torch has one random state for all threads

Heads = Mapping[int, Sequence[Array]]  # sentence -> the heads of its words, by each decoder


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """What a probe is fitted with; `epochs` and `learning_rate` None: the best for its features."""

    features: str = option("attention_words", "Features.", choices=(*SCORERS, *BASELINES))
    convention: str = same_option(Tree, "convention", "sound")
    epochs: int | None = option(None, "Number of epochs.", at_least=1)
    learning_rate: float | None = option(None, "Learning rate.", above=0)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        check_fields(self, MeasureError)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A scorer as it was in its best epoch, and what every epoch gave."""

    scorer: Scorer
    epoch: int
    history: list[dict[str, float | None]]  # epoch: loss, UAS on held-out sentences

    @property
    def held_out_uas(self) -> float:
        """The best UAS on the held-out sentences; 0 if none were held out."""
        return max(row["uas"] or 0.0 for row in self.history)


@dataclass(frozen=True, eq=False)
class TreeScores:
    """How many heads were right in each text, by argmax and by the best tree, and exclusions."""

    hits: npt.NDArray[np.int64]  # text
    tree_hits: npt.NDArray[np.int64]  # text
    counts: npt.NDArray[np.int64]  # text: words scored
    punctuation: int  # words excluded because they are punctuation
    unseen: int  # words that the model did not see
    headless: int  # words seen whose head it did not see

    @property
    def scored(self) -> int:
        return int(self.counts.sum())

    @property
    def uas(self) -> float:
        """The share of words whose best candidate is their head; NaN if no word is scored."""
        return float(self.hits.sum() / self.scored) if self.scored else float("nan")

    @property
    def tree_uas(self) -> float:
        """The share of words whose head is right in the best tree with one word on ROOT."""
        return float(self.tree_hits.sum() / self.scored) if self.scored else float("nan")

    def to_dict(self) -> dict[str, float]:
        """The scores and counts over all texts."""
        return {
            "uas": self.uas,
            "tree_uas": self.tree_uas,
            "texts": len(self.counts),
            "scored": self.scored,
            "punctuation": self.punctuation,
            "unseen": self.unseen,
            "headless": self.headless,
        }


def new_scorer(options: ProbeOptions, heads: int, size: int) -> Scorer:
    """A scorer before training, for this many attention heads and dimensions of word vectors."""
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        return SCORERS[options.features](heads, size, options.convention == "published")


def fit(
    data: Sentences,
    options: ProbeOptions,
    report: Callable[[int, int], object] = lambda done, total: None,
) -> Fitted:
    """Train epoch by epoch; keep the best on held-out sentences, the last if none are held out.

    Compute it with one thread (`one_thread`) where the same bytes are wanted on every machine.
    """
    if not any(sentence.scored.any() for sentence in data.all):
        raise CorpusError(
            "no text has a word to train on; give texts with words that are not punctuation"
        )
    generator = np.random.default_rng(options.seed)
    texts = [sentence.text for sentence in data.all]
    rest, held_out = split_indices(texts, None, HELD_OUT, options.seed)
    scorer = new_scorer(options, data.heads_of_attention, data.size)
    epochs = scorer.epochs if options.epochs is None else options.epochs
    steps = max(1, epochs * len(data.batches(rest)))
    optimizer = torch.optim.Adam(_groups(scorer, options.learning_rate or scorer.rate))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    history: list[dict[str, float | None]] = []
    best, best_epoch, weights = -1.0, 0, scorer.state_dict()
    for epoch in range(epochs):
        report(epoch, epochs)
        order = generator.permutation(rest)
        loss = _epoch(scorer, optimizer, schedule, data, order, generator)
        uas = score_heads(heads_of(scorer, data, held_out, ("argmax",)), data, held_out).uas
        history.append({"loss": loss, "uas": None if np.isnan(uas) else uas})
        if not uas <= best:
            best, best_epoch, weights = uas, epoch, copy.deepcopy(scorer.state_dict())
        elif epoch - best_epoch >= PATIENCE:
            break
    scorer.load_state_dict(weights)
    return Fitted(scorer, best_epoch, history)


def _groups(scorer: Scorer, rate: float) -> list[dict[str, Any]]:
    """The parameters with their learning rates."""
    return [
        {"params": parameter, "lr": rate * (FASTER if name in scorer.faster else 1)}
        for name, parameter in scorer.named_parameters()
    ]


def _epoch(
    scorer: Scorer,
    optimizer: Any,
    schedule: Any,
    data: Sentences,
    order: Array,
    generator: np.random.Generator,
) -> float:
    """Train on each sentence once, in batches of one word count in any order; the mean loss.

    A batch counts by its words: the loss of a step is a sum over a number that is the same for all.
    """
    batches = data.batches(order)
    total, words = 0.0, 0
    for number in generator.permutation(len(batches)):
        gold = data.gold(batches[number])
        scores = scorer(data.given(batches[number]))
        loss = cross_entropy(scores, gold, ignore_index=IGNORED, reduction="sum")
        optimizer.zero_grad()
        (loss / BATCH_TEXTS).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        total, words = total + float(loss.detach()), words + int((gold != IGNORED).sum())
    return total / max(1, words)


def baseline_heads(features: str, data: Sentences, decoders: Sequence[str] = DECODERS) -> Heads:
    """Heads by a baseline that is not trained, the same by every decoder."""
    heads = BASELINES[features]
    return {
        number: [np.array(heads(len(sentence))) + 1] * len(decoders)
        for number, sentence in enumerate(data.all)
    }


@torch.no_grad()
def heads_of(
    scorer: Scorer,
    data: Sentences,
    order: Iterable[int] | None = None,
    decoders: Sequence[str] = DECODERS,
) -> Heads:
    """Heads of each sentence that has words, among ROOT (0) and its words, by each decoder."""
    wanted = range(len(data)) if order is None else order
    return {
        number: [
            scores.argmax(0) if decode == "argmax" else spanning_tree(scores) + 1
            for decode in decoders
        ]
        for batch in data.batches(wanted)
        for number, scores in zip(batch, scorer(data.given(batch)).numpy(), strict=True)
    }


def score_heads(heads: Heads, data: Sentences, order: Iterable[int] | None = None) -> TreeScores:
    """How many heads are right, by the first and by the last decoder."""
    wanted = range(len(data)) if order is None else order
    sentences = {int(number): data.all[number] for number in wanted}
    hits = [
        [
            int(((guess == sentence.heads) & sentence.scored).sum())
            for guess in heads.get(number, NO_WORDS)
        ]
        for number, sentence in sentences.items()
    ]
    return TreeScores(
        hits=np.array([one[0] for one in hits], dtype=np.int64),
        tree_hits=np.array([one[-1] for one in hits], dtype=np.int64),
        counts=np.array([one.scored.sum() for one in sentences.values()], dtype=np.int64),
        punctuation=sum(one.punctuation for one in sentences.values()),
        unseen=sum(one.unseen for one in sentences.values()),
        headless=sum(one.headless for one in sentences.values()),
    )
