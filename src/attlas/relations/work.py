"""What FitRelations and ScoreRelations do: cases, vectors, features, readers, scores.

Each step takes plain values and gives plain values; the extractor is built last, from its readers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.relation_names import relation_names
from attlas.corpora.splits import overlap, text_digests
from attlas.experiments.experiment import Outcome
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.relations.answers import Answers, each_relation, intervals, scores_frame
from attlas.relations.baselines import Surface
from attlas.relations.candidates import divided, has_words, lost, noted, related_texts
from attlas.relations.examples import pictures
from attlas.relations.experiment import EXTRACTOR, FitRelations, ScoreRelations
from attlas.relations.extraction import (
    PUBLISHED_THRESHOLDS,
    Extracted,
    best_thresholds,
    extract_triples,
    likely,
)
from attlas.relations.extractor import RelationExtractor, SavedExtractor, read_saved
from attlas.relations.features import (
    ATTENTION,
    BOTH,
    CONTROLS,
    KINDS,
    RANDOM,
    Evidence,
    features_of,
    jobs_of,
)
from attlas.relations.fitting import Labelled, Readers, fit_jobs, fit_pairs
from attlas.relations.interpret import (
    Inner,
    Sides,
    depth_table,
    directions_table,
    heads_table,
    layers_table,
    likeness,
    merged_table,
    merges_frame,
    path_table,
)
from attlas.relations.matching import scores_by_match
from attlas.relations.reading import Setup, cases_of, checked, read_sample
from attlas.relations.unseen import held_out_phrases, unseen_jobs, unseen_scores
from attlas.relations.vectors import Lengths, phrases_asked
from attlas.stats.linear import LinearReader
from attlas.studies.folder import QUARANTINE
from attlas.studies.shard_job import excluded_row
from attlas.support.errors import StudyError
from attlas.support.json import to_json

Tables = dict[str, pd.DataFrame]


def read(source: Any) -> list[Text]:
    """Texts with triples."""
    return related_texts(source)


def read_names(path: str | Path) -> dict[str, str]:
    """The names of relations."""
    return relation_names(path)


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
    """Inputs with texts to tune on, and directions that these texts allow."""
    train, dev = divided(opened["train"], opened["dev"], experiment.seed)
    checked(_setup(experiment, train, dev))
    return {**opened, "train": train, "dev": dev}


def _setup(experiment: FitRelations, train: Sequence[Text], dev: Sequence[Text]) -> Setup:
    return Setup(
        worded=has_words(train) and has_words(dev),
        directions=experiment.directions,
        convention=experiment.convention,
        parser=experiment.parser,
        seed=experiment.seed,
    )


@dataclass(frozen=True, eq=False)
class Part:
    """Texts with their cases as all kinds of features show them."""

    evidence: Evidence
    features: dict[str, Labelled]
    lengths: Lengths

    @property
    def texts(self) -> Sequence[Text]:
        return self.evidence.own.texts

    @property
    def triples(self) -> int:
        return int(self.evidence.own.related.sum())

    @property
    def lost(self) -> dict[str, int]:
        """Triples that were given and cannot be used, by reason."""
        found, unseen = lost(self.texts), self.evidence.own.unseen
        return {**found, "not read by the model": unseen} if unseen else found


@dataclass(frozen=True, eq=False)
class Fits:
    """All fitted readers: of every kind of features, and those that never met some phrases."""

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
    how = (setup, model, model.randomized(setup.seed))
    first = read_part(work, train, *how, states=experiment.interpret)
    vocabulary = first.evidence.vocabulary
    second = read_part(work, dev, *how, 1, vocabulary, states=experiment.interpret)
    work.log(f"Relations 2/{steps}: fitting readers of {len(first.features)} kinds of features")
    fits = fit_all(work, first, second)
    own = fits.readers[ATTENTION]
    work.log(f"Relations 3/{steps}: extracting triples from plain text")
    thresholds, plain = tuned_extraction(work, model, dev, own, setup)
    work.log(f"Relations 4/{steps}: scoring every reader")
    tables, result = scored(second, fits, plain, titles)
    if experiment.interpret:
        work.log("Relations 5/5: which directions, layers and heads show relations")
        tables |= interpreted(work, first, second, fits.readers, titles)
    result |= _fit_facts(first, second, fits, thresholds)
    extractor = RelationExtractor(
        model,
        directions=experiment.directions,
        convention=experiment.convention,
        parser=experiment.parser,
        seed=experiment.seed,
    ).filled(setup, own, thresholds, work.identity(model))
    kept = KeptExtractor(extractor, fits, _facts(first, second, fits, titles))
    return _outcome(work, second, tables, result, {EXTRACTOR: kept})


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
    random = model.randomized(int(about["seed"]))
    part = read_part(work, test, setup, model, random, 1, about["vocabulary"])
    work.log("Relations 2/3: extracting triples from plain text")
    thresholds = fitted.thresholds_
    plain = extract_triples(work, model, test, fitted.readers_, setup, thresholds[0])
    plain = Extracted([likely(found, thresholds) for found in plain.found], plain.unseen)
    work.log("Relations 3/3: scoring every reader")
    tables, result = scored(part, _saved_fits(extractor, fitted.readers_), plain, about["names"])
    relations = {triple.relation for text in test for triple in noted(text).triples}
    result |= {
        "texts": {
            "test": len(test),
            "in_both": in_both(about["learnt"], test),
            "tuned_on": in_both(about["tuned"], test),
        },
        "triples": {"test": part.triples},
        "lost": {"test": part.lost},
        "relations_never_learnt": sorted(relations - set(about["classes"])),
    }
    return _outcome(work, part, tables, result)


def _report_words(work: Workspace, texts: Sequence[Text], setup: Setup) -> None:
    """Say that relation words are not read, where some triples have them."""
    worded = [triple.words is not None for text in texts for triple in noted(text).triples]
    if any(worded) and not setup.worded:
        work.log(
            f"{worded.count(False)} of {len(worded)} triples do not say which words state them: "
            "only attention between head and tail is read"
        )


def read_part(
    work: Workspace,
    texts: Sequence[Text],
    setup: Setup,
    model: Model,
    random: Model,
    count: int | None = None,
    vocabulary: Mapping[str, int] | None = None,
    *,
    states: bool = False,
) -> Part:
    """Draw cases from texts and read them, once with the model and once with random weights."""
    cases = cases_of(texts, setup, count)
    asked = phrases_asked(texts, cases)
    way = setup.published
    own, lengths = read_sample(work, model, texts, cases, published=way, states=states, asked=asked)
    other, _ = read_sample(work, random, texts, cases, published=way, asked=asked)
    surface = Surface(texts)
    known = surface.vocabulary(own.cases) if vocabulary is None else vocabulary
    evidence = Evidence(setup, own, other, model, known, surface)
    return Part(evidence, features_of(evidence), lengths)


def fit_all(work: Workspace, train: Part, dev: Part) -> Fits:
    """Fit the readers of every kind, and those that never meet the held-out phrases."""
    setup, words = train.evidence.setup, len(train.evidence.vocabulary)
    jobs = jobs_of(train.features, dev.features, setup, words)
    readers = fit_pairs(work, jobs)
    samples = train.evidence.own, dev.evidence.own
    held_out = held_out_phrases(samples[0], setup.seed) if setup.worded else frozenset()
    if not held_out:
        return Fits(readers, {}, held_out)
    again = unseen_jobs(samples, train.features, dev.features, held_out, readers, setup, words)
    return Fits(readers, fit_jobs(work, again, "fitting readers without some phrases"), held_out)


def tuned_extraction(
    work: Workspace, model: Model, texts: Sequence[Text], readers: Readers, setup: Setup
) -> tuple[tuple[float, float], Extracted]:
    """The best thresholds for texts with triples, and what is found with them."""
    least = PUBLISHED_THRESHOLDS[0] if setup.published else 0.0
    plain = extract_triples(work, model, texts, readers, setup, least)
    thresholds = PUBLISHED_THRESHOLDS
    if not setup.published:
        thresholds = best_thresholds(texts, plain.found)
    return thresholds, Extracted([likely(one, thresholds) for one in plain.found], plain.unseen)


def scored(
    part: Part, fits: Fits, plain: Extracted, names: Mapping[str, str]
) -> tuple[Tables, dict[str, Any]]:
    """Tables and result: every reader, every relation, and the triples from plain text."""
    sample, texts = part.evidence.own, part.texts
    answers = {
        name: Answers.by(pair, part.features[name].features, sample)
        for name, pair in fits.readers.items()
    }
    scores = intervals(answers, len(texts), ATTENTION, BOTH)
    extraction = scores_by_match(texts, plain.found)
    unseen: dict[str, Any] = {}
    if fits.unseen:
        unseen = unseen_scores(sample, part.features, fits.unseen, fits.held_out)
    reader = fits.readers[ATTENTION].named
    tables = {
        "relations": scores_frame(scores, part.triples, len(texts)),
        "relations_each": each_relation(answers, names, ATTENTION),
        "relations_extraction": pd.DataFrame(
            [{"match": name, **row} for name, row in extraction.items()]
        ),
        **pictures(part.evidence.model, reader, texts, plain.found, names),
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
        "phrases_unseen": plain.unseen,
    }


def _unseen_table(unseen: Mapping[str, Any]) -> Tables:
    """One row per reader that never met some phrases; no table where these are too few."""
    if ATTENTION not in unseen:
        return {}
    about = {name: unseen[name] for name in ("cases", "phrases", "relations")}
    rows = [{"reader": name, **unseen[name], **about} for name in KINDS if name in unseen]
    return {"relations_unseen": pd.DataFrame(rows)}


def interpreted(
    work: Workspace,
    train: Part,
    dev: Part,
    readers: Mapping[str, Readers],
    names: Mapping[str, str],
) -> Tables:
    """Directions, layers, heads, and which relations are similar."""
    evidence = train.evidence
    own, random = (Sides(train.features[name], dev.features[name]) for name in (ATTENTION, RANDOM))
    inner = [Inner.of(part.evidence.own, part.features) for part in (train, dev)]
    shape, seed = (evidence.model.n_layers, evidence.model.n_heads), evidence.setup.seed
    pair = readers[ATTENTION]
    path, entered = path_table(work, own, shape, seed)
    heads, shared = heads_table(pair.named, shape, names)
    by_reader = {name: readers[name].named for name in (ATTENTION, RANDOM)}
    directions = evidence.setup.read_directions
    return {
        "relations_directions": directions_table(work, own, random, pair, directions),
        "relations_layers": layers_table(work, inner[0], inner[1], shape),
        "relations_depth": depth_table(pair, shape),
        "relations_path": path,
        "relations_entered": entered,
        "relations_tree": merges_frame(pair.named, names),
        "relations_merged": merged_table(work, own, pair.named, seed),
        "relation_heads": heads,
        "relations_shared": shared,
        "relations_likeness": likeness(evidence.model, evidence.own, by_reader),
    }


def _fit_facts(
    train: Part, dev: Part, fits: Fits, thresholds: tuple[float, float]
) -> dict[str, Any]:
    """What the result of a fit says besides its scores."""
    return {
        "thresholds": dict(zip(("related", "named"), thresholds, strict=True)),
        "penalties": {
            name: {"related": pair.related.penalty, "named": pair.named.penalty}
            for name, pair in fits.readers.items()
        },
        "steps": {
            name: {
                "related": pair.related.steps,
                "named": pair.named.steps,
                "converged": pair.related.converged and pair.named.converged,
            }
            for name, pair in fits.readers.items()
        },
        "texts": {"train": len(train.texts), "dev": len(dev.texts)},
        "triples": {"train": train.triples, "dev": dev.triples},
        "lost": {"train": train.lost, "dev": dev.lost},
        "extractor": f"files/{EXTRACTOR}",
        "relation_words_read": train.evidence.setup.worded,
    }


def _facts(train: Part, dev: Part, fits: Fits, names: Mapping[str, str]) -> dict[str, Any]:
    """What is saved with an extractor, so that it can be scored with its controls."""
    return {
        "controls": [name for name in fits.readers if name != ATTENTION],
        "vocabulary": dict(train.evidence.vocabulary),
        "held_out": sorted(fits.held_out),
        "names": dict(names),
        "seed": train.evidence.setup.seed,
        "classes": list(fits.readers[ATTENTION].named.classes),
        "learnt": sorted(text_digests(train.texts)),
        "tuned": sorted(text_digests(dev.texts)),
    }


@dataclass(frozen=True, eq=False)
class KeptExtractor:
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
    unseen = {name: readers[f"unseen/{name}"] for name in KINDS if f"unseen/{name}" in readers}
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
    """What is written: counts are those of the pass over the texts that were scored on."""
    excluded = [excluded_row(place, part.texts[place]) for place in part.lengths.excluded]
    columns = [("relations_each", "f1", f"f1_{name}") for name in part.features]
    readers = set(tables["relations"]["reader"]) - {ATTENTION}
    return Outcome(
        tables=tables,
        result=result,
        counts=part.lengths.counts,
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
        quarantine=work.files(write_excluded, excluded) / QUARANTINE,
    )


def write_excluded(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write the texts that were excluded, each with its reason."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / QUARANTINE).write_bytes(lines.encode("utf-8", "backslashreplace"))
