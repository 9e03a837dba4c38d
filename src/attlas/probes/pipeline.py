"""The probes from file to report: heads chosen or probes fitted on some texts, scored on others, every control beside; kept on disk and gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.progress import status
from attlas.core.text import Text
from attlas.models import Model, load
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors
from attlas.probes.arcs import ALL
from attlas.probes.cases import Shares
from attlas.probes.coreference import CoreferenceHeads
from attlas.probes.coreference import documents as read_documents
from attlas.probes.examples import examples, telling
from attlas.probes.syntax import MIN_CASES, SyntaxHeads
from attlas.probes.tree import TreeProbe
from attlas.probes.trees import sentences
from attlas.probes.windows import TOKENS
from attlas.studies import Study
from attlas.studies.derived import Experiment, found_or_run, named_source, write_derived
from attlas.studies.folder import SOURCE, Folder
from attlas.studies.run import about_model
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import fingerprint, source_digest, versions

HELD_OUT = 0.2  # of the texts, if there are none to score on
SHARD = 512
Tables = dict[str, pd.DataFrame]
Said = Callable[[str], None]


def cut_in_two(texts: Sequence[Text], share: float = HELD_OUT, seed: int = 0) -> tuple[list[Text], list[Text]]:
    """The texts without a random share of them, and that share, each in order.

    >>> rest, fifth = cut_in_two([Text(str(n), f"text {n}") for n in range(10)])
    >>> len(rest), len(fifth)
    (8, 2)
    """
    if len(texts) < 2:
        raise CorpusError(f"{len(texts)} text cannot be cut in two; give a file to choose on and one to score on (--train, --test)")  # fmt: skip
    count = min(len(texts) - 1, max(1, round(share * len(texts))))
    away = set(np.random.default_rng(seed).permutation(len(texts))[:count].tolist())
    return [one for place, one in enumerate(texts) if place not in away], [one for place, one in enumerate(texts) if place in away]  # fmt: skip


def _parts(train: Any, test: Any, reader: Callable[[Any], list[Text]], seed: int) -> tuple[list[Text], list[Text]]:
    first = reader(train)
    return cut_in_two(first, seed=seed) if test is None else (first, reader(test))


def _probed(
    kind: str,
    model: Any,
    train: Any,
    test: Any,
    out: str | Path,
    options: Mapping[str, Any],
    reader: Callable[[Any], list[Text]],
    work: Callable[[Model, list[Text], list[Text], Path], tuple[Tables, dict[str, Any], dict[str, int]]],
    *,
    seed: int,
    fresh: bool,
) -> Experiment:
    """Read, run (or find again) and write one probe: `work` gives tables, the result and what was counted."""
    began, folder = time.perf_counter(), Path(out).expanduser()
    loaded = load(model) if not isinstance(model, Model) else model
    with status("reading the texts"):
        first, second = _parts(train, test, reader, seed)
    own, place = loaded.identity(), Folder(folder, kind)
    scored = fingerprint(second)
    identity = {
        "model": fingerprint(own),
        "train": fingerprint(first),
        "test": scored,
        **{name: fingerprint(value) for name, value in options.items()},
        "seed": fingerprint(seed),
        SOURCE: source_digest(),
    }

    def run() -> Experiment:
        tables, result, counts = work(loaded, first, second, place.states.folder)
        in_both = len({one.text for one in second} & {one.text for one in first})
        result = {**result, "texts": {"train": len(first), "test": len(second), "in_both": in_both}, "counts": counts}
        manifest = {
            "model": about_model(loaded, own["weights"]), "corpus": {"name": named_source(train, test), "fingerprint": scored, "labels": {}}, "measures": {kind: str(dict(options))},
            "counts": counts, "seed": seed, "versions": versions(), "probe": {"kind": kind, "texts": result["texts"], "lost": result["lost"]},
            "seconds": round(time.perf_counter() - began, 3),
        }  # fmt: skip
        return Experiment(write_derived(place, manifest, tables, result), result)

    return found_or_run(place, identity, fresh, Experiment, run, {"model": own})


def _counts(scoring: Study) -> dict[str, int]:
    """What the scoring pass read, cut and left out."""
    return dict(scoring.manifest["counts"])


def probe_syntax(
    model: Any,
    train: Any,
    test: Any = None,
    out: str | Path = "runs/syntax",
    *,
    min_cases: int = MIN_CASES,
    seed: int = 0,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
) -> Experiment:
    """Which head finds which relation: chosen on `train`, scored on `test` (a fifth of `train` if None), beside the best fixed offset and the same model with random weights.

    Both take anything `attlas.read` reads as sentences with trees (.conllu). Tables: `syntax` (a row a relation), `syntax_published` (chosen and scored on `test`, as the paper did),
    `syntax_heads` (every head on `test`), `syntax_offsets`, and sentences for pictures, `example_words` and `example_arcs`.
    """

    def work(loaded: Model, first: list[Text], second: list[Text], cache: Path) -> tuple[Tables, dict[str, Any], dict[str, int]]:  # fmt: skip
        options: dict[str, Any] = {"min_cases": min_cases, "cache": cache, "workers": workers, "progress": progress}
        say("every head on the sentences to choose on, then on those to score on")
        heads = SyntaxHeads(loaded, **options).fit(first)
        found = heads.evaluate(second)
        scoring = heads.scored_
        say("the same with random weights")
        control = SyntaxHeads(loaded.randomized(seed), **options).fit(first).evaluate(second)
        beside = control.set_index("relation")[["accuracy", "low", "high"]].add_prefix("random_")
        found = found.join(beside, on="relation")
        say("as published: chosen and scored on the same sentences")
        published = SyntaxHeads(loaded, convention="published", **options).evaluate(second)
        counted = scoring.table("arcs_counts").iloc[0].to_dict()
        every = found[found["relation"] == ALL]
        result = {
            "relations": _records(found[found["relation"] != ALL]), "published": _records(published), "words": counted,
            "lost": {"words cut off, or whose head was": counted["unseen"], "sentences to choose on that were cut": heads.study_.manifest["counts"]["truncated"]},
            "overall": _first(every, "accuracy"), "overall_baseline": _first(every, "baseline"), "overall_random": _first(every, "random_accuracy"),
        }  # fmt: skip
        tables = {"syntax": found, "syntax_published": published, "syntax_heads": scoring.table("arcs"), "syntax_offsets": scoring.table("arcs_offsets")}  # fmt: skip
        return {**tables, **examples(loaded, second, telling(found))}, result, _counts(scoring)

    return _probed("syntax", model, train, test, out, {"min_cases": min_cases}, sentences, work, seed=seed, fresh=fresh)


def probe_coreference(
    model: Any,
    train: Any,
    test: Any = None,
    out: str | Path = "runs/coreference",
    *,
    tokens: int | None = TOKENS,
    seed: int = 0,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
) -> Experiment:
    """Which head finds antecedents: chosen on `train`, scored on `test` (a fifth of `train` if None), beside three baselines and the same model with random weights.

    Both are CoNLL-U with entities, LitBank's CoNLL, GAP's table, or documents with coreference. Tables: `coreference` (heads and baselines by kind of mention) and `coreference_heads` (every head on `test`;
    `_random` is the mean of all heads of random weights).
    """

    def work(loaded: Model, first: list[Text], second: list[Text], cache: Path) -> tuple[Tables, dict[str, Any], dict[str, int]]:  # fmt: skip
        options: dict[str, Any] = {"tokens": tokens, "cache": cache, "workers": workers, "progress": progress}
        say("every head on the documents to choose on, then on those to score on")
        heads = CoreferenceHeads(loaded, **options).fit(first)
        found = heads.evaluate(second)
        say("the same with random weights")
        random = CoreferenceHeads(loaded.randomized(seed), **options).fit(first)
        control = random.evaluate(second)
        found = pd.concat([found, control[control["who"] == "head"].assign(who="random")], ignore_index=True)
        wide = _by_kind(heads.scored_.table("antecedents"))
        even = _by_kind(random.scored_.table("antecedents")).drop(columns=["layer", "head"]).mean()
        wide = wide.assign(**{f"{name}_random": value for name, value in even.items()})
        lost = {name: getattr(heads.scored_cut_, name) for name in ("documents", "mentions", "across", "scored", "out_of_reach")}  # fmt: skip
        counted = heads.scored_.table("antecedents_counts").set_index("count")["n"].to_dict()
        by_who = {
            str(who): dict(zip(rows["kind"], rows["accuracy"], strict=True)) for who, rows in found.groupby("who")
        }
        baselines = {name: by_who[name]["all"] for name in ("nearest", "head_match", "rules")}
        result = {
            "heads": _records(wide), "best": _records(found[found["who"] == "head"]), "baselines": baselines, "by_kind": by_who,
            "windows": {"tokens": tokens, **lost}, "mentions": counted,
            "lost": {"mentions whose antecedents lie in other windows": lost["out_of_reach"], "mentions cut off": counted["unseen"], "windows to choose on that were cut": heads.study_.manifest["counts"]["truncated"]},
        }  # fmt: skip
        return {"coreference": found, "coreference_heads": wide}, result, _counts(heads.scored_)

    return _probed("coreference", model, train, test, out, {"tokens": tokens}, read_documents, work, seed=seed, fresh=fresh)  # fmt: skip


def _by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of every head, a column for each kind of mention; as mentions attend to antecedents, and `_from` as antecedents attend to them."""
    parts = []
    for direction, end in (("to", ""), ("from", "_from")):
        rows = table[table["direction"] == direction]
        wide = rows.pivot(index=["layer", "head"], columns="kind", values="accuracy")
        parts.append(wide.reindex(columns=["all", "pronoun", "proper", "common"]).add_suffix(end))
    return pd.concat(parts, axis=1).reset_index().rename_axis(columns=None)


PROBES = ("attention", "attention_words", "right_branching", "previous_word", "distance_words", "random_attention", "random_attention_words")  # fmt: skip


# tried for random weights, whose maps hardly differ, so that no rate is known to serve: the best on held-out sentences is the control
RATES = {"random_attention": (0.01, 0.05, 0.5), "random_attention_words": (0.001, 0.01, 0.05)}


def _held_out(probe: TreeProbe) -> float:
    """The best score that a probe reached on the sentences it held out."""
    return max((row["uas"] or 0.0 for row in getattr(probe, "history_", [])), default=0.0)


def probe_tree(
    model: Any,
    train: Any,
    test: Any = None,
    out: str | Path = "runs/tree",
    *,
    vectors: str | Path | None = None,
    convention: str = "sound",
    cache: str | Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
) -> Experiment:
    """How much of dependency trees attention holds: probes fitted on `train`, scored on `test` (a fifth of `train` if None), beside every baseline.

    `vectors` is a GloVe file; the model's own embedding table if None. Experiments on the same sentences may share a `cache` of attention. The table `tree` has a row a probe: UAS by argmax and by the best tree, with intervals and the difference from the next word as head.
    """

    glove = None if vectors is None else GloveVectors(vectors)

    def work(loaded: Model, first: list[Text], second: list[Text], passes: Path) -> tuple[Tables, dict[str, Any], dict[str, int]]:  # fmt: skip
        known: Vectors = ModelVectors(loaded) if glove is None else glove
        options: dict[str, Any] = {"vectors": known, "convention": convention, "seed": seed, "cache": passes if cache is None else cache, "workers": workers, "progress": progress}  # fmt: skip
        control = loaded.randomized(seed)
        scores, rates = {}, {}
        for name in PROBES:
            say(name.replace("_", " "))
            read, features = control if name.startswith("random_") else loaded, name.removeprefix("random_")
            made = [
                TreeProbe(read, features, learning_rate=rate, **options).fit(first) for rate in RATES.get(name, (None,))
            ]
            best = max(made, key=_held_out)
            scores[name], rates[name] = best.evaluate(second), best.learning_rate
            if not scores[name].scored:
                raise CorpusError("no word of the texts to score on can be scored: all are punctuation or were cut off")
        rows = []
        for name, found in scores.items():
            shares = Shares.of(found.hits, scores["right_branching"].hits, found.counts)
            low, high = shares.interval(0)
            gap, gap_low, gap_high = shares.difference(0, 0)
            tree_low, tree_high = Shares.of(found.tree_hits, found.hits, found.counts).interval(0)
            rows.append({
                "probe": name, "tree_low": tree_low, "tree_high": tree_high, "uas": found.uas, "low": low, "high": high, "tree_uas": found.tree_uas, "difference": gap, "difference_low": gap_low, "difference_high": gap_high,
                "words": found.scored, "texts": shares.texts,
            })  # fmt: skip
        table, told = pd.DataFrame(rows), scores["attention"]
        result = {
            "uas": {name: found.uas for name, found in scores.items()}, "tree_uas": {name: found.tree_uas for name, found in scores.items()}, "rows": _records(table),
            "words": {"scored": told.scored, "punctuation": told.punctuation, "unseen": told.unseen, "headless": told.headless}, "vectors": known.name, "convention": convention,
            "rates": rates, "lost": {"words cut off": told.unseen, "words whose head was cut off": told.headless, "sentences to fit on that were cut": counted(loaded, first)["truncated"]},
        }  # fmt: skip
        return {"tree": table}, result, counted(loaded, second)

    options = {"vectors": glove, "convention": convention}
    return _probed("tree", model, train, test, out, options, sentences, work, seed=seed, fresh=fresh)


def counted(model: Model, texts: Sequence[Text]) -> dict[str, int]:
    """What a pass reads and cuts."""
    out = {"read": len(texts), "analysed": len(texts), "quarantined": 0, "truncated": 0, "tokens": 0, "tokens_cut": 0}
    for start in range(0, len(texts), SHARD):
        for encoded in model.encode(list(enumerate(texts[start : start + SHARD]))):
            out["truncated"] += encoded.cut > 0
            out["tokens"] += len(encoded)
            out["tokens_cut"] += encoded.cut
    return out


WHOLE = ("layer", "head", "offset", "n", "texts", "words", "chosen_n")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain mappings; what is not there is None."""
    return [
        {str(name): None if value != value else int(value) if name in WHOLE else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def _first(table: pd.DataFrame, column: str) -> float | None:
    return float(table[column].iloc[0]) if len(table) and table[column].notna().iloc[0] else None
