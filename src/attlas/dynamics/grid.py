"""A grid of classifiers: one for each attention, encoder, scale and seed, each in a process that has a core to itself.

The texts are numbered once and written beside the cells; workers read them from there. What a cell gave is written when it is done, so that a grid that was stopped goes on with the
cells that are missing, and the tables do not depend on how many workers there were.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from attlas.core.errors import StudyError
from attlas.core.files import replacing, write_json, writing
from attlas.core.intervals import wilson
from attlas.core.machine import versions
from attlas.dynamics.bags import Bags, Numbers
from attlas.dynamics.classifier import AttentionClassifier
from attlas.dynamics.scores import NEGATIVE, NEUTRAL, OTHER, POSITIVE, interpretability, separation
from attlas.dynamics.training import guesses_of
from attlas.studies.engines import one_thread_each

PARTS = ("train", "dev", "test")
CELLS, DATA = "cells", "data"
Tell = Callable[[int, int], None]


@dataclass(frozen=True, order=True)
class Cell:
    """One classifier of a grid."""

    attention: str
    encoder: str
    scale: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.attention}-{self.encoder}-{self.scale!r}-{self.seed}"


@dataclass(frozen=True, eq=False)
class Data:
    """The texts of a grid, numbered: to learn from, to choose the epoch by, to score on."""

    classes: tuple[str, ...]
    bags: Mapping[str, Bags]
    codes: Mapping[str, Numbers]
    rows: Mapping[str, np.ndarray]  # the words of a frozen encoder, by encoder
    states: Mapping[str, np.ndarray]  # the tokens of a frozen model, by part

    def write(self, folder: Path, fingerprint: str) -> None:
        """Arrays a file each, so that workers share the memory of those that are large."""
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        arrays = {f"{part}-{name}": array for part in PARTS for name, array in (("ids", self.bags[part].ids), ("starts", self.bags[part].starts), ("codes", self.codes[part]))}  # fmt: skip
        arrays |= {f"rows-{name}": array for name, array in self.rows.items()}
        arrays |= {f"states-{name}": array for name, array in self.states.items()}
        for name, array in arrays.items():
            with replacing(folder / f"{name}.npy") as file:
                np.save(file, array)
        write_json(folder / "data.json", {"fingerprint": fingerprint, "classes": list(self.classes), "words": list(self.bags["train"].words), "rows": sorted(self.rows), "states": sorted(self.states)})  # fmt: skip

    @classmethod
    def read(cls, folder: Path) -> Data:
        about = json.loads((folder / "data.json").read_text())

        def array(name: str) -> np.ndarray:
            return np.load(folder / f"{name}.npy", mmap_mode="c" if name.startswith(("rows", "states")) else None)

        words = tuple(about["words"])
        bags = {part: Bags(array(f"{part}-ids"), array(f"{part}-starts"), words) for part in PARTS}
        rows, states = ({name: array(f"{kind}-{name}") for name in about[kind]} for kind in ("rows", "states"))
        return cls(tuple(about["classes"]), bags, {part: array(f"{part}-codes") for part in PARTS}, rows, states)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a cell gave: its row, and of the first seed the tables that stand behind it."""

    row: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    tokens: pd.DataFrame | None


def fit_cell(cell: Cell, data: Data, options: Mapping[str, Any], detailed: bool, tell: Tell) -> Fitted:
    """Train one classifier and say how well it does and what its words are to it."""
    own = {**options, "record": options["record"] if detailed else 0}
    classifier = AttentionClassifier(attention=cell.attention, encoder=cell.encoder, scale=cell.scale, seed=cell.seed, **own)  # fmt: skip
    bags = {part: _with_states(data, part, cell.encoder) for part in PARTS}
    with one_thread_each(), threadpool_limits(1, "blas"):
        return _fitted(classifier, cell, bags, data, detailed, tell)


def _fitted(
    classifier: AttentionClassifier, cell: Cell, bags: Mapping[str, Bags], data: Data, detailed: bool, tell: Tell
) -> Fitted:  # fmt: skip
    classifier.fit_bags(bags["train"], data.codes["train"], (bags["dev"], data.codes["dev"]), tell, data.classes, data.rows.get(cell.encoder))  # fmt: skip
    read = classifier.moment_.read(bags["test"])
    right = guesses_of(read.logits) == data.codes["test"]
    accuracy, n = float(right.mean()), len(right)
    low, high = wilson(accuracy, n)
    tokens = classifier.token_table_at(classifier.moment_, bags["train"], bags["test"])
    kinds = tokens["kind"].value_counts().to_dict()
    polar = int(sum(count for kind, count in kinds.items() if kind not in (NEUTRAL, OTHER)))
    two = {"tokens_positive": int(kinds.get(POSITIVE, 0)), "tokens_negative": int(kinds.get(NEGATIVE, 0))} if len(data.classes) == 2 else {}  # fmt: skip
    last = classifier.history_[classifier.history_["epoch"] == classifier.epoch_].iloc[0]
    row = {
        **asdict(cell), "accuracy": accuracy, "accuracy_low": low, "accuracy_high": high, "dev_accuracy": float(last["dev_accuracy"]),
        "majority": float(np.bincount(data.codes["test"]).max() / n), "epoch": classifier.epoch_, **interpretability(tokens, classifier.untrained_),
        "separation_local": separation(tokens, "attention_local").auc if tokens["attention_local"].notna().any() else float("nan"),
        **{name: float(last[name]) for name in ("vw", "v_norm", "w_norm")}, "texts": n, **two, "tokens_polarity": polar, "tokens_neutral": int(kinds.get(NEUTRAL, 0)),
    }  # fmt: skip
    if not detailed:
        return Fitted(row, {}, None)
    which = {name: getattr(cell, name) for name in ("attention", "encoder", "scale")}
    tables = {name: [{**which, **one} for one in frame.to_dict("records")] for name, frame in (("path", classifier.history_), ("kinds", classifier.kinds_), ("flow", classifier.flow_))}  # fmt: skip
    shown = tokens[tokens["kind"] != OTHER]
    columns = ["token", "kind", "count", "gamma", "share", "polarity", "attention_score", "polarity_local", "attention_local", "weight"]  # fmt: skip
    return Fitted(row, tables, shown[columns].assign(**which)[[*which, *columns]].reset_index(drop=True))


def _with_states(data: Data, part: str, encoder: str) -> Bags:
    bags = data.bags[part]
    return Bags(bags.ids, bags.starts, bags.words, np.asarray(data.states[part])) if encoder == "model" else bags


def written(folder: Path, cell: Cell, key: str) -> Fitted | None:
    """What a cell gave in an earlier run with the same texts and settings; None if there is none."""
    try:
        found = json.loads((folder / f"{cell.name}.json").read_text())
        if found["key"] != key:
            return None
        tokens = pd.read_parquet(folder / f"{cell.name}-{key[:16]}.parquet") if found["detailed"] else None
    except (OSError, ValueError, KeyError):
        return None
    return Fitted(found["row"], found["tables"], tokens)


def write(folder: Path, cell: Cell, key: str, fitted: Fitted) -> None:
    """The table first and the row last, so that a row means that all is there."""
    if fitted.tokens is not None:
        with replacing(folder / f"{cell.name}-{key[:16]}.parquet") as file:
            fitted.tokens.to_parquet(file, index=False)
    write_json(folder / f"{cell.name}.json", {"key": key, "row": fitted.row, "tables": fitted.tables, "detailed": fitted.tokens is not None})  # fmt: skip


def run_grid(
    folder: Path, data: Callable[[], Data], cells: Sequence[Cell], options: Mapping[Cell, Mapping[str, Any]], fingerprint: str, workers: int, tell: Tell
) -> dict[Cell, Fitted]:  # fmt: skip
    """Train every cell that is not there yet, each with its options; `data` makes the texts if there is one; `tell` hears how many epochs are done, of how many, over all cells."""
    place = folder / CELLS
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    first = min(cell.seed for cell in cells)
    jobs = {cell: _job(cell, options[cell], fingerprint, cell.seed == first) for cell in cells}
    done = {cell: found for cell in cells if (found := written(place, cell, jobs[cell]["key"])) is not None}
    missing = [jobs[cell] for cell in cells if cell not in done]
    total = sum(int(job["options"]["epochs"]) for job in jobs.values())
    counted = _Counted(tell, total, total - sum(int(job["options"]["epochs"]) for job in missing))
    if missing:
        made = _prepared(place / DATA, data, fingerprint)
        if workers == 1 or len(missing) == 1:
            for job in missing:
                fit_job(place, job, counted.of(job), made)
                counted.of(job)(job["options"]["epochs"], 0)
        else:
            _in_processes(place, missing, min(workers, len(missing)), counted)
    for cell, job in jobs.items():
        if cell not in done:
            found = written(place, cell, job["key"])
            if found is None:
                raise StudyError(f"the cell {cell.name} was not written; run the same command again")
            done[cell] = found
    return {cell: done[cell] for cell in cells}


def _prepared(folder: Path, make: Callable[[], Data], fingerprint: str) -> Data:
    """The numbered texts of a grid: found again if an earlier run left them, else made and written."""
    try:
        if json.loads((folder / "data.json").read_text())["fingerprint"] == fingerprint:
            return Data.read(folder)
    except (OSError, ValueError, KeyError):
        pass
    data = make()
    data.write(folder, fingerprint)
    return data


def _job(cell: Cell, options: Mapping[str, Any], fingerprint: str, detailed: bool) -> dict[str, Any]:
    """What a worker is told of a cell; the key says by what its result can be known again."""
    key = hashlib.sha256(
        json.dumps([fingerprint, asdict(cell), sorted(options.items()), detailed, versions()], default=str).encode()
    ).hexdigest()
    return {
        "cell": asdict(cell),
        "options": {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()},
        "detailed": detailed,
        "key": key,
    }


def fit_job(folder: Path, job: Mapping[str, Any], tell: Tell, data: Data) -> None:
    """Train one cell of a grid and write what it gave."""
    cell = Cell(**job["cell"])
    write(folder, cell, job["key"], fit_cell(cell, data, job["options"], job["detailed"], tell))


class _Counted:
    """Epochs of all cells, told as one number."""

    def __init__(self, tell: Tell, total: int, before: int) -> None:
        self.tell, self.total, self.before = tell, total, before
        self.each: dict[str, int] = {}
        self.lock = threading.Lock()
        tell(before, total)

    def of(self, job: Mapping[str, Any]) -> Tell:
        """What one cell tells."""
        name, epochs = json.dumps(job["cell"]), int(job["options"]["epochs"])

        def told(done: int, _: int) -> None:
            with self.lock:
                self.each[name] = min(done, epochs)
                self.tell(self.before + sum(self.each.values()), self.total)

        return told


def _in_processes(folder: Path, jobs: Iterable[Mapping[str, Any]], workers: int, counted: _Counted) -> None:  # fmt: skip
    """Hand jobs to processes of one core each, one at a time; the first that fails stops all."""
    waiting: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    problems: list[str] = []
    processes = [_start(folder) for _ in range(workers)]

    def drive(process: subprocess.Popen[str]) -> None:
        stdin, stdout = _pipes(process)
        while not problems:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            told, epochs = counted.of(job), int(job["options"]["epochs"])
            try:
                stdin.write(json.dumps(job) + "\n")
                stdin.flush()
                for line in stdout:
                    said = json.loads(line)
                    if "error" in said:
                        problems.append(said["error"])
                        break
                    told(said.get("epoch", epochs), epochs)
                    if said.get("done"):
                        break
                else:
                    raise BrokenPipeError
            except (BrokenPipeError, ValueError):
                process.kill()
                problems.append(f"a worker ended while it trained {Cell(**job['cell']).name} (exit code {process.wait()}); run the same command again: it goes on where it stopped")  # fmt: skip

    threads = [threading.Thread(target=drive, args=(process,), daemon=True) for process in processes]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not problems:
                thread.join(0.05)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
            for pipe in _pipes(process):
                with suppress(OSError):
                    pipe.close()
    if problems:
        raise StudyError(problems[0])


def _start(folder: Path) -> subprocess.Popen[str]:
    """A process that trains the cells it is told; it ends when nobody listens any more."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "attlas.dynamics.worker", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)  # fmt: skip


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def assembled(cells: Mapping[Cell, Fitted]) -> dict[str, pd.DataFrame]:
    """The tables of a grid, in the order of its cells."""
    rows = pd.DataFrame([found.row for found in cells.values()])
    out = {"dynamics": rows, "dynamics_summary": summary(rows)}
    tokens = [found.tokens for found in cells.values() if found.tokens is not None]
    out["dynamics_tokens"] = pd.concat(tokens, ignore_index=True)
    for name in ("path", "kinds", "flow"):
        each = [one for found in cells.values() for one in found.tables.get(name, [])]
        if each:
            out[f"dynamics_{name}"] = pd.DataFrame(each)
    return out


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each attention, encoder and scale: means and deviations over seeds; the ends of intervals are means, too, those of the gap the smallest and the largest."""
    out = []
    for (attention, encoder, scale), group in rows.groupby(["attention", "encoder", "scale"], sort=False):
        row: dict[str, Any] = {"attention": attention, "encoder": encoder, "scale": scale, "seeds": len(group)}
        for name in ("accuracy", "separation", "gap"):
            row |= {name: group[name].mean(), f"{name}_sd": group[name].std()}
        for name in ("accuracy_low", "accuracy_high", "separation_low", "separation_high"):
            row[name] = group[name].mean()
        row |= {"gap_size": group["gap"].abs().mean(), "gap_low": group["gap"].min(), "gap_high": group["gap"].max()}
        for name in ("majority", "dev_accuracy", "separation_untrained", "separation_count", "separation_frequent", "separation_least", "separation_local", "polarity_auc"):  # fmt: skip
            row[name] = group[name].mean()
        out.append(row)
    return pd.DataFrame(out)
