"""Result folders that tests make and compare."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import attlas
from attlas.experiments.experiment import Outcome
from attlas.experiments.run import write_outcome
from attlas.studies.folder import Folder
from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.views.section import Section


def table_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


def write_result(
    place: Folder,
    manifest: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
    result: Mapping[str, Any] | None = None,
) -> Study:
    """Write tables and a result into a claimed folder; `manifest` describes model and corpus."""
    write_outcome(place, Outcome(tables=frames, result=result or {}), manifest)
    return Study.open(place.path)


OLD = Path(__file__).parents[1] / "golden" / "old_folders"


TEXTS = ("the", "a", "very", "good", "bad", "it")
QUIET: dict[str, Any] = {"workers": 1, "progress": False}
FOLDERS = ("relations", "dynamics", "topology", "syntax", "tree", "coreference", "explain")


MEASURES = (
    "surface",
    "entropy",
    "positions",
    "totals",
    "topk",
    "heatmap",
    "position_bias",
    "examples",
    "targets",
    "head_distance",
    "special_gradient",
    "importance",
    "explanations",
    "betti",
    "digraph",
    "barcode",
    "templates",
)


@cache
def measured() -> Study:
    """Every measure of three short texts, with words that people marked."""
    texts = [
        attlas.Text(
            "one", "a good film , not bad .", label="good", annotations={"rationale": [(2, 6)]}
        ),
        attlas.Text("two", "the dog saw a cat .", label="bad", annotations={"rationale": [(4, 7)]}),
        attlas.Text(
            "three", "it was a very bad film", label="good", annotations={"rationale": [(9, 17)]}
        ),
    ]
    names = {"id2label": {0: "good", 1: "bad"}, "label2id": {"good": 0, "bad": 1}}
    model = tiny("bert", "classify", **names)
    return attlas.study(model, texts, MEASURES, workers=1, progress=False)


@cache
def compared() -> Study:
    """Two models over the same texts, with another seed, a series and matched heads."""
    texts = [f"{word} cat saw a {other} dog ." for word in TEXTS for other in TEXTS]
    models = [tiny("bert", seed=seed) for seed in range(3)]
    each = [attlas.study(one, texts, "surface,entropy", **QUIET) for one in models]
    return attlas.run(
        attlas.Compare(
            studies=[each[0], each[2], each[1]],
            seed_study=each[2],
            series=True,
            match=True,
            model_a=models[0],
            model_b=models[1],
            texts=8,
        ),
        **QUIET,
    )


@cache
def studies() -> tuple[Study, ...]:
    texts = [
        attlas.Text(str(n), ("a good film", "a bad dog")[n % 2] + " very" * n, "ab"[n % 2])
        for n in range(12)
    ]
    tuning = attlas.Finetune(
        texts=texts, dev=texts[:6], model=tiny("bert", "classify"), head_only=True
    )
    return (
        measured(),
        attlas.run(tuning, progress=False),
        attlas.study(tiny("bert"), texts, "surface", by="label", workers=1, progress=False),
        compared(),
        *(Study.open(OLD / name) for name in FOLDERS),
    )


def study_with(section: Section) -> Study:
    """The first of the small results that has the tables of a section."""
    return next(one for one in studies() if all(map(one.has, section.needs)))
