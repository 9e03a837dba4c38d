"""study: one streaming pass of a corpus through a model, into tables on disk."""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.annotations import WHERE
from attlas.core.measure import BACKWARD, Measure, union_of_needs
from attlas.core.states import State, below
from attlas.core.text import Text
from attlas.corpora import Corpus, read
from attlas.models import Model, load
from attlas.models.differentiate import check_loss
from attlas.models.encode import BUDGET_CELLS, BUDGET_TOKENS
from attlas.studies.engines import Engine, Task, engine_of
from attlas.studies.folder import SOURCE, TABLES, Folder
from attlas.studies.named import OPENED_FROM, STUDY, Named
from attlas.studies.opened import Study, in_folder
from attlas.studies.shard_job import LANES, ShardJob
from attlas.studies.shards import (
    COSTLY_CHARACTERS,
    COSTLY_TEXTS,
    SHARD_CHARACTERS,
    SHARD_TEXTS,
    Survey,
    shards,
    survey,
)
from attlas.studies.stopping import Stopping
from attlas.studies.store import ShardStore, arrow, write_parquet, write_quarantine
from attlas.support.errors import StudyError
from attlas.support.files import write_errors
from attlas.support.fingerprint import Fingerprint, fingerprint, source_digest, versions
from attlas.support.options import check_fields, option, until_option
from attlas.support.progress import Report, progress_bar


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How a study is run; see `attlas.study`."""

    engine: str = "local"
    workers: int | None = None
    long: str = option("truncate", "Texts that are too long.", choices=("truncate", "error"))
    bad: str = option("quarantine", "Rows that are not texts.", choices=("quarantine", "error"))
    fresh: bool = False
    keep_states: bool = False
    seed: int = 0
    progress: bool | None = None
    until: float | None = until_option()

    def __post_init__(self) -> None:
        check_fields(self, StudyError)


def study(
    model: Any,
    texts: Any,
    measures: Iterable[Measure[Any]],
    out: str | Path | None = None,
    named: Callable[[], Named | None] = lambda: None,
    **options: Any,
) -> Study:
    """Run measures over a corpus as `attlas.study` does, with `StudyOptions`.

    `named` is what a command names, by which it finds the finished study again.
    """
    before = named()
    how, chosen, corpus = StudyOptions(**options), list(measures), read(texts)
    surveyed = survey(corpus, how.bad)
    model = load(model, task="auto")
    check_measures(model, chosen, surveyed.labels)
    if how.long == "error":
        refuse_long(model, corpus)
    engine = engine_of(how.engine, how.workers, model.device)

    def go(folder: Path) -> Study:
        with progress_bar("reading attention", wanted=how.progress) as report:
            run = _Run(
                model, corpus, chosen, folder, surveyed, how.seed, how.keep_states, until=how.until
            )
            run.named = named()
            if run.named != before:
                raise StudyError("an input changed while it was read; run the same command again")
            return run.go(engine, how.fresh, report)

    return in_folder(out, go)


def check_measures(
    model: Model, measures: Sequence[Measure[Any]], labels: Mapping[str, int]
) -> None:
    """Refuse measures that this model and these labels cannot serve."""
    needs = union_of_needs(measures)
    if "loss" in needs or (needs & BACKWARD and model.task != "base"):
        check_loss(model, labels)
    for measure in measures:
        measure.check(model, labels)


@dataclass(frozen=True)
class Hashed:
    """A model and texts with their fingerprints, for many passes.

    Rows of a corpus, which may change on disk, are hashed again as they are read; texts in memory
    are not.
    """

    model: Model
    parts: Mapping[str, str]  # of the model's identity
    texts: Sequence[Text] | Corpus
    survey: Survey


def pass_over(
    inputs: Hashed,
    measures: Sequence[Measure[Any]],
    folder: Path,
    *,
    engine: str = "local",
    workers: int | None = None,
    progress: bool | None = None,
) -> Study:
    """A study of a model and texts whose fingerprints are known."""
    check_measures(inputs.model, measures, inputs.survey.labels)
    texts = inputs.texts
    corpus = texts if isinstance(texts, Corpus) else Corpus("texts", lambda: texts)
    chosen = engine_of(engine, workers, inputs.model.device)
    with progress_bar("reading attention", wanted=progress) as report:
        known = _Known(inputs.parts, texts=corpus is not texts)
        run = _Run(inputs.model, corpus, list(measures), folder, inputs.survey, 0, False, known)
        return run.go(chosen, False, report)


@dataclass(frozen=True)
class _Known:
    """What a pass need not hash: the parts of the model's identity, texts in memory."""

    model: Mapping[str, str] | None = None
    texts: bool = False


@dataclass
class _Run:
    """One study under way."""

    model: Model
    corpus: Corpus
    measures: list[Measure[Any]]
    folder: Path
    survey: Survey
    seed: int
    keep_states: bool
    known: _Known = _Known()
    until: float | None = None
    named: Named | None = None

    def __post_init__(self) -> None:
        self.results = Folder(self.folder, STUDY)
        self.shards = ShardStore(self.results.states)
        self.stopping: Stopping | None = None
        slow = "network" in union_of_needs(self.measures) or self.until is not None
        self.cut = (COSTLY_TEXTS, COSTLY_CHARACTERS) if slow else (SHARD_TEXTS, SHARD_CHARACTERS)

    def go(self, engine: Engine, fresh: bool, report: Report) -> Study:
        began = time.perf_counter()
        self.model.n_layers  # noqa: B018  refuses a model without attention before writing
        if self.until is not None:
            self.stopping = Stopping(self.until, self.model, self.measures, self.shards)
        parts = self.model.identity() if self.known.model is None else self.known.model
        identity = self.identity(parts)
        about = self.describe(parts)
        with self.results.claim(identity, fresh, {"model": parts}, **about) as finished:
            if finished is not None:
                report(self.survey.rows, self.survey.rows)
                return Study(self.folder, finished)
            count = self.run_shards(engine, report, fingerprint(identity))
            self.finish(count, began)
        return Study.open(self.folder)

    def identity(self, model: Mapping[str, str]) -> dict[str, str]:
        """What must be the same for a study to be resumed: each input with its fingerprint."""
        return {
            "model": fingerprint(model),
            "corpus": self.survey.digest,
            "measures": fingerprint({measure.name: measure for measure in self.measures}),
            "cut": fingerprint([*self.cut, LANES, BUDGET_TOKENS, BUDGET_CELLS]),
            "seed": fingerprint(self.seed),
            **({} if self.until is None else {"until": fingerprint(self.until)}),
            SOURCE: source_digest(),
        }

    def describe(self, model: Mapping[str, str]) -> dict[str, Any]:
        return {
            "model": about_model(self.model, model["weights"]),
            "corpus": {
                "name": self.corpus.name,
                "fingerprint": self.survey.digest,
                "labels": self.survey.labels,
            },
            "measures": {measure.name: repr(measure) for measure in self.measures},
            "seed": self.seed,
            "versions": {**versions(), "python": platform.python_version()},
            **({} if self.named is None else {OPENED_FROM: dict(self.named)}),
        }

    def run_shards(self, engine: Engine, report: Report, made_from: str) -> int:
        """Run the shards that are missing; return the number of those that count.

        When enough were read, the other rows are only hashed.
        """
        lock, finished, count, whole = threading.Lock(), 0, 0, Fingerprint()
        stopping = self.stopping

        def on_progress(rows: int) -> None:
            nonlocal finished
            with lock:
                finished += rows
                report(finished, self.survey.rows)

        def tasks() -> Iterator[Task]:
            nonlocal count
            for shard in shards(self.corpus, *self.cut, None if self.known.texts else whole):
                if stopping is not None and stopping.is_enough():
                    continue
                count += 1
                key = fingerprint(("shard", made_from, shard.index, shard.rows))
                if self.shards.find(shard.index, key):
                    on_progress(shard.n_rows)
                else:
                    inputs = (self.model, self.measures, self.shards)
                    yield from ShardJob(*inputs, shard, key, on_progress).tasks()

        on_progress(0)
        engine.run(tasks())
        if not self.known.texts and str(whole) != self.survey.digest:
            raise StudyError(
                f"{self.corpus.name} changed while it was read; run the same command again"
            )
        return stopping.shards if stopping is not None and stopping.is_enough() else count

    def finish(self, count: int, began: float) -> None:
        """Merge the shards in order, write the tables, then the manifest of a complete study."""
        about: dict[str, dict[str, Any]] = {}
        with self.results.staging() as stage, write_errors(self.folder):
            tables = stage / TABLES
            tables.mkdir()
            for name in self.shards.tables(count):
                rows = write_parquet(tables / f"{name}.parquet", self.shards.parts(count, name))
                about[name] = {"rows": rows, "kind": "text"}
            for name, (frame, measure) in self._frames(count).items():
                if name not in about and len(frame.columns):  # a streamed one without rows has none
                    rows = write_parquet(tables / f"{name}.parquet", [arrow(frame)])
                    kind = table_kind(frame, self.model.n_layers, self.model.n_heads)
                    about[name] = {"rows": rows, "kind": kind, "measure": measure.name}
                    if kind == "head" and not type(measure).__module__.startswith("attlas."):
                        about[name]["own"] = _about_own(measure)
            counts: Counter[str] = Counter()
            for index in range(count):
                counts.update(self.shards.record(index)["counts"])
            excluded = (
                row for index in range(count) for row in self.shards.record(index)["quarantine"]
            )
            write_quarantine(stage, excluded)
            end = {
                "counts": dict(counts),
                "tables": about,
                "seconds": round(time.perf_counter() - began, 3),
            }
            if self.stopping is not None:
                end["until"] = self.stopping.describe(self.survey.rows)
            self.results.publish(stage, end, self.keep_states)

    def _frames(self, count: int) -> dict[str, tuple[pd.DataFrame, Measure[Any]]]:
        """The tables of all measures, and those derived from them, each with its measure."""
        merged = self._merged(count)
        frames = {
            name: (frame, one) for one, state in merged for name, frame in one.result(state).items()
        }
        tables = {name: frame for name, (frame, _) in frames.items()}
        for one, _ in merged:
            frames |= {name: (frame, one) for name, frame in one.derive(tables).items()}
        return frames

    def _merged(self, count: int) -> list[tuple[Measure[Any], State]]:
        """The states of all measures over all shards, merged in order."""
        merged: dict[str, State] = {one.name: one.start(self.model) for one in self.measures}
        for index in range(count):
            arrays = self.shards.arrays(index)
            for measure in self.measures:
                own = measure.start(self.model).restored(below(f"{measure.name}/", arrays))
                merged[measure.name] = measure.merge(merged[measure.name], own)
        return [(measure, merged[measure.name]) for measure in self.measures]


def _about_own(measure: Measure[Any]) -> dict[str, Any]:
    """What a report says of a measure that is not one of Attlas."""
    first = (type(measure).__doc__ or "").strip().partition("\n")[0]
    generated = first.startswith(f"{type(measure).__name__}(")  # of a dataclass without one
    return {"question": "" if generated else first, "kinds": dict(measure.kinds)}


def about_model(model: Model, weights: str) -> dict[str, Any]:
    """The model's part of a manifest; `weights` is the digest of its weights in memory."""
    return {
        "name": model.name,
        "class": type(model.network).__name__,
        "task": model.task,
        "n_layers": model.n_layers,
        "n_heads": model.n_heads,
        "max_length": model.max_length,
        "banded": model.banded,
        "compared_tokens": model.compared_tokens,
        "sha256": weights,
        "state_sha256": weights,
        "file_sha256": model.file_sha256,
        **({} if model.note is None else {"note": model.note}),
        **({} if model.lens == "weights" else {"lens": model.lens}),
    }


def table_kind(frame: pd.DataFrame, n_layers: int, n_heads: int) -> str:
    """`head` for a table with one row for each head, else `other`."""
    heads = (
        list(frame.columns[:2]) == ["layer", "head"]
        and len(frame) == n_layers * n_heads
        and not frame.duplicated(["layer", "head"]).any()
    )
    return "head" if heads else "other"


def refuse_long(model: Model, corpus: Corpus) -> None:
    """Refuse a text that is longer than the model takes."""
    for shard in shards(corpus):
        for encoded in model.encode(shard.texts):
            if encoded.truncated_by:
                where = encoded.text.annotations.get(WHERE, f"text {encoded.text.id}")
                raise StudyError(
                    f"{where}: it has {len(encoded) + encoded.truncated_by} tokens, but the model "
                    f"takes {model.max_length}; shorten it, or pass long='truncate' "
                    "(--long truncate)"
                )
