"""Damage is noticed: a missing, truncated or changed file is refused or made again, never used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.relations.candidates import gold_cases, related_texts
from attlas.relations.vectors import read_case_vectors
from attlas.testing import tiny
from attlas.tree import TreeProbe
from tests.builders.changes import (
    MOVING,
    QUIET,
    interrupted,
    labelled_rows,
    parsed,
    premise,
    refused_or,
    text,
)
from tests.builders.damage import DAMAGE


def damage(how: str, paths: list[Path]) -> None:
    premise(bool(paths), "there is nothing to damage")
    for path in paths:
        DAMAGE[how](path)


# --- studies

TEXTS = [text(number, 4) for number in range(520)]  # two shards


def totals(out: str) -> dict[str, pd.DataFrame]:
    """Tables with one row per text, one per token and one per head."""
    done = attlas.study(tiny("bert"), TEXTS, ["totals", "entropy"], out, keep_states=True, **QUIET)
    return {name: done.table(name) for name in ("texts", "totals", "entropy")}


@pytest.mark.parametrize(
    ("pattern", "how"),
    [("*.parquet", "removed"), ("*.parquet", "changed"), ("*.safetensors", "changed")],
)
def test_a_damaged_shard_is_noticed(pattern: str, how: str) -> None:
    true = totals("out")
    manifest = Path("out/manifest.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "status": "running"}))
    shutil.rmtree("out/tables")
    files = sorted(Path("out/states").rglob(pattern))
    damage(how, files[:1] if how == "removed" else files)
    refused_or(true, lambda: totals("out"))


# --- experiments


def syntax(out: str) -> dict[str, Any]:
    texts = parsed(16)
    experiment = attlas.Syntax(model=tiny("bert"), train=texts[:10], test=texts[10:], min_cases=1)
    done = attlas.run(experiment, out, workers=1, **QUIET)
    return {"table": done.table("syntax_heads"), "result": done.result}


@pytest.mark.parametrize("how", ["removed", "cut", "changed"])
@pytest.mark.parametrize("name", ["tables/syntax_heads.parquet", "result.json"])
def test_a_damaged_file_of_a_finished_experiment_is_noticed(name: str, how: str) -> None:
    true = syntax("out")
    damage(how, [Path("out", name)])
    refused_or(true, lambda: syntax("out"))


def grid(out: str) -> pd.DataFrame:
    texts = labelled_rows(60)
    parts = {"train": texts[:40], "dev": texts[40:50], "test": texts[50:]}
    cells = attlas.Dynamics(**parts, scales=(1.0, 10.0), epochs=1, dim=8)
    return attlas.run(cells, out, workers=1, **QUIET).table("dynamics")


def finished_cells() -> list[Path]:
    return [*Path("out/states").glob("[!.]*/frame-row.parquet")]


def test_a_changed_cell_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    true = grid("true")
    with (
        pytest.raises(KeyboardInterrupt),
        interrupted(monkeypatch, lambda: bool(finished_cells()), *MOVING),
    ):
        grid("out")
    (cell,) = finished_cells()
    before = cell.read_bytes()
    pd.read_parquet(cell).assign(accuracy=9.0).to_parquet(cell)
    premise(cell.read_bytes() != before, "the cell has not changed")
    refused_or(true, lambda: grid("out"))


# --- caches


def blobs(folder: str) -> list[Path]:
    """The files of a cache that hold numbers."""
    return [path for path in Path(folder).rglob("*") if path.suffix in (".f16", ".npz")]


def probe() -> np.ndarray:
    """The weights that a tree probe learns from attention in a cache."""
    fitted = TreeProbe(tiny("bert"), "attention", epochs=1, cache="cache", workers=1, **QUIET).fit(
        parsed(20)
    )
    return np.concatenate(
        [part.detach().numpy().reshape(-1) for part in fitted.scorer_.parameters()]
    )


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_damaged_attention_between_words_is_noticed(how: str) -> None:
    true = probe()
    damage(how, blobs("cache"))
    refused_or(true, probe)


def vectors() -> np.ndarray:
    """Attention between the phrases of triples, in a cache."""
    texts = related_texts("embedded:relations")[:10]
    return read_case_vectors(
        tiny("bert"), texts, gold_cases(texts, True), cache="cache", workers=1, **QUIET
    ).attention


@pytest.mark.parametrize("how", ["changed", "flipped"])
def test_damaged_vectors_of_relations_are_noticed(how: str) -> None:
    true = vectors()
    damage(how, blobs("cache"))
    refused_or(true, vectors)
