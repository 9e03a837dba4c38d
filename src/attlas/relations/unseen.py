"""Do readers name the relation of cases whose relation words are not in the training data?"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.relations.answers import Answers, intervals
from attlas.relations.features import ATTENTION, Part, fit_options
from attlas.relations.fitting import ReaderJob, Readers
from attlas.relations.reading import Sample, phrases_of
from attlas.stats.linear import LinearReader, by_macro_f1

HELD_OUT = 0.3  # of the cases of a relation that has several phrases
FEWEST = 20  # cases, to be scored or tuned on


def held_out_phrases(sample: Sample, seed: int = 0, share: float = HELD_OUT) -> frozenset[str]:
    """Relation phrases to exclude from training; the most frequent one of a relation stays.

    Of every relation with several phrases, rare ones that make up about a share of its cases.
    """
    by_relation: dict[str, Counter[str]] = {}
    for case, phrase in zip(sample.cases, phrases_of(sample.texts, sample.cases), strict=True):
        if case.related and phrase:
            by_relation.setdefault(case.relation, Counter())[phrase] += 1
    rng = np.random.default_rng(seed)
    chosen: set[str] = set()
    for counts in (by_relation[name] for name in sorted(by_relation)):
        n_excluded, wanted = 0, share * counts.total()
        names = sorted(counts)
        shuffled = [names[number] for number in rng.permutation(len(names))]
        for phrase in sorted(shuffled, key=counts.__getitem__)[:-1]:  # the most frequent stays
            if n_excluded < wanted:
                chosen.add(phrase)
                n_excluded += counts[phrase]
    stays = {max(sorted(counts), key=counts.__getitem__) for counts in by_relation.values()}
    return frozenset(chosen - stays)


def halves(phrases: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Held-out phrases split in two by their names: one half to tune on, one to score on."""
    ordered = sorted(phrases, key=lambda phrase: zlib.crc32(phrase.encode()))
    return frozenset(ordered[::2]), frozenset(ordered[1::2])


def _have_phrase(sample: Sample, phrases: frozenset[str]) -> npt.NDArray[np.bool_]:
    """Which related cases are stated by one of the phrases."""
    stated = phrases_of(sample.texts, (case for case in sample.cases if case.related))
    return np.array([phrase in phrases for phrase in stated], dtype=bool)


def unseen_jobs(
    train: Part, dev: Part, held_out: frozenset[str], readers: Mapping[str, Readers]
) -> dict[str, ReaderJob]:
    """Readers of relations that never meet the held-out phrases, by kind of features.

    They are tuned on the cases of dev that have a phrase of the first half; where these are few,
    they have the penalty of `readers`, which are fitted to all phrases.
    """
    kept = ~_have_phrase(train.sample, held_out)
    chosen = _have_phrase(dev.sample, halves(held_out)[0])
    few = chosen.sum() < FEWEST
    jobs = {}
    for name in train.features:
        rows, relations = train.features[name].related_cases
        others, tuned = dev.features[name].related_cases
        options = fit_options(name, train)
        if few:
            options["grid"] = (readers[name].named.penalty,)
        jobs[name] = ReaderJob(
            (rows[kept], np.array(relations)[kept].tolist()),
            (others, tuned) if few else (others[chosen], np.array(tuned)[chosen].tolist()),
            by_macro_f1,
            **options,
        )
    return jobs


def unseen_scores(
    part: Part, readers: Mapping[str, LinearReader], held_out: frozenset[str]
) -> dict[str, Any]:
    """Macro F1 on the cases whose phrase is in the half that nothing was tuned on."""
    sample, scored = part.sample, halves(held_out)[1]
    chosen = _have_phrase(sample, scored)
    phrases = set(phrases_of(sample.texts, (case for case in sample.cases if case.related)))
    about = {"cases": int(chosen.sum()), "phrases": len(phrases & scored)}
    if chosen.sum() < FEWEST:
        return {**about, "relations": 0}
    gold = np.array(sample.relations)[chosen]
    texts = sample.text_of_case[sample.related][chosen]
    answers = {}
    for name, reader in readers.items():
        named = reader.predict(part.features[name].related_cases[0][chosen])
        answers[name] = Answers(texts, np.ones(len(gold), bool), named == gold, gold, named)
    rows = {
        name: {key: value for key, value in row.items() if key.startswith("f1")}
        | {"accuracy": float((answers[name].named == gold).mean())}
        for name, row in intervals(answers, len(sample.texts), ATTENTION).items()
    }
    return {**about, "relations": len(set(gold.tolist())), **rows}
