"""study: one streaming pass of a corpus through a model, into tables on disk."""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.annotations import WHERE
from attlas.core.measure import BACKWARD, Measure, union_of_needs
from attlas.core.states import State
from attlas.core.text import Text
from attlas.corpora import Corpus, read
from attlas.models import Model, load
from attlas.models.differentiate import check_loss
from attlas.models.encode import BUDGET_CELLS, BUDGET_TOKENS
from attlas.studies.engines import Engine, Task, engine_of
from attlas.studies.folder import QUARANTINE, SOURCE, TABLES, Folder
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
from attlas.studies.store import ShardStore, arrow, write_parquet, write_quarantine
from attlas.support.errors import StudyError
from attlas.support.files import write_errors
from attlas.support.fingerprint import Fingerprint, fingerprint, source_digest, versions
from attlas.support.progress import Report, progress_bar

STUDY = "study"


def study(
    model: Any,
    texts: Any,
    measures: Iterable[Measure[Any]],
    out: str | Path | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    long: str = "truncate",
    bad: str = "quarantine",
    fresh: bool = False,
    keep_states: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Study:
    """Run measures over a corpus: `attlas.study`, with measures that are objects already."""
    for name, value, choices in (
        ("long", long, ("truncate", "error")),
        ("bad", bad, ("quarantine", "error")),
    ):
        if value not in choices:
            raise StudyError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
    chosen = list(measures)
    corpus = read(texts)
    found = survey(corpus, bad)
    model = load(model, task="auto")
    check_measures(model, chosen, found.labels)
    if long == "error":
        _refuse_long(model, corpus)
    chosen_engine = engine_of(engine, workers, model.device)

    def go(folder: Path) -> Study:
        with progress_bar("reading attention", wanted=progress) as report:
            return _Run(model, corpus, chosen, folder, found, seed, keep_states).go(
                chosen_engine, fresh, report
            )

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
    """A model and texts, each with its fingerprint: known once, read by many passes.

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
    in_memory = not isinstance(inputs.texts, Corpus)
    corpus = (
        inputs.texts if isinstance(inputs.texts, Corpus) else Corpus("texts", lambda: inputs.texts)
    )
    chosen = engine_of(engine, workers, inputs.model.device)
    with progress_bar("reading attention", wanted=progress) as report:
        known = _Known(inputs.parts, in_memory)
        run = _Run(inputs.model, corpus, list(measures), folder, inputs.survey, 0, False, known)
        return run.go(chosen, False, report)


@dataclass(frozen=True)
class _Known:
    """What need not be hashed by a pass: the parts of the model's identity, texts in memory."""

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

    def __post_init__(self) -> None:
        self.place = Folder(self.folder, STUDY)
        self.shards = ShardStore(self.place.states)
        slow = "network" in union_of_needs(self.measures)
        self.cut = (COSTLY_TEXTS, COSTLY_CHARACTERS) if slow else (SHARD_TEXTS, SHARD_CHARACTERS)

    def go(self, engine: Engine, fresh: bool, report: Report) -> Study:
        began = time.perf_counter()
        self.model.n_layers  # noqa: B018  a model without attention is refused before anything is written
        parts = self.model.identity() if self.known.model is None else self.known.model
        identity = self.identity(parts)
        with self.place.claim(identity, fresh, {"model": parts}, **self.describe(parts)) as found:
            if found is not None:
                report(self.survey.rows, self.survey.rows)
                return Study(self.folder, found)
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
        }

    def run_shards(self, engine: Engine, report: Report, made_from: str) -> int:
        """Run what is not there yet; how many shards there are."""
        lock, done, count, whole = threading.Lock(), 0, 0, Fingerprint()

        def tell(rows: int) -> None:
            nonlocal done
            with lock:
                done += rows
                report(done, self.survey.rows)

        def tasks() -> Iterator[Task]:
            nonlocal count
            for shard in shards(self.corpus, *self.cut, None if self.known.texts else whole):
                count += 1
                key = fingerprint(("shard", made_from, shard.index, shard.rows))
                if self.shards.find(shard.index, key):
                    tell(shard.n_rows)
                else:
                    yield from ShardJob(
                        self.model, self.measures, self.shards, shard, key, tell
                    ).tasks()

        tell(0)
        engine.run(tasks())
        if not self.known.texts and str(whole) != self.survey.digest:
            raise StudyError(
                f"{self.corpus.name} changed while it was read; run the same command again"
            )
        return count

    def finish(self, count: int, began: float) -> None:
        """Merge the shards in order, write the tables, then say that the study is complete."""
        about: dict[str, dict[str, Any]] = {}
        with self.place.staging() as stage, write_errors(self.folder):
            tables = stage / TABLES
            tables.mkdir()
            for name in self.shards.tables(count):
                rows = write_parquet(tables / f"{name}.parquet", self.shards.parts(count, name))
                about[name] = {"rows": rows, "kind": "text"}
            for name, (frame, measure) in self._frames(count).items():
                if name not in about and len(
                    frame.columns
                ):  # rows of texts, of which there were none
                    rows = write_parquet(tables / f"{name}.parquet", [arrow(frame)])
                    kind = table_kind(frame, self.model.n_layers, self.model.n_heads)
                    about[name] = {"rows": rows, "kind": kind, "measure": measure}
            counts: Counter[str] = Counter()
            for index in range(count):
                counts.update(self.shards.record(index)["counts"])
            excluded = (
                row for index in range(count) for row in self.shards.record(index)["quarantine"]
            )
            write_quarantine(stage / QUARANTINE, excluded)
            end = {
                "counts": dict(counts),
                "tables": about,
                "seconds": round(time.perf_counter() - began, 3),
            }
            self.place.publish(stage, end, self.keep_states)

    def _frames(self, count: int) -> dict[str, tuple[pd.DataFrame, str]]:
        """The tables of all measures over all shards, and what follows from them; each with its measure."""
        merged = self._merged(count)
        found = {
            name: (frame, one.name)
            for one, state in merged
            for name, frame in one.result(state).items()
        }
        tables = {name: frame for name, (frame, _) in found.items()}
        for one, _ in merged:
            found |= {name: (frame, one.name) for name, frame in one.conclude(tables).items()}
        return found

    def _merged(self, count: int) -> list[tuple[Measure[Any], State]]:
        """The states of all measures over all shards, merged in order."""
        merged: dict[str, State] = {
            measure.name: measure.start(self.model) for measure in self.measures
        }
        for index in range(count):
            arrays = self.shards.arrays(index)
            for measure in self.measures:
                start = f"{measure.name}/"
                own = {
                    name.removeprefix(start): array
                    for name, array in arrays.items()
                    if name.startswith(start)
                }
                merged[measure.name] = measure.merge(
                    merged[measure.name], measure.start(self.model).restored(own)
                )
        return [(measure, merged[measure.name]) for measure in self.measures]


def about_model(model: Model, weights: str) -> dict[str, Any]:
    """What a manifest says of a model; `weights` is the digest of its weights as they are in memory."""
    return {
        "name": model.name,
        "class": type(model.network).__name__,
        "task": model.task,
        "n_layers": model.n_layers,
        "n_heads": model.n_heads,
        "max_length": model.max_length,
        "banded": model.banded,
        "sha256": weights,
        "state_sha256": weights,
        "file_sha256": model.file_sha256,
        **({} if model.note is None else {"note": model.note}),
    }


def table_kind(frame: pd.DataFrame, n_layers: int, n_heads: int) -> str:
    """`head` for a table with one row for each head, else `other`."""
    heads = (
        list(frame.columns[:2]) == ["layer", "head"]
        and len(frame) == n_layers * n_heads
        and not frame.duplicated(["layer", "head"]).any()
    )
    return "head" if heads else "other"


def _refuse_long(model: Model, corpus: Corpus) -> None:
    for shard in shards(corpus):
        for encoded in model.encode(shard.texts):
            if encoded.cut:
                where = encoded.text.annotations.get(WHERE, f"text {encoded.text.id}")
                raise StudyError(
                    f"{where}: it has {len(encoded) + encoded.cut} tokens, but the model takes {model.max_length}; shorten it, or let it be cut with long='truncate' (--long truncate)"
                )
