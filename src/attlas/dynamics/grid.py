"""A grid of classifiers: one per attention, encoder, scale and seed, each on a core of its own.

The texts are numbered once and written as an entry of the folder's states, from which workers
read them. Each cell is an entry too, under the fingerprint of everything it was made from: an
interrupted grid resumes with the cells that are missing, a damaged cell is trained again, and the
tables do not depend on the number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.classifier import AttentionClassifier
from attlas.dynamics.ragged import Bags, Numbers
from attlas.dynamics.scores import NEGATIVE, NEUTRAL, OTHER, POSITIVE, interpretability, separation
from attlas.dynamics.training import guesses_of
from attlas.stats.intervals import interval_over_seeds, wilson
from attlas.studies.folder import States
from attlas.support.errors import StudyError
from attlas.support.files import atomic_write, write_json
from attlas.support.fingerprint import fingerprint
from attlas.support.machine import one_thread
from attlas.support.processes import run_in_processes

PARTS = ("train", "dev", "test")
ROW, TOKENS, ABOUT = "cell.json", "tokens.parquet", "data.json"
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

    def write(self, folder: Path) -> None:
        """Write one file per array, so that workers share the memory of those that are large."""
        arrays = {f"{part}-{name}": array for part in PARTS for name, array in (("ids", self.bags[part].ids), ("starts", self.bags[part].starts), ("codes", self.codes[part]))}  # fmt: skip
        arrays |= {f"rows-{name}": array for name, array in self.rows.items()}
        arrays |= {f"states-{name}": array for name, array in self.states.items()}
        for name, array in arrays.items():
            with atomic_write(folder / f"{name}.npy") as file:
                np.save(file, array)
        about = {
            "classes": list(self.classes),
            "words": list(self.bags["train"].words),
            "rows": sorted(self.rows),
            "states": sorted(self.states),
        }
        write_json(folder / ABOUT, about)

    @classmethod
    def read(cls, folder: Path) -> Data:
        """Read what `write` wrote."""
        about = json.loads((folder / ABOUT).read_text())

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
    with one_thread():
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


def written(states: States, key: str) -> Fitted | None:
    """Read what a cell gave in an earlier run; None if it is missing or damaged."""
    folder = states.find(key)
    if folder is None:
        return None
    found = json.loads((folder / ROW).read_text())
    tokens = pd.read_parquet(folder / TOKENS) if (folder / TOKENS).exists() else None
    return Fitted(found["row"], found["tables"], tokens)


def write(states: States, cell: Cell, key: str, fitted: Fitted) -> None:
    """Write what a cell gave; it appears at once and whole."""
    with states.make(key, what=f"cell {cell.name}") as folder:
        write_json(folder / ROW, {"row": fitted.row, "tables": fitted.tables})
        if fitted.tokens is not None:
            with atomic_write(folder / TOKENS) as file:
                fitted.tokens.to_parquet(file, index=False)


def run_grid(
    states: States,
    data: Callable[[], Data],
    made_from: str,
    options: Mapping[Cell, Mapping[str, Any]],
    workers: int,
    tell: Tell,
) -> dict[Cell, Fitted]:
    """Train every cell that is missing, each with its options, from texts that `data` makes.

    `made_from` is the fingerprint of what `data` makes them from. `tell` receives the number of
    epochs that are done and of all epochs, over all cells: after each epoch if one process trains
    them, after each cell if several do.
    """
    first = min(cell.seed for cell in options)
    jobs = {cell: _job(cell, own, made_from, cell.seed == first) for cell, own in options.items()}
    done = {cell: written(states, job["key"]) for cell, job in jobs.items()}
    missing = [job for cell, job in jobs.items() if done[cell] is None]
    total = sum(job["options"]["epochs"] for job in jobs.values())
    counted = _Counted(tell, total, total - sum(job["options"]["epochs"] for job in missing))
    if missing:
        key = fingerprint(("data", made_from))
        made = _prepared(states, key, data)
        if workers == 1 or len(missing) == 1:
            for job in missing:
                fit_job(states, job, counted.of(job), made)
                counted.of(job)(job["options"]["epochs"], 0)
        else:
            folder = str(states.folder.absolute())
            each = [{**job, "states": folder, "data": key} for job in missing]
            for number, _ in run_in_processes(fit_alone, each, workers, _cell_name):
                counted.of(missing[number])(missing[number]["options"]["epochs"], 0)
    return {cell: done[cell] or _trained(states, cell, job["key"]) for cell, job in jobs.items()}


def _trained(states: States, cell: Cell, key: str) -> Fitted:
    found = written(states, key)
    if found is None:
        raise StudyError(f"the cell {cell.name} was not written; run the same command again")
    return found


def _prepared(states: States, key: str, make: Callable[[], Data]) -> Data:
    """Read the numbered texts of a grid if an earlier run left them, else make and write them."""
    found = states.find(key)
    if found is not None:
        return Data.read(found)
    data = make()
    with states.make(key, what="numbered texts") as folder:
        data.write(folder)
    return data


def _job(cell: Cell, options: Mapping[str, Any], made_from: str, detailed: bool) -> dict[str, Any]:
    """Describe a cell to a worker; under its key the result is found again."""
    key = fingerprint(("cell", made_from, cell, options, detailed))
    return {"cell": asdict(cell), "options": dict(options), "detailed": detailed, "key": key}


def fit_job(states: States, job: Mapping[str, Any], tell: Tell, data: Data) -> None:
    """Train one cell of a grid and write what it gave, unless another process just did."""
    cell = Cell(**job["cell"])
    fitted = fit_cell(cell, data, job["options"], job["detailed"], tell)
    if states.find(job["key"]) is None:
        write(states, cell, job["key"], fitted)


def fit_alone(job: Mapping[str, Any]) -> None:
    """Train one cell in a process that knows nothing but the job."""
    states = States(Path(job["states"]))
    fit_job(states, job, lambda *_: None, _texts(states.folder / job["data"]))


@lru_cache(maxsize=1)
def _texts(folder: Path) -> Data:
    """The numbered texts, which the parent of this worker has just written or verified."""
    return Data.read(folder)


def _cell_name(job: Mapping[str, Any]) -> str:
    return Cell(**job["cell"]).name


class _Counted:
    """Epochs of all cells as one number."""

    def __init__(self, tell: Tell, total: int, before: int) -> None:
        self.tell, self.total, self.before = tell, total, before
        self.each: dict[str, int] = {}
        tell(before, total)

    def of(self, job: Mapping[str, Any]) -> Tell:
        """Return what one cell reports its epochs to."""
        name, epochs = str(job["key"]), int(job["options"]["epochs"])

        def report(done: int, _: int) -> None:
            self.each[name] = min(done, epochs)
            self.tell(self.before + sum(self.each.values()), self.total)

        return report


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
    """A row for each attention, encoder and scale: means and standard deviations over seeds.

    The intervals of accuracy and separation are those of a typical seed (`interval_over_seeds`): about which texts and
    words were scored, not about the seed. Those of the gap are the smallest and the largest of the seeds.
    """
    out = []
    for (attention, encoder, scale), group in rows.groupby(["attention", "encoder", "scale"], sort=False):
        row: dict[str, Any] = {"attention": attention, "encoder": encoder, "scale": scale, "seeds": len(group)}
        for name in ("accuracy", "separation", "gap"):
            row |= {name: group[name].mean(), f"{name}_sd": group[name].std()}
        for name in ("accuracy", "separation"):
            ends = interval_over_seeds(group[f"{name}_low"], group[f"{name}_high"])
            row |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
        row |= {"gap_size": group["gap"].abs().mean(), "gap_low": group["gap"].min(), "gap_high": group["gap"].max()}
        for name in ("majority", "dev_accuracy", "separation_untrained", "separation_count", "separation_frequent", "separation_least", "separation_local", "polarity_auc"):  # fmt: skip
            row[name] = group[name].mean()
        out.append(row)
    return pd.DataFrame(out)
