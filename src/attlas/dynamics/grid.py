"""A grid of classifiers: one per attention, encoder, scale and seed, each trained by itself.

The texts are numbered once and written as arrays, which workers read or map into memory. What a
cell gives does not depend on who trains it, nor on the other cells.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.dynamics.classifier import AttentionClassifier
from attlas.dynamics.ragged import Numbers, RaggedTexts
from attlas.dynamics.scores import NEGATIVE, NEUTRAL, OTHER, POSITIVE, interpretability, separation
from attlas.dynamics.summary import CELL
from attlas.stats.intervals import interval_over_seeds, wilson
from attlas.stats.scores import majority_share
from attlas.support.files import write_json

PARTS = ("train", "dev", "test")
ABOUT = "data.json"
TOKEN_COLUMNS = [
    "token",
    "kind",
    "count",
    "gamma",
    "share",
    "polarity",
    "attention_score",
    "polarity_local",
    "attention_local",
    "weight",
]
MEANS = (  # over seeds, without an interval
    "majority",
    "dev_accuracy",
    "separation_untrained",
    "separation_count",
    "separation_frequent",
    "separation_least",
    "separation_local",
    "polarity_auc",
)
Frames = dict[str, pd.DataFrame]


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


# the texts


@dataclass(frozen=True, eq=False)
class Data:
    """The texts of a grid, numbered: to train on, to choose the epoch by, to score on."""

    classes: tuple[str, ...]
    ragged: Mapping[str, RaggedTexts]
    codes: Mapping[str, Numbers]
    rows: Mapping[str, np.ndarray]  # the words of a frozen encoder, by encoder
    states: Mapping[str, np.ndarray]  # the tokens of a frozen model, by part
    truncated: tuple[int, int] = (0, 0)  # texts of a frozen model, and their tokens beyond

    def write(self, folder: Path) -> None:
        """Write one file per array, so that workers share the memory of those that are large."""
        for part in PARTS:
            np.save(folder / f"{part}-ids.npy", self.ragged[part].ids)
            np.save(folder / f"{part}-starts.npy", self.ragged[part].starts)
            np.save(folder / f"{part}-codes.npy", self.codes[part])
        for kind, arrays in (("rows", self.rows), ("states", self.states)):
            for name, array in arrays.items():
                np.save(folder / f"{kind}-{name}.npy", array)
        about = {
            "classes": list(self.classes),
            "words": list(self.ragged["train"].words),
            "rows": sorted(self.rows),
            "states": sorted(self.states),
            "cut": list(self.truncated),
        }
        write_json(folder / ABOUT, about)

    @classmethod
    def read(cls, folder: Path) -> Data:
        """Read what `write` wrote; the vectors of frozen encoders are mapped into memory."""
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))

        def mapped(kind: str) -> dict[str, np.ndarray]:
            names = about[kind]
            return {name: np.load(folder / f"{kind}-{name}.npy", mmap_mode="c") for name in names}

        def array(name: str) -> np.ndarray:
            return np.load(folder / f"{name}.npy")

        words = tuple(about["words"])
        ragged = {
            part: RaggedTexts(array(f"{part}-ids"), array(f"{part}-starts"), words)
            for part in PARTS
        }
        codes = {part: array(f"{part}-codes") for part in PARTS}
        classes, (texts, tokens) = tuple(about["classes"]), about["cut"]
        return cls(classes, ragged, codes, mapped("rows"), mapped("states"), (texts, tokens))

    def ragged_of(self, encoder: str) -> dict[str, RaggedTexts]:
        """The texts of each part, with a frozen model's states if that is the encoder."""
        if encoder != "model":
            return dict(self.ragged)
        return {
            part: replace(one, states=np.asarray(self.states[part]))
            for part, one in self.ragged.items()
        }


# one cell


def job_of(cell: Cell, options: Mapping[str, Any], detailed: bool) -> dict[str, Any]:
    """Describe a cell to a worker in plain values."""
    return {"cell": asdict(cell), "options": dict(options), "detailed": detailed}


def job_name(job: Mapping[str, Any]) -> str:
    """Name the cell of a job."""
    return Cell(**job["cell"]).name


def fit_job(job: Mapping[str, Any], data: str, folder: str) -> Frames:
    """Train one cell from the numbered texts in an entry of a cache."""
    texts = Data.read(Path(folder) / data)
    return fit_cell(Cell(**job["cell"]), texts, job["options"], job["detailed"])


def fit_cell(cell: Cell, data: Data, options: Mapping[str, Any], detailed: bool) -> Frames:
    """Train one classifier: its row; if `detailed`, also its words and its training."""
    own = {**options, "record": options["record"] if detailed else 0}
    classifier = AttentionClassifier(**asdict(cell), **own, progress=False)
    ragged = data.ragged_of(cell.encoder)
    classifier.fit_ragged(
        ragged["train"],
        data.codes["train"],
        (ragged["dev"], data.codes["dev"]),
        data.classes,
        data.rows.get(cell.encoder),
    )
    tokens = classifier.token_table_at(classifier.best_snapshot_, ragged["train"], ragged["test"])
    row = pd.DataFrame([row_of(cell, classifier, tokens, ragged["test"], data.codes["test"])])
    if not detailed:
        return {"row": row}
    shown = tokens.loc[tokens["kind"] != OTHER, TOKEN_COLUMNS]
    fitted = classifier.history_, classifier.kinds_, classifier.flow_
    training = zip(("path", "kinds", "flow"), fitted, strict=True)
    tables = {"tokens": shown, **{name: one for name, one in training if len(one)}}
    return {"row": row, **{name: _of_cell(cell, one) for name, one in tables.items()}}


def row_of(
    cell: Cell,
    classifier: AttentionClassifier,
    tokens: pd.DataFrame,
    test: RaggedTexts,
    codes: Numbers,
) -> dict[str, Any]:
    """Accuracy of a classifier, and how well its attention separates words."""
    right = classifier.best_snapshot_.read(test).predictions == codes
    accuracy, n = float(right.mean()), len(right)
    low, high = wilson(accuracy, n)
    history = classifier.history_
    last = history[history["epoch"] == classifier.epoch_].iloc[0]
    is_local = tokens["attention_local"].notna().any()
    kinds = tokens["kind"].value_counts().to_dict()
    two = {f"tokens_{kind}": int(kinds.get(kind, 0)) for kind in (POSITIVE, NEGATIVE)}
    polar = sum(count for kind, count in kinds.items() if kind not in (NEUTRAL, OTHER))
    return {
        **asdict(cell),
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "dev_accuracy": float(last["dev_accuracy"]),
        "majority": majority_share(codes),
        "epoch": classifier.epoch_,
        **interpretability(tokens, classifier.untrained_),
        "separation_local": separation(tokens, "attention_local").auc if is_local else float("nan"),
        **{name: float(last[name]) for name in ("vw", "v_norm", "w_norm")},
        "texts": n,
        **(two if len(classifier.classes_) == 2 else {}),
        "tokens_polarity": int(polar),
        "tokens_neutral": int(kinds.get(NEUTRAL, 0)),
    }


def _of_cell(cell: Cell, frame: pd.DataFrame) -> pd.DataFrame:
    """A table of one cell, with the cell in front."""
    which = {name: getattr(cell, name) for name in CELL}
    return frame.assign(**which)[[*which, *frame.columns]].reset_index(drop=True)


# all cells


def assembled(cells: Sequence[Mapping[str, pd.DataFrame]]) -> Frames:
    """The tables of a grid, in the order of its cells."""
    rows = pd.concat([one["row"] for one in cells], ignore_index=True)
    out = {"dynamics": rows, "dynamics_summary": summary(rows)}
    for name in ("tokens", "path", "kinds", "flow"):
        each = [one[name] for one in cells if name in one]
        if each:
            out[f"dynamics_{name}"] = pd.concat(each, ignore_index=True)
    return out


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per attention, encoder and scale: means and standard deviations over seeds.

    The intervals of accuracy and separation are those of a typical seed (`interval_over_seeds`):
    about which texts and words were scored, not about the seed. Those of the gap are the smallest
    and the largest of the seeds.
    """
    out = []
    for cell, group in rows.groupby(list(CELL), sort=False):
        row: dict[str, Any] = {**dict(zip(CELL, cell, strict=True)), "seeds": len(group)}
        for name in ("accuracy", "separation", "gap"):
            row |= {name: group[name].mean(), f"{name}_sd": group[name].std()}
        for name in ("accuracy", "separation"):
            ends = interval_over_seeds(group[f"{name}_low"], group[f"{name}_high"])
            row |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
        gaps = group["gap"]
        row |= {"gap_size": gaps.abs().mean(), "gap_low": gaps.min(), "gap_high": gaps.max()}
        row |= {name: group[name].mean() for name in MEANS}
        out.append(row)
    return pd.DataFrame(out)
