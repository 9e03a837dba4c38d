"""What FitRelations and ScoreRelations do: cases, vectors, features, readers, scores.

Each step takes values and returns values; the extractor is built last, from its readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.relation_names import relation_names as read_names
from attlas.corpora.splits import overlap, text_digests
from attlas.experiments.experiment import Outcome
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.relations.answers import Answers, each_relation, intervals, scores_frame
from attlas.relations.candidates import (
    count_unusable,
    divided,
    has_words,
    related_texts as read,
    relations_in,
)
from attlas.relations.examples import pictures
from attlas.relations.experiment import EXTRACTOR, FitRelations, ScoreRelations
from attlas.relations.extraction import Extracted, Thresholds, extract_triples, tuned_extraction
from attlas.relations.extractor import RelationExtractor, SavedExtractor, read_saved
from attlas.relations.features import (
    ATTENTION,
    BOTH,
    CONTROLS,
    FEATURE_KINDS,
    RANDOM,
    Part,
    jobs_of,
    read_part,
)
from attlas.relations.fitting import Readers, fit_jobs, fit_pairs
from attlas.relations.interpret import interpreted
from attlas.relations.matching import scores_by_match
from attlas.relations.reading import SHARED, Setup
from attlas.relations.unseen import held_out_phrases, unseen_jobs, unseen_scores
from attlas.stats.linear import LinearReader
from attlas.studies.folder import QUARANTINE
from attlas.studies.shard_job import excluded_row
from attlas.studies.store import write_quarantine
from attlas.support.errors import StudyError
from attlas.support.json import to_json

__all__ = ["fit", "open_extractor", "read", "read_names", "resolve", "score"]

Tables = dict[str, pd.DataFrame]


def open_extractor(folder: str | Path) -> SavedExtractor:
    """A saved extractor with its controls."""
    saved = read_saved(folder)
    if "controls" not in saved.about:
        raise StudyError(
            f"{folder} holds an extractor without its controls; "
            "fit it with: attlas relations fit --out DIR"
        )
    return saved


def resolve(experiment: FitRelations, opened: dict[str, Any]) -> dict[str, Any]:
    """Inputs with texts to tune on; refuse directions that these texts do not allow."""
    train, dev = divided(opened["train"], opened["dev"], experiment.seed)
    _setup(experiment, train, dev)
    return {**opened, "train": train, "dev": dev}


def _setup(experiment: FitRelations, train: Sequence[Text], dev: Sequence[Text]) -> Setup:
    return Setup.of(experiment, has_words(train) and has_words(dev))


@dataclass(frozen=True, eq=False)
class Fits:
    """All fitted readers: of every kind of features, and those that never saw some phrases."""

    readers: dict[str, Readers]  # by kind
    unseen: dict[str, LinearReader]  # by kind
    held_out: frozenset[str]  # phrases


def fit(
    experiment: FitRelations,
    work: Workspace,
    *,
    train: list[Text],
    dev: list[Text],
    model: Model,
    names: dict[str, str] | None,
) -> Outcome:
    """Fit an extractor and every control on `train`, tuned and scored on `dev`."""
    setup, titles = _setup(experiment, train, dev), names or {}
    steps = 5 if experiment.interpret else 4
    _report_words(work, [*train, *dev], setup)
    work.log(f"Relations 1/{steps}: reading attention between phrases, also with random weights")
    models, states = (model, model.randomized(setup.seed)), experiment.interpret
    first = read_part(work, train, setup, models, states=states)
    second = read_part(work, dev, setup, models, 1, first.vocabulary, states=states)
    work.log(f"Relations 2/{steps}: fitting classifiers on {len(first.features)} kinds of features")
    fits = fit_all(work, first, second)
    own = fits.readers[ATTENTION]
    work.log(f"Relations 3/{steps}: extracting triples from plain text")
    thresholds, extracted = tuned_extraction(work, model, dev, own, setup)
    work.log(f"Relations 4/{steps}: scoring every reader")
    tables, result = scored(second, fits, extracted, titles)
    if experiment.interpret:
        work.log("Relations 5/5: which directions, layers and heads show relations")
        tables |= interpreted(work, first, second, fits.readers, titles)
    result |= _fit_facts(first, second, fits, thresholds)
    extractor = RelationExtractor(model, **{name: getattr(experiment, name) for name in SHARED})
    extractor.filled(setup, own, thresholds, work.identity(model))
    with_controls = ControlledExtractor(extractor, fits, _facts(first, second, fits, titles))
    return _outcome(work, second, tables, result, {EXTRACTOR: with_controls})


def score(
    experiment: ScoreRelations,
    work: Workspace,
    *,
    extractor: SavedExtractor,
    test: list[Text],
    model: Model,
) -> Outcome:
    """Score a fitted extractor and all its controls on texts that it has not seen."""
    about = extractor.about
    fitted = RelationExtractor.of_saved(extractor, model, work.identity(model))
    setup = fitted.setup_
    work.log("Relations 1/3: reading attention between phrases, also with random weights")
    models = (model, model.randomized(int(about["seed"])))
    part = read_part(work, test, setup, models, 1, about["vocabulary"])
    work.log("Relations 2/3: extracting triples from plain text")
    readers, thresholds = fitted.readers_, fitted.thresholds_
    extracted = extract_triples(work, model, test, readers, setup, thresholds[0]).above(thresholds)
    work.log("Relations 3/3: scoring every reader")
    tables, result = scored(part, _saved_fits(extractor, readers), extracted, about["names"])
    relations = {triple.relation for text in test for triple in relations_in(text).triples}
    result |= {
        "texts": {
            "test": len(test),
            "in_both": in_both(about["learnt"], test),
            "tuned_on": in_both(about["tuned"], test),
        },
        "triples": {"test": part.triples},
        "lost": {"test": _lost(part)},
        "relations_never_learnt": sorted(relations - set(about["classes"])),
    }
    return _outcome(work, part, tables, result)


def _report_words(work: Workspace, texts: Sequence[Text], setup: Setup) -> None:
    """Report that relation words are not read, where only some triples have them."""
    has_word = [triple.words is not None for text in texts for triple in relations_in(text).triples]
    if any(has_word) and not setup.relation_words:
        work.log(
            f"{has_word.count(False)} of {len(has_word)} triples have no relation words: "
            "only attention between head and tail is read"
        )


def fit_all(work: Workspace, train: Part, dev: Part) -> Fits:
    """Fit the readers of every kind, and those that never see the held-out phrases."""
    readers, setup = fit_pairs(work, jobs_of(train, dev)), train.setup
    held_out = held_out_phrases(train.sample, setup.seed) if setup.relation_words else frozenset()
    if not held_out:
        return Fits(readers, {}, held_out)
    jobs = unseen_jobs(train, dev, held_out, readers)
    return Fits(readers, fit_jobs(work, jobs, "fitting readers without some phrases"), held_out)


def _lost(part: Part) -> dict[str, int]:
    """Triples that cannot be used, by reason."""
    counts, unseen = count_unusable(part.texts), part.sample.unseen
    return {**counts, "not read by the model": unseen} if unseen else counts


def scored(
    part: Part, fits: Fits, extracted: Extracted, names: Mapping[str, str]
) -> tuple[Tables, dict[str, Any]]:
    """Tables and result: every reader, every relation, and the triples from plain text."""
    texts = part.texts
    answers = {
        name: Answers.by(pair, part.features[name].features, part.sample)
        for name, pair in fits.readers.items()
    }
    scores = intervals(answers, len(texts), ATTENTION, BOTH)
    extraction = scores_by_match(texts, extracted.triples)
    unseen: dict[str, Any] = {}
    if fits.unseen:
        unseen = unseen_scores(part, fits.unseen, fits.held_out)
    reader = fits.readers[ATTENTION].named
    tables = {
        "relations": scores_frame(scores, part.triples, len(texts)),
        "relations_each": each_relation(answers, names, ATTENTION),
        "relations_extraction": pd.DataFrame(
            [{"match": name, **row} for name, row in extraction.items()]
        ),
        **pictures(part.model, reader, texts, extracted.triples, names),
        **_unseen_table(unseen),
    }
    best = max((name for name in scores if name in CONTROLS), key=lambda name: scores[name]["f1"])
    controls: dict[str, Any] = {name: row for name, row in scores.items() if name != ATTENTION}
    return tables, {
        **scores[ATTENTION],
        "controls": {**controls, "unseen_phrases": unseen} if unseen else controls,
        "best_control": best,
        "extraction": extraction,
        "adds": {
            "over_best_control": scores[best]["f1_ahead"],
            "over_random_model": scores[RANDOM]["f1_ahead"],
            "to_best_control": scores[best]["both_f1_ahead"],
        },
        "phrases_unseen": extracted.unseen,
    }


def _unseen_table(unseen: Mapping[str, Any]) -> Tables:
    """One row per reader that never saw some phrases; no table where these are too few."""
    if ATTENTION not in unseen:
        return {}
    about = {name: unseen[name] for name in ("cases", "phrases", "relations")}
    rows = [{"reader": name, **unseen[name], **about} for name in FEATURE_KINDS if name in unseen]
    return {"relations_unseen": pd.DataFrame(rows)}


def _fit_facts(train: Part, dev: Part, fits: Fits, thresholds: Thresholds) -> dict[str, Any]:
    """What the result of a fit reports in addition to its scores."""
    return {
        "thresholds": dict(zip(("related", "named"), thresholds, strict=True)),
        "penalties": {
            name: {part: reader.penalty for part, reader in pair._asdict().items()}
            for name, pair in fits.readers.items()
        },
        "steps": {
            name: {part: reader.steps for part, reader in pair._asdict().items()}
            | {"converged": all(reader.converged for reader in pair)}
            for name, pair in fits.readers.items()
        },
        "texts": {"train": len(train.texts), "dev": len(dev.texts)},
        "triples": {"train": train.triples, "dev": dev.triples},
        "lost": {"train": _lost(train), "dev": _lost(dev)},
        "extractor": f"files/{EXTRACTOR}",
        "relation_words_read": train.setup.relation_words,
    }


def _facts(train: Part, dev: Part, fits: Fits, names: Mapping[str, str]) -> dict[str, Any]:
    """What is saved with an extractor, so that it can be scored with its controls."""
    return {
        "controls": [name for name in fits.readers if name != ATTENTION],
        "vocabulary": dict(train.vocabulary),
        "held_out": sorted(fits.held_out),
        "names": dict(names),
        "seed": train.setup.seed,
        "classes": list(fits.readers[ATTENTION].named.classes),
        "learnt": sorted(text_digests(train.texts)),
        "tuned": sorted(text_digests(dev.texts)),
    }


@dataclass(frozen=True, eq=False)
class ControlledExtractor:
    """An extractor that is saved with its controls."""

    extractor: RelationExtractor
    fits: Fits
    about: Mapping[str, Any]

    def save(self, folder: Path) -> None:
        extra = {
            f"{name}/{part}": reader
            for name, pair in self.fits.readers.items()
            if name != ATTENTION
            for part, reader in pair._asdict().items()
        }
        extra |= {f"unseen/{name}": reader for name, reader in self.fits.unseen.items()}
        self.extractor.save(folder, extra, self.about)


def _saved_fits(saved: SavedExtractor, own: Readers) -> Fits:
    """All readers of a saved extractor."""
    about, readers = saved.about, saved.readers
    pairs = {
        name: Readers(readers[f"{name}/related"], readers[f"{name}/named"])
        for name in about["controls"]
    }
    unseen = {
        name: readers[f"unseen/{name}"] for name in FEATURE_KINDS if f"unseen/{name}" in readers
    }
    return Fits({ATTENTION: own, **pairs}, unseen, frozenset(about["held_out"]))


def in_both(digests: Sequence[str] | Sequence[int], texts: Sequence[Text]) -> int:
    """The number of distinct texts that an extractor has seen; version 0.1.0 saved CRC32 sums."""
    sums = {digest for digest in digests if isinstance(digest, int)}
    if sums:
        return len({text.text for text in texts if text.number in sums})
    return overlap(map(str, digests), texts)


CONTROLLED = (  # score, its control
    ("relations_directions", "f1_alone", "f1_alone_random"),
    ("relations_directions", "binary_accuracy_alone", "binary_accuracy_alone_random"),
    ("relations_path", "f1", "f1_random"),
    ("relations_merged", "f1", "f1_random"),
    ("relation_heads", "share", "share_uniform"),
    ("relations_shared", "shared", "shared_uniform"),
)


def _outcome(
    work: Workspace,
    part: Part,
    tables: Tables,
    result: dict[str, Any],
    files: Mapping[str, Any] | None = None,
) -> Outcome:
    """The outcome; its counts are those of the pass over the texts to score on."""
    lengths = part.sample.vectors.lengths
    assert lengths is not None  # of a pass
    excluded = [excluded_row(index, part.texts[index]) for index in lengths.excluded]
    columns = [("relations_each", "f1", f"f1_{name}") for name in part.features]
    readers = set(tables["relations"]["reader"]) - {ATTENTION}
    return Outcome(
        tables=tables,
        result=result,
        counts=lengths.counts,
        files=files or {},
        controls=[
            *(
                ("relations", score, {"reader": name})
                for score in ("binary_accuracy", "f1")
                for name in sorted(readers)
            ),
            *(
                one
                for one in (*columns, *CONTROLLED)
                if one[0] in tables and one[2] in tables[one[0]] and len(tables[one[0]])
            ),
        ],
        about={"relations": to_json(result)},
        quarantine=work.files(write_quarantine, excluded) / QUARANTINE,
    )
