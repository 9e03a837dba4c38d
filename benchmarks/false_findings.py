"""How often does a section say *signal* where there is none?

Every repetition has a model with random weights and texts of random words: labels, trees, mentions,
relations and rationales are drawn independently of the words. A section that makes claims and calls
one of them a signal has a false finding.

    python -m benchmarks.false_findings [REPETITIONS]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

import attlas
from attlas.catalogue import sections
from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    RATIONALE,
    ROOT,
    Coreference,
    Dependencies,
    Mention,
)
from attlas.measures.importance import Importance
from attlas.measures.targets import Targets
from attlas.models import Model
from attlas.relations.candidates import related_texts
from attlas.stats.intervals import wilson
from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.views.claims import section_verdict
from attlas.views.findings import section_findings
from attlas.views.section import shown

REPETITIONS = 50
FITTED, SCORED = 60, 36  # texts: enough for a signal
WIDTH = 0.07  # of weights: attention varies by 13%, as in a random model of 384 dimensions (12%)
SAID = "the a cat dog sat saw on mat and with it was not very good bad film in of to"
NAMES = ("Ann", "Ben", "Eve", "Tom", "Kim", "Sam", "Lea", "Ida", "Una", "Ole")
KINDS = ("pronoun", "proper", "common")
# the reference has random scores: attention and gradients of one model agree, whatever its weights
METHODS = ("random", "input_x_gradient", "attention_last", "attention_all", "rollout")
LABELS = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}}


@dataclass(frozen=True)
class Null:
    """A random model and texts of random words, all from one seed."""

    seed: int
    draw: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "draw", np.random.default_rng(self.seed))

    def model(self) -> Model:
        """A model whose attention is as uneven as that of a wider one with random weights."""
        model = tiny("bert", "classify", self.seed, num_hidden_layers=1, **LABELS)
        with torch.no_grad():
            for parameter in model.network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, WIDTH)
        return model

    def words(self) -> list[str]:
        return [str(word) for word in self.draw.choice(SAID.split(), self.draw.integers(6, 11))]

    def texts(self, count: int) -> list[attlas.Text]:
        """Texts with labels, and with a word that is marked as rationale."""
        out = []
        for number in range(count):
            words = self.words()
            at = int(self.draw.integers(len(words)))
            start = len(" ".join(words[:at])) + bool(at)
            marked = {RATIONALE: [(start, start + len(words[at]))]}
            label = "ab"[self.draw.integers(2)]
            out.append(attlas.Text(str(number), " ".join(words), label, annotations=marked))
        return out

    def trees(self, count: int) -> list[attlas.Text]:
        """Sentences whose words hang on any other word."""
        return [self._tree(number) for number in range(count)]

    def _tree(self, number: int) -> attlas.Text:
        words = self.words()
        order = self.draw.permutation(len(words))
        heads = [ROOT] * len(words)
        for place, word in enumerate(order[1:], 1):
            heads[word] = int(order[self.draw.integers(place)])
        relations = tuple(str(one) for one in self.draw.choice(("obj", "det", "nmod"), len(words)))
        tree = Dependencies(tuple(heads), relations, ("X",) * len(words))
        return attlas.Text(str(number), words=tuple(words), annotations={DEPENDENCIES: tree})

    def documents(self, count: int) -> list[attlas.Text]:
        """Documents in which any two mentions may be of one chain."""
        out = []
        for number in range(count):
            words = self.words()
            places = np.sort(self.draw.choice(len(words), 5, replace=False)).tolist()
            noted = tuple(
                Mention(at, at + 1, at, str(self.draw.integers(2)), str(self.draw.choice(KINDS)))
                for at in places
            )
            notes = {COREFERENCE: Coreference(noted, (0,))}
            out.append(attlas.Text(str(number), words=tuple(words), annotations=notes))
        return out

    def triples(self, count: int) -> list[attlas.Text]:
        """Sentences whose relation has nothing to do with their words."""
        rows = []
        for _ in range(count):
            head, tail, other = (str(name) for name in self.draw.permutation(NAMES)[:3])
            words = str(self.draw.choice(("saw", "sat with", "was bad to")))
            relation = str(self.draw.choice(("teacher", "spouse")))
            triple = {"head": head, "tail": tail, "relation": relation, "relation_words": words}
            text = f"In the old town {head} {words} {tail} before {other} left the house."
            rows.append({"text": text, "triples": [triple]})
        return list(related_texts(rows))


def _study(null: Null) -> Study:
    others = Targets(words="not very"), Importance(ablation=SCORED)
    measures = ("surface", "entropy", "betti", "templates", *others)
    return attlas.study(null.model(), null.texts(SCORED), measures, workers=1, progress=False)


def _experiments(null: Null) -> Iterator[attlas.Experiment]:
    model = null.model()
    yield attlas.Explain(
        data=null.texts(SCORED),
        model=model,
        methods=METHODS,
        permutations=10,
        draws=2,
        seed=null.seed,
    )
    yield attlas.Syntax(
        train=null.trees(SCORED), test=null.trees(SCORED), model=model, min_cases=20, seed=null.seed
    )
    yield attlas.Tree(
        train=null.trees(SCORED), test=null.trees(SCORED), model=model, seed=null.seed
    )
    yield attlas.Coreference(
        train=null.documents(SCORED), test=null.documents(SCORED), model=model, seed=null.seed
    )
    yield attlas.FitRelations(
        train=null.triples(SCORED), dev=null.triples(SCORED), model=model, seed=null.seed
    )
    yield attlas.Topology(
        train=null.texts(FITTED),
        dev=null.texts(SCORED),
        test=null.texts(SCORED),
        model=model,
        thresholds=(0.05, 0.1),
        seed=null.seed,
    )
    yield attlas.Dynamics(
        train=null.texts(FITTED),
        dev=null.texts(SCORED),
        test=null.texts(SCORED),
        models=("dot+none",),
        scales=(10,),
        epochs=5,
        dim=10,
        seed=null.seed,
    )
    yield attlas.Finetune(
        texts=null.texts(FITTED),
        dev=null.texts(SCORED),
        model=model,
        head_only=True,
        seed=null.seed,
    )


def results(null: Null) -> Iterator[Study]:
    """A study, one experiment of every kind, and one model by label and on other texts."""
    yield _study(null)
    for experiment in _experiments(null):
        yield attlas.run(experiment, workers=1, progress=False)
    model, measures = null.model(), ("surface", "entropy")
    texts = null.texts(2 * SCORED)
    yield attlas.study(model, texts, measures, by="label", workers=1, progress=False)
    a, b = (
        attlas.study(model, null.texts(SCORED), measures, workers=1, progress=False) for _ in "ab"
    )
    yield a.compare(b, workers=1, progress=False)


@dataclass
class Tally:
    """How many sections made claims, how many said *signal*, and what they said."""

    sections: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    sentences: list[str] = field(default_factory=list)

    def add(self, studies: Iterable[Study]) -> None:
        """Count the verdicts of the sections of some results."""
        known = sections()
        for study in studies:
            for name, section in shown(study, known):
                found = section_findings(study, name, section)
                if (verdict := section_verdict(found)) is None:
                    continue
                self.sections[name] += 1
                if verdict == "signal":
                    self.signals[name] += 1
                    self.sentences.append(f"{name}: {found[0].sentence}")

    @property
    def share(self) -> float:
        """The share of sections that say *signal*."""
        return self.signals.total() / max(1, self.sections.total())

    def lines(self) -> Iterator[str]:
        """The counts by section, and over all of them with Wilson's interval."""
        for name, count in self.sections.items():
            yield f"{name:16} {self.signals[name]:4} of {count:5} say signal"
        low, high = wilson(self.share, self.sections.total())
        total = f"{self.signals.total()} of {self.sections.total()}"
        yield f"{'all':16} {total}: {self.share:.1%} [{low:.1%}, {high:.1%}]"


def count(seeds: Sequence[int], report: Callable[[int], None] = lambda seed: None) -> Tally:
    """The verdicts over one repetition per seed."""
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            torch.manual_seed(seed)
            tally.add(results(Null(seed)))
            report(seed)
    return tally


def rows(repetitions: int = REPETITIONS) -> Iterator[str]:
    """The lines of `make bench false_findings`."""
    began = time.perf_counter()
    tally = count(range(repetitions))
    yield from tally.lines()
    yield from tally.sentences
    yield f"{repetitions} repetitions, {time.perf_counter() - began:.0f} s"


if __name__ == "__main__":
    for line in rows(*map(int, sys.argv[1:2])):
        print(line, flush=True)
