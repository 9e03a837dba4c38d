"""Relations from file to report: an extractor fitted with all its controls, scored with them on other texts; kept on disk and gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.relation_names import relation_names
from attlas.corpora.splits import overlap, text_digests
from attlas.experiments.derived import Experiment, Write, found_or_run, named_source, write_derived
from attlas.experiments.probed import counted
from attlas.language.phrases import parser_version
from attlas.models import Model, load
from attlas.relations.candidates import lost, noted, related_texts
from attlas.relations.evidence import (
    ATTENTION,
    BOTH,
    CONTROLS,
    RANDOM,
    READ,
    Evidence,
    each_relation,
    fit_unseen,
    fit_ways,
    held_out_phrases,
    scores_frame,
    unseen_scores,
)
from attlas.relations.examples import pictures
from attlas.relations.extractor import ABOUT, ARRAYS, EXTRACTOR, RelationExtractor, extractor_folder, load_readers
from attlas.relations.interpret import (
    depth_table,
    directions_table,
    heads_table,
    layers_table,
    likeness,
    merged_table,
    merges_frame,
    path_table,
)
from attlas.relations.matching import Found, exact, extraction_scores, lenient
from attlas.relations.reading import Readers, intervals
from attlas.stats.linear import LinearReader
from attlas.studies.folder import FILES, SOURCE, STATES, Folder
from attlas.studies.run import about_model
from attlas.support.errors import StudyError
from attlas.support.fingerprint import File, fingerprint, source_digest, versions
from attlas.support.json import to_json
from attlas.support.progress import status

Tables = dict[str, pd.DataFrame]
Said = Callable[[str], None]
KIND, SCORED = "relations", "relations_scored"


def fit_relations(
    model: Any,
    train: Any,
    dev: Any = None,
    out: str | Path = "runs/relations",
    *,
    names: str | Path | None = None,
    convention: str = "sound",
    directions: Sequence[str] | None = None,
    parser: str = "rules",
    interpret: bool = False,
    seed: int = 0,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
) -> Experiment:
    """Fit an extractor and every control on `train`, tuned on `dev` (a fifth of `train` if None); `out` then holds the extractor and a study of how well they do on `dev`.

    `interpret` also asks which directions, layers and heads hold the relations, and which relations are alike. `names` is a file of what relations are called.
    """
    began, folder = time.perf_counter(), Path(out).expanduser()
    loaded = load(model) if not isinstance(model, Model) else model
    extractor = RelationExtractor(
        loaded, directions=directions, convention=convention, parser=parser, seed=seed, cache=folder / STATES, workers=workers, progress=progress
    )  # fmt: skip
    titles = {} if names is None else relation_names(names)
    with status("reading the texts"):
        learnt, held = extractor.parts(train, dev)
    words = [triple.words is not None for text in (*learnt, *held) for triple in noted(text).triples]
    if not extractor.worded_ and any(words):
        say(f"{words.count(False)} of {len(words)} triples do not say which words state them: only attention between head and tail is read")  # fmt: skip
    options = {"convention": convention, "directions": directions, "parser": parser, "interpret": interpret, "names": sorted(titles.items())}  # fmt: skip
    own, place = loaded.identity(), Folder(folder, KIND)
    inputs = {"train": learnt, "dev": held, **options, "parser": parser_version(parser), "seed": seed}
    identity = _identity(own, inputs)

    def run() -> Experiment:
        random = loaded.randomized(seed)
        say("attention between the phrases of each text, by the model and by random weights")
        first = Evidence.read(extractor, learnt, random, states=interpret)
        second = Evidence.read(extractor, held, random, 1, first.vocabulary, states=interpret)
        say("the readers of attention")
        extractor.fit_samples(first.own, second.own)
        readers = {ATTENTION: extractor.readers_, **fit_ways(first, second, say)}
        held_out, unseen = _unseen(first, second, readers, seed, say)
        keep = _keeping(extractor, readers, unseen, held_out, first.vocabulary, titles, seed, learnt, held)
        tables, result = _scored(extractor, second, readers, unseen, held_out, titles, say)
        if interpret:
            tables |= _interpreted(first, second, readers, titles, say, seed)
        result |= {
            "thresholds": dict(zip(("related", "named"), extractor.thresholds_, strict=True)), "penalties": {name: {"related": pair.related.penalty, "named": pair.named.penalty} for name, pair in readers.items()},
            "steps": {name: {"related": pair.related.steps, "named": pair.named.steps, "converged": pair.related.converged and pair.named.converged} for name, pair in readers.items()},
            "texts": {"train": len(learnt), "dev": len(held)}, "triples": {"train": int(first.own.related.sum()), "dev": int(second.own.related.sum())},
            "lost": {"train": _lost(learnt, first), "dev": _lost(held, second)}, "extractor": str(folder), "relation_words_read": extractor.worded_,
        }  # fmt: skip
        about = _described(loaded, own, named_source(train, dev), held, KIND, options, seed)
        return _written(place, about, tables, result, began, keep)

    return found_or_run(place, identity, fresh, Experiment, run, {"model": own})


def score_relations(
    extractor: str | Path,
    test: Any,
    out: str | Path | None = None,
    *,
    model: Any = None,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
) -> Experiment:
    """Score a fitted extractor and all its controls on texts that it has not seen: binary accuracy, macro F1 of relations, and extraction from plain text.

    `out` is where the study goes (a folder `scored` in the extractor's own if None).
    """
    began = time.perf_counter()
    about, saved = load_readers(extractor)
    if "controls" not in about:
        raise StudyError(f"{extractor} holds an extractor without its controls; fit it with: attlas relations fit --out DIR")  # fmt: skip
    folder = Path(extractor).expanduser() / "scored" if out is None else Path(out).expanduser()
    fitted = RelationExtractor.load(extractor, model, cache=folder / STATES, workers=workers, progress=progress)
    with status("reading the texts"):
        texts = related_texts(test)
    saved_in = extractor_folder(extractor)
    files = [fingerprint(File(saved_in / name)) for name in (ABOUT, ARRAYS)]
    options, seed = {"thresholds": about["thresholds"]}, int(about["seed"])
    own, place = fitted.model_.identity(), Folder(folder, SCORED)
    identity = _identity(own, {"extractor": files, "parser": parser_version(fitted.parser), "test": texts})

    def run() -> Experiment:
        say("attention between the phrases of each text, by the model and by random weights")
        random = fitted.model_.randomized(int(about["seed"]))
        evidence = Evidence.read(fitted, texts, random, 1, about["vocabulary"])
        readers = {ATTENTION: fitted.readers_}
        readers |= {name: Readers(saved[f"{name}/related"], saved[f"{name}/named"]) for name in about["controls"]}
        unseen = {name: saved[f"unseen/{name}"] for name in READ if f"unseen/{name}" in saved}
        tables, result = _scored(fitted, evidence, readers, unseen, frozenset(about["held_out"]), about["names"], say)
        known = set(about["classes"])
        never = sorted({triple.relation for text in texts for triple in noted(text).triples} - known)
        result |= {
            "texts": {"test": len(texts), "in_both": _in_both(about["learnt"], texts), "tuned_on": _in_both(about["tuned"], texts)}, "triples": {"test": int(evidence.own.related.sum())},
            "lost": {"test": _lost(texts, evidence)}, "relations_never_learnt": never,
        }  # fmt: skip
        manifest = _described(fitted.model_, own, named_source(test, None), texts, SCORED, options, seed)
        return _written(place, manifest, tables, result, began)

    return found_or_run(place, identity, fresh, Experiment, run, {"model": own})


def _in_both(digests: Sequence[str] | Sequence[int], texts: Sequence[Text]) -> int:
    """The number of distinct texts that a saved extractor has seen; version 0.1.0 saved CRC32 sums."""
    sums = {digest for digest in digests if isinstance(digest, int)}
    if sums:
        return len({text.text for text in texts if text.number in sums})
    return overlap(map(str, digests), texts)


def _identity(model: Mapping[str, str], inputs: Mapping[str, Any]) -> dict[str, str]:
    prints = {name: fingerprint(value) for name, value in inputs.items()}
    return {"model": fingerprint(model), **prints, SOURCE: source_digest()}


def _unseen(
    first: Evidence, second: Evidence, readers: Mapping[str, Readers], seed: int, say: Said
) -> tuple[frozenset[str], dict[str, LinearReader]]:
    """The relation phrases that were held out, and readers that never met them."""
    if not first.extractor.worded_:
        return frozenset(), {}
    held_out = held_out_phrases(first.own, seed)
    if not held_out:
        return held_out, {}
    say("relations by phrases that were not learnt from")
    return held_out, fit_unseen(first, second, held_out, readers)


def _keeping(
    extractor: RelationExtractor,
    readers: Mapping[str, Readers],
    unseen: Mapping[str, LinearReader],
    held_out: frozenset[str],
    vocabulary: Mapping[str, int],
    names: Mapping[str, str],
    seed: int,
    learnt: Sequence[Text],
    held: Sequence[Text],
) -> Write:
    """How the extractor and its controls are written into a folder."""
    extra = {f"{name}/{part}": getattr(pair, part) for name, pair in readers.items() if name != ATTENTION for part in ("related", "named")}  # fmt: skip
    extra |= {f"unseen/{name}": reader for name, reader in unseen.items()}
    about = {
        "controls": [name for name in readers if name != ATTENTION], "vocabulary": dict(vocabulary), "held_out": sorted(held_out), "names": dict(names), "seed": seed,
        "classes": list(extractor.readers_.named.classes), "learnt": sorted(text_digests(learnt)), "tuned": sorted(text_digests(held)),
    }  # fmt: skip
    return lambda stage: extractor.save(stage / FILES / EXTRACTOR, extra, about)


def _lost(texts: Sequence[Text], evidence: Evidence) -> dict[str, int]:
    """Triples that were given and cannot be used, by reason."""
    found = lost(texts)
    if evidence.own.unseen:
        found["not read by the model"] = evidence.own.unseen
    return found


def _scored(
    extractor: RelationExtractor,
    evidence: Evidence,
    readers: Mapping[str, Readers],
    unseen: Mapping[str, LinearReader],
    held_out: frozenset[str],
    names: Mapping[str, str],
    say: Said,
) -> tuple[Tables, dict[str, Any]]:
    """Tables and result of scoring on one sample."""
    told, texts = evidence.told(readers), evidence.own.texts
    scores = intervals(told, len(texts), ATTENTION, BOTH)
    say("triples from plain text")
    found = extractor.extraction(texts)
    extraction = extracted_scores(texts, found)
    by_phrase = unseen_scores(evidence, unseen, held_out) if unseen else {}
    best = max((name for name in scores if name in CONTROLS), key=lambda name: scores[name]["f1"])
    tables = {
        "relations": scores_frame(scores, int(evidence.own.related.sum()), len(texts)), "relations_each": each_relation(told, names),
        "relations_extraction": pd.DataFrame([{"match": name, **row} for name, row in extraction.items()]),
        **pictures(extractor, texts, found, names),
    }  # fmt: skip
    if ATTENTION in by_phrase:
        tables["relations_unseen"] = pd.DataFrame(
            [{"reader": name, **by_phrase[name], "cases": by_phrase["cases"], "phrases": by_phrase["phrases"], "relations": by_phrase["relations"]} for name in READ if name in by_phrase]
        )  # fmt: skip
    controls: dict[str, Any] = {name: row for name, row in scores.items() if name != ATTENTION}
    if by_phrase:
        controls["unseen_phrases"] = by_phrase
    return tables, {
        **scores[ATTENTION], "controls": controls, "best_control": best, "extraction": extraction,
        "adds": {"over_best_control": scores[best]["f1_ahead"], "over_random_model": scores[RANDOM]["f1_ahead"], "to_best_control": scores[best]["both_f1_ahead"]},
        "phrases_unseen": extractor.unseen_,
    }  # fmt: skip


def extracted_scores(texts: Sequence[Text], found: Sequence[Sequence[Found]]) -> dict[str, dict[str, Any]]:
    """Extraction by exact spans and by the paper's lenient match, the relation compared; and the latter with the relation left open, as the poster counts."""
    strings, gold = [text.text for text in texts], [noted(text).triples for text in texts]
    return {
        "exact": extraction_scores(strings, found, gold, exact),
        "published": extraction_scores(strings, found, gold, lenient),
        "published_any_relation": extraction_scores(strings, found, gold, lenient, relation=False),
    }


def _interpreted(first: Evidence, second: Evidence, readers: Mapping[str, Readers], names: Mapping[str, str], say: Said, seed: int) -> Tables:  # fmt: skip
    titles = dict(names)
    own = readers[ATTENTION].named
    path, entered = path_table(first, second, say, seed)
    heads, shared = heads_table(own, first.extractor.shape_, titles)
    return {
        "relations_directions": directions_table(first, second, readers[ATTENTION], say), "relations_layers": layers_table(first, second, say), "relations_depth": depth_table(readers[ATTENTION], first.extractor.shape_),
        "relations_path": path, "relations_entered": entered, "relations_tree": merges_frame(own, titles), "relations_merged": merged_table(first, second, own, say, seed),
        "relation_heads": heads, "relations_shared": shared, "relations_likeness": likeness(first, {ATTENTION: own, RANDOM: readers[RANDOM].named}),
    }  # fmt: skip


def _described(
    model: Model,
    own: Mapping[str, str],
    name: str,
    texts: Sequence[Text],
    kind: str,
    options: Mapping[str, Any],
    seed: int,
) -> dict[str, Any]:
    """What a manifest says of model, corpus and options."""
    return {
        "model": about_model(model, own["weights"]),
        "corpus": {"name": name, "fingerprint": fingerprint(texts), "labels": {}},
        "measures": {kind: str(dict(options))},
        "counts": counted(model, texts),
        "seed": seed,
        "versions": versions(),
    }


def _written(
    place: Folder,
    about: Mapping[str, Any],
    tables: Tables,
    result: dict[str, Any],
    began: float,
    write: Write = lambda stage: None,
) -> Experiment:
    result = to_json(result)
    manifest = {**about, "relations": result, "seconds": round(time.perf_counter() - began, 3)}
    return Experiment(write_derived(place, manifest, tables, result, write), result)
