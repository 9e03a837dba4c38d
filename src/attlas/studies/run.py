"""study: one streaming pass of a corpus through a model, into tables on disk."""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from attlas.core.errors import StudyError
from attlas.core.measure import Measure
from attlas.core.states import State
from attlas.corpora import Corpus, read
from attlas.measures import measures_of
from attlas.models import Model, load
from attlas.studies import store
from attlas.studies.engines import Engine, Task, engine_of
from attlas.studies.job import ShardJob
from attlas.studies.opened import Study
from attlas.studies.progress import Report, progress_bar
from attlas.studies.shards import SHARD_CHARACTERS, SHARD_TEXTS, Survey, shards, survey


def study(
    model: Any = None,
    texts: Any = "embedded:all",
    measures: str | Measure[Any] | Iterable[str | Measure[Any]] = "all",
    out: str | Path | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    text: str | None = None,
    label: str | None = None,
    long: str = "truncate",
    bad: str = "quarantine",
    fresh: bool = False,
    keep_states: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Study:
    """Run measures over a corpus and write their tables to `out`; run again after a crash, it goes on.

    `model` is anything `attlas.load` takes, `texts` anything `attlas.read` takes. A text longer than the model is cut and counted, or refused
    with `long="error"`; a row that is no text goes to quarantine, or ends the study with `bad="error"`. `fresh` throws away what another
    study left in the folder. Without `out` the study lives in a temporary folder as long as the result does.
    """
    for name, value, choices in (("long", long, ("truncate", "error")), ("bad", bad, ("quarantine", "error"))):
        if value not in choices:
            raise StudyError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
    chosen = measures_of(measures)
    corpus = read(texts, text=text, label=label)
    found = survey(corpus, bad)
    model = load(model)
    if long == "error":
        _refuse_long(model, corpus)
    temporary = out is None
    out = tempfile.mkdtemp(prefix="attlas-") if out is None else out
    folder = Path(out).expanduser()
    run = _Run(model, corpus, chosen, folder, found, seed, keep_states)
    with progress_bar(progress) as report:
        done = run.go(engine_of(engine, workers, model.device), fresh, report)
    if temporary:
        weakref.finalize(done, shutil.rmtree, folder, ignore_errors=True)
    return done


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

    def __post_init__(self) -> None:
        self.shards = store.ShardStore(self.folder / store.STATES)

    def go(self, engine: Engine, fresh: bool, report: Report) -> Study:
        began = time.perf_counter()
        self.model.n_layers  # noqa: B018  a model without attention is refused before anything is written
        identity = self.identity()
        manifest = None if fresh else store.read_manifest(self.folder)
        if fresh and self.folder.exists():
            _own_or_empty(self.folder)
        if manifest is not None:
            _same_study(self.folder, manifest.get("identity", {}), identity)
            if manifest.get("status") == "complete":
                report(self.survey.rows, self.survey.rows)
                return Study.open(self.folder)
        with store.claimed(self.folder):
            if fresh:
                store.clear(self.folder)
            with store.writing(self.folder):
                self.shards.folder.mkdir(exist_ok=True)
            self.shards.clear_unfinished()
            before = float(manifest.get("seconds", 0)) if manifest else 0.0
            content = self.describe(identity)
            store.write_json(self.folder / store.MANIFEST, {"status": "running", **content, "seconds": before})
            count = self.run_shards(engine, report)
            self.finish(count, content, began, before)
        return Study.open(self.folder)

    def identity(self) -> dict[str, Any]:
        """What must be the same for a study to be gone on with."""
        return {
            "weights": self.model.weights_sha256(),
            "max_length": self.model.max_length,
            "corpus": self.survey.digest,
            "measures": {measure.name: repr(measure) for measure in self.measures},
            "shard": [SHARD_TEXTS, SHARD_CHARACTERS],
            "seed": self.seed,
            "versions": {
                "attlas": version("attlas"),
                "torch": torch.__version__,
                "transformers": version("transformers"),
            },
        }

    def describe(self, identity: dict[str, Any]) -> dict[str, Any]:
        model = self.model
        return {
            "model": {
                "name": model.name, "class": type(model.network).__name__, "task": model.task, "n_layers": model.n_layers, "n_heads": model.n_heads,
                "max_length": model.max_length, "banded": model.banded, "sha256": model.file_sha256 or identity["weights"], "state_sha256": identity["weights"],
            },
            "corpus": {"name": self.corpus.name, "fingerprint": self.survey.digest, "labels": self.survey.labels},
            "measures": identity["measures"],
            "seed": self.seed,
            "versions": {**identity["versions"], "python": platform.python_version(), "numpy": np.__version__},
            "identity": identity,
        }  # fmt: skip

    def run_shards(self, engine: Engine, report: Report) -> int:
        """Run what is not there yet; how many shards there are."""
        lock, done, count = threading.Lock(), 0, 0

        def tell(rows: int) -> None:
            nonlocal done
            with lock:
                done += rows
                report(done, self.survey.rows)

        def tasks() -> Iterator[Task]:
            nonlocal count
            for shard in shards(self.corpus):
                count += 1
                if self.shards.has(shard.index):
                    tell(shard.n_rows)
                else:
                    yield from ShardJob(self.model, self.measures, self.shards, shard, tell).tasks()

        tell(0)
        engine.run(tasks())
        return count

    def finish(self, count: int, content: dict[str, Any], began: float, before: float) -> None:
        """Merge the shards in order, write the tables, then say that the study is complete."""
        beside, place = self.folder / f"{store.TABLES}.tmp", self.folder / store.TABLES
        records = [self.shards.record(index) for index in range(count)]
        with store.writing(place):
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            about = {}
            streamed = self.shards.tables(count)
            for name in streamed:
                about[name] = {
                    "rows": store.write_parquet(beside / f"{name}.parquet", self.shards.parts(count, name)),
                    "kind": "text",
                }
            for measure in self.measures:
                for name, frame in measure.result(self._merged(measure, count)).items():
                    if name not in streamed:
                        about[name] = {
                            "rows": store.write_parquet(beside / f"{name}.parquet", [store.arrow(frame)]),
                            "kind": _kind(frame, self.model),
                        }
                        about[name]["measure"] = measure.name
            shutil.rmtree(place, ignore_errors=True)
            beside.rename(place)
        quarantine = [row for record in records for row in record["quarantine"]]
        store.write_bytes(
            self.folder / store.QUARANTINE,
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in quarantine).encode(
                "utf-8", "backslashreplace"
            ),
        )
        counts = {name: sum(record["counts"][name] for record in records) for name in records[0]["counts"]}
        seconds = before + time.perf_counter() - began
        store.write_json(
            self.folder / store.MANIFEST,
            {"status": "complete", **content, "counts": counts, "tables": about, "seconds": round(seconds, 3)},
        )
        if not self.keep_states:
            shutil.rmtree(self.shards.folder)

    def _merged(self, measure: Measure[Any], count: int) -> State:
        merged = measure.start(self.model)
        start = f"{measure.name}/"
        for index in range(count):
            arrays = {
                name.removeprefix(start): array
                for name, array in self.shards.arrays(index).items()
                if name.startswith(start)
            }
            merged = measure.merge(merged, measure.start(self.model).restored(arrays))
        return merged


def _kind(frame: pd.DataFrame, model: Model) -> str:
    """`head` for a table with one row for each head, else `other`."""
    heads = (
        list(frame.columns[:2]) == ["layer", "head"]
        and len(frame) == model.n_layers * model.n_heads
        and not frame.duplicated(["layer", "head"]).any()
    )
    return "head" if heads else "other"


def _own_or_empty(folder: Path) -> None:
    """Refuse to clear a folder that is not a study's."""
    if not (folder / store.MANIFEST).is_file():
        store.read_manifest(folder)


def _same_study(folder: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    differ = [name for name in ours if theirs.get(name) != ours[name]]
    if differ:
        raise StudyError(
            f"{folder} belongs to another study (its {', '.join(differ)} differ); choose another folder, or pass fresh=True (--fresh) to throw it away"
        )


def _refuse_long(model: Model, corpus: Corpus) -> None:
    for shard in shards(corpus):
        for encoded in model.encode(shard.texts):
            if encoded.cut:
                where = encoded.text.annotations.get("where", f"text {encoded.text.id}")
                raise StudyError(
                    f"{where}: it has {len(encoded) + encoded.cut} tokens, but the model takes {model.max_length}; shorten it, or let it be cut with long='truncate' (--long truncate)"
                )
