"""Evidence: the same pair of readers fitted to attention and to everything else that could tell relations apart, scored on the same cases."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.text import Text
from attlas.models import Model
from attlas.relations.baselines import Surface
from attlas.relations.extractor import RelationExtractor
from attlas.relations.reading import Readers, Sample, Told, attention_features, fit_readers, intervals, phrases_of
from attlas.relations.vectors import PAIR_DIRECTIONS
from attlas.stats.linear import Floats, LinearReader, by_macro_f1, fit_reader
from attlas.stats.scores import f1, precision, recall

ATTENTION, RANDOM, BAG, BOTH = "attention", "random_model", "relation_words", "attention_and_words"
CONTROLS = (RANDOM, BAG, "head_tail", "distance", "part_of_speech", "word_embeddings")
READ = (ATTENTION, *CONTROLS, BOTH)
HELD_OUT = 0.3  # of the cases of a relation that has several phrases
WORD_GRID = (0.1, 1.0, 10.0, 100.0)  # penalties tried for words, which are not whitened
FEWEST_UNSEEN = 20  # cases, to be told


@dataclass(eq=False)
class Evidence:
    """Samples of the same cases by the model and by its randomly initialised twin, and the features of each way to read them."""

    extractor: RelationExtractor
    own: Sample
    random: Sample
    vocabulary: Mapping[str, int]
    _surface: Surface = field(init=False)
    _kept: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._surface = Surface(self.own.texts)

    @classmethod
    def read(
        cls,
        extractor: RelationExtractor,
        texts: Sequence[Text],
        random: Model,
        count: int | None = None,
        vocabulary: Mapping[str, int] | None = None,
        states: bool = False,
    ) -> Evidence:
        """One pass of the texts through the model and one through its twin."""
        cases = extractor.cases(texts, count)
        own = extractor.sample(texts, model=None, states=states, cases=cases)
        other = extractor.sample(texts, model=random, cases=cases)
        if vocabulary is None:
            vocabulary = Surface(texts).vocabulary(own.cases)
        return cls(extractor, own, other, vocabulary)

    def features(self, name: str) -> Floats:
        """What one way reads: [case, feature]."""
        if name not in self._kept:
            self._kept[name] = self._features(name)
        return self._kept[name]

    def _features(self, name: str) -> Floats:
        cases, surface, extractor = self.own.cases, self._surface, self.extractor
        published = extractor.convention == "published"
        made: dict[str, Callable[[], Floats]] = {
            ATTENTION: lambda: extractor.features(self.own),
            RANDOM: lambda: extractor.features(self.random),
            BAG: lambda: surface.bag(cases, self.vocabulary),
            "head_tail": lambda: attention_features(self.own.vectors, extractor.worded_, PAIR_DIRECTIONS, published),
            "distance": lambda: surface.distance(cases),
            "part_of_speech": lambda: surface.tags(cases),
            "word_embeddings": lambda: surface.embeddings(cases, extractor.model_),
            BOTH: lambda: np.concatenate([self.features(ATTENTION), self.features(BAG)], 1),
        }
        return made[name]()

    def told(self, readers: Mapping[str, Readers]) -> dict[str, Told]:
        """What each way's readers say."""
        return {name: Told.by(one, self.features(name), self.own) for name, one in readers.items()}


def ways(worded: bool) -> tuple[str, ...]:
    """What is read beside attention; pairs of phrases without relation words are head and tail already."""
    return READ if worded else tuple(name for name in READ if name != "head_tail")


def fit_ways(train: Evidence, tune: Evidence, say: Callable[[str], None]) -> dict[str, Readers]:
    """Readers of every way but attention itself, each tuned alike; words alone are not whitened."""
    found: dict[str, Readers] = {}
    for name in ways(train.extractor.worded_):
        if name == ATTENTION:
            continue
        say(f"control: {name.replace('_', ' ')}")
        pair = (train.features(name), train.own), (tune.features(name), tune.own)
        published = train.extractor.convention == "published" and name in (
            RANDOM,
            "head_tail",
        )  # the paper's own control
        found[name] = fit_readers(*pair, grid=grid_of(train, name), published=published, plain=plain_of(train, name))
    return found


def grid_of(evidence: Evidence, name: str) -> Sequence[float]:
    """The penalties that are tried for one way."""
    return WORD_GRID if name == BAG else evidence.extractor.grid


def plain_of(evidence: Evidence, name: str) -> int:
    """How many of a way's features, the last ones, are taken as they are: words alone; beside attention they are whitened with it, as one penalty serves both."""
    return len(evidence.vocabulary) if name == BAG else 0


def held_out_phrases(sample: Sample, seed: int = 0, share: float = HELD_OUT) -> frozenset[str]:
    """Relation phrases to learn nothing from: of every relation that has several, some that make up about a share of its cases; one phrase always stays."""
    by_relation: dict[str, dict[str, int]] = {}
    for case, phrase in zip(sample.cases, phrases_of(sample.texts, sample.cases), strict=True):
        if case.related and phrase:
            counts = by_relation.setdefault(case.relation, {})
            counts[phrase] = counts.get(phrase, 0) + 1
    rng = np.random.default_rng(seed)
    chosen: set[str] = set()
    for counts in (by_relation[name] for name in sorted(by_relation)):
        away, wanted = 0, share * sum(counts.values())
        names = sorted(counts)
        free = [names[place] for place in rng.permutation(len(names))]
        for phrase in sorted(free, key=counts.__getitem__)[:-1]:  # the most frequent stays
            if away < wanted:
                chosen.add(phrase)
                away += counts[phrase]
    stays = {max(sorted(counts), key=counts.__getitem__) for counts in by_relation.values()}
    return frozenset(chosen - stays)


def halves(phrases: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Held-out phrases cut in two by their names: one half to tune on, one to score on."""
    ordered = sorted(phrases, key=lambda phrase: zlib.crc32(phrase.encode()))
    return frozenset(ordered[::2]), frozenset(ordered[1::2])


def _with_phrase(of: Evidence, phrases: frozenset[str]) -> npt.NDArray[np.bool_]:
    """Which related cases are said by one of the phrases."""
    said = phrases_of(of.own.texts, (case for case in of.own.cases if case.related))
    return np.array([phrase in phrases for phrase in said], dtype=bool)


def fit_unseen(train: Evidence, tune: Evidence, held_out: frozenset[str], whole: Mapping[str, Readers]) -> dict[str, LinearReader]:  # fmt: skip
    """Readers of relations that never met the held-out phrases, tuned on those of `tune` that have a phrase of the first half; where these are few, with
    the penalty of the readers that met all."""
    mine, theirs = train.own.related, tune.own.related
    names, told = np.array(train.own.relations), np.array(tune.own.relations)
    kept, chosen = ~_with_phrase(train, held_out), _with_phrase(tune, halves(held_out)[0])
    found = {}
    for name in ways(train.extractor.worded_):
        x, y = train.features(name)[mine][kept], tune.features(name)[theirs]
        few = chosen.sum() < FEWEST_UNSEEN
        grid = (whole[name].named.penalty,) if few else grid_of(train, name)
        dev = (y, told.tolist()) if few else (y[chosen], told[chosen].tolist())
        found[name] = fit_reader(x, names[kept].tolist(), dev, by_macro_f1, grid, plain=plain_of(train, name))
    return found


def unseen_scores(of: Evidence, readers: Mapping[str, LinearReader], held_out: frozenset[str]) -> dict[str, Any]:
    """Macro F1 on cases whose relation phrase was held out, of the half that nothing was tuned on, over the relations that have such."""
    mine, scored = of.own.related, halves(held_out)[1]
    chosen = _with_phrase(of, scored)
    phrases = phrases_of(of.own.texts, (case for case in of.own.cases if case.related))
    about = {"cases": int(chosen.sum()), "phrases": len({phrase for phrase in phrases if phrase in scored})}
    if chosen.sum() < FEWEST_UNSEEN:
        return {**about, "relations": 0}
    gold = np.array(of.own.relations)[chosen]
    texts = np.array([case.text for case in of.own.cases])[mine][chosen]
    told = {}
    for name, reader in readers.items():
        named = reader.predict(of.features(name)[mine][chosen])
        told[name] = Told(texts, np.ones(len(gold), bool), named == gold, gold, named)
    scores = intervals(told, len(of.own.texts), ATTENTION)
    rows = {
        name: {key: value for key, value in row.items() if key.startswith("f1")}
        | {"accuracy": float((told[name].named == gold).mean())}
        for name, row in scores.items()
    }
    return {**about, "relations": len(set(gold.tolist())), **rows}


def scores_frame(scores: Mapping[str, Mapping[str, Any]], cases: int, texts: int) -> pd.DataFrame:
    """A row for each way of reading: `attention` first; `ahead` is by how much attention is better."""
    return pd.DataFrame([{"reader": name, **row, "cases": cases, "texts": texts} for name, row in scores.items()])


def each_relation(told: Mapping[str, Told], names: Mapping[str, str]) -> pd.DataFrame:
    """Precision, recall and F1 of each relation by attention, its F1 by the controls beside, and what it is most often taken for."""
    own = told[ATTENTION]
    rows = []
    beside = {name: _by_relation(one) for name, one in told.items() if name != ATTENTION}
    mine = _by_relation(own)
    for relation in sorted(set(own.gold.tolist())):
        wrong = own.named[(own.gold == relation) & (own.named != relation)]
        values, counts = np.unique(wrong, return_counts=True)
        precision, recall, f1 = mine[relation]
        rows.append({
            "relation": relation, "name": names.get(relation, ""), "n": int((own.gold == relation).sum()), "precision": precision, "recall": recall, "f1": f1,
            **{f"f1_{name}": table[relation][2] for name, table in beside.items()},
            "taken_for": str(values[counts.argmax()]) if len(values) else "", "taken": int(counts.max()) if len(values) else 0,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _by_relation(told: Told) -> dict[str, tuple[float, float, float]]:
    """Precision, recall and F1 of each relation."""
    each = np.stack([precision(told.table), recall(told.table), f1(told.table)], 1)
    return {relation: (row[0], row[1], row[2]) for relation, row in zip(told.known, each.tolist(), strict=True)}
