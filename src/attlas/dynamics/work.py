"""What Dynamics does: texts numbered once, one classifier trained per cell, tables of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attlas.core.text import Text
from attlas.corpora.labelled import read_labelled as read
from attlas.corpora.splits import check_label_column, label_codes, label_names, overlap, split
from attlas.dynamics.classifier import check_labels
from attlas.dynamics.experiment import Dynamics
from attlas.dynamics.grid import PARTS, Cell, Data, Frames, assembled, fit_job, job_name, job_of
from attlas.dynamics.inputs import (
    cut_off,
    encoded,
    static_rows,
    vectors_of as open_vectors,
    word_states,
)
from attlas.dynamics.ragged import TOKENIZERS, to_ragged, tokens_of, vocabulary_of
from attlas.experiments.experiment import Experiment, Outcome
from attlas.experiments.run import source_name
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.models.vectors import Vectors
from attlas.support.errors import MeasureError
from attlas.support.json import to_json

TEST, DEV = 0.2, 0.1  # shares that are set aside where no files are given
WORTH_A_PROCESS = 200_000  # tokens read in training: about 5 s, as long as a process takes to start
SUBJECT = "attention classifiers"  # what a report is about: there is no model with heads

__all__ = ["open_vectors", "read", "resolve", "run"]


def resolve(experiment: Experiment, opened: dict[str, Any]) -> dict[str, Any]:
    """Set test and dev aside if they are not given; refuse labels that do not match."""
    train, dev, test = (opened[part] for part in PARTS)
    seed = experiment.options["seed"]
    check_label_column(train, experiment.openings("texts").get("label"))
    check_labels([text.label for text in train])
    if test is None:
        train, test = split(train, TEST, seed)
    if dev is None:
        train, dev = split(train, DEV, seed)
    check_labels([text.label for text in train])
    label_names(train=train, dev=dev, test=test)  # labels of dev and test that train lacks
    return {**opened, "train": train, "dev": dev, "test": test}


def run(
    dynamics: Dynamics,
    work: Workspace,
    *,
    train: list[Text],
    dev: list[Text],
    test: list[Text],
    model: Model | None,
    vectors: Vectors | None,
) -> Outcome:
    """Number the texts, train every classifier of the grid, and put their tables together."""
    parts = dict(zip(PARTS, (train, dev, test), strict=True))
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in parts.items())
    work.log(f"Dynamics 1/2: numbering {sizes} texts{_frozen(model, vectors)}")
    how = (dynamics.tokenize, dynamics.min_count)
    entry = work.files(write_data, train, dev, test, *how, vectors, model)
    cells = cells_of(dynamics)
    work.log(f"Dynamics 2/2: training {_grid(dynamics, len(cells))}")
    jobs = [
        job_of(cell, dynamics.settings(cell.encoder), cell.seed == dynamics.seed) for cell in cells
    ]
    data = Data.read(entry)
    fitted = work.map(
        fit_job,
        jobs,
        common=[entry.name],
        processes=True,
        short=_tokens_read(data, jobs) < WORTH_A_PROCESS,
        what="training",
        name=job_name,
    )
    tables = assembled(fitted)
    result = to_json(_result(dynamics, parts, data, tables))
    return Outcome(
        tables=tables,
        result=result,
        counts=_counts(data),
        controls=[
            (table, *pair)
            for table in ("dynamics", "dynamics_summary")
            for pair in (("accuracy", "majority"), ("separation", "separation_untrained"))
        ],
        about={"model": None, "subject": SUBJECT, dynamics.name: result},
        corpus={"name": source_name(dynamics.train if dynamics.test is None else dynamics.test)},
    )


def _tokens_read(data: Data, jobs: Sequence[Mapping[str, Any]]) -> int:
    """How many tokens all classifiers read in training, at most."""
    return len(data.ragged["train"].ids) * sum(job["options"]["epochs"] for job in jobs)


def cells_of(dynamics: Dynamics) -> list[Cell]:
    """The cells of a grid, in the order of its tables."""
    return [
        Cell(attention, encoder, scale, dynamics.seed + number)
        for attention, encoder in dynamics.pairs
        for scale in dict.fromkeys(dynamics.scales)
        for number in range(dynamics.seeds)
    ]


def write_data(
    folder: Path,
    train: Sequence[Text],
    dev: Sequence[Text],
    test: Sequence[Text],
    tokenize: str,
    min_count: int,
    vectors: Vectors | None,
    model: Model | None,
) -> None:
    """Number the texts, encode them with frozen encoders, and write the arrays."""
    parts = dict(zip(PARTS, (train, dev, test), strict=True))
    classes = tuple(label_names(**parts))
    tokens = {name: tokens_of(part, TOKENIZERS[tokenize]) for name, part in parts.items()}
    words = vocabulary_of(tokens["train"], min_count)
    if not words:
        raise MeasureError(f"no token occurs {min_count} times; lower min_count")
    ragged = {name: to_ragged(one, words) for name, one in tokens.items()}
    codes = {
        name: label_codes([str(text.label) for text in part], classes)
        for name, part in parts.items()
    }
    rows: dict[str, Any] = {}
    states: dict[str, Any] = {}
    truncated = 0, 0
    if vectors is not None:
        rows["vectors"] = static_rows(words, vectors)
    if model is not None:
        rows["model"] = word_states(words, model, False)
        states = {
            name: encoded(one, tokens[name], model, False).states for name, one in ragged.items()
        }
        truncated = cut_off(model, [text for part in tokens.values() for text in part])
    Data(classes, ragged, codes, rows, states, truncated).write(folder)


def _counts(data: Data) -> dict[str, int]:
    texts = sum(map(len, data.ragged.values()))
    return {
        "read": texts,
        "analysed": texts,
        "quarantined": 0,
        "truncated": data.truncated[0],
        "tokens": sum(len(part.ids) for part in data.ragged.values()),
        "tokens_cut": data.truncated[1],
    }


def _result(
    dynamics: Dynamics, parts: Mapping[str, Sequence[Text]], data: Data, tables: Frames
) -> dict[str, Any]:
    """What `--json` prints."""
    words, classes = data.ragged["train"].words, data.classes
    labels = np.bincount(data.codes["train"], minlength=len(classes)).tolist()
    sizes = {name: len(part) for name, part in parts.items()}
    return {
        "cells": tables["dynamics_summary"].to_dict("records"),
        "classes": list(classes),
        "positive": classes[1] if len(classes) == 2 else None,
        "texts": {**sizes, "in_both": overlap(parts["train"], parts["test"])},
        "labels": dict(zip(classes, labels, strict=True)),
        "vocabulary": len(words),
        "kinds": _kinds(tables),
        "unknown": {
            name: float((part.ids == len(words)).mean()) for name, part in data.ragged.items()
        },
        "options": dynamics.settings(),
    }


def _kinds(tables: Frames) -> dict[str, int]:
    """How many words are of each kind."""
    tokens = tables["dynamics_tokens"]
    first = tokens.drop_duplicates("token") if len(tokens) else tokens
    return {str(kind): int(count) for kind, count in first["kind"].value_counts().items()}


def _frozen(model: Model | None, vectors: Vectors | None) -> str:
    """Which frozen encoders read the texts, in words."""
    names = [one.name for one in (vectors, model) if one is not None]
    return f"; encoding them with {' and '.join(names)}" if names else ""


def _grid(dynamics: Dynamics, cells: int) -> str:
    """The size of a grid, in words."""
    parts = (
        counted(len(dynamics.pairs), "model"),
        counted(len(set(dynamics.scales)), "scale"),
        counted(dynamics.seeds, "seed"),
    )
    return f"{counted(cells, 'classifier')} ({', '.join(parts)})"


def counted(count: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "scale"), counted(2, "scale")
    ('1 scale', '2 scales')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
