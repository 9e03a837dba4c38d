"""Write `inputs/` of goldens and old folders: two tiny models, a few rows of embedded corpora.

    python -m tests.golden.make_inputs

They are kept in the tree, so that neither another library's random numbers nor an edited corpus
changes a golden number.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

import attlas.corpora
from attlas.testing import tiny
from tests.golden.scenario import INPUTS

EMBEDDED = Path(attlas.corpora.__file__).parent / "embedded"
SEED = 13  # of the models: chosen so that no choice is a near tie (`margins` in the goldens)
SHAPE = {"max_position_embeddings": 160}
LABELS = ("negative", "positive")


def write_inputs(folder: Path = INPUTS, seed: int = SEED) -> None:
    """Models and texts, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_models(folder, seed)
    reviews = _by_label(_rows("reviews.jsonl"))
    _write(folder / "reviews.jsonl", reviews[:12])
    _write(folder / "train.jsonl", reviews[:36])
    _write(folder / "dev.jsonl", reviews[36:52])
    _write(folder / "test.jsonl", reviews[52:76])
    relations = _rows("relations.jsonl")
    for name, start, end in (("train", 0, 90), ("dev", 90, 130), ("test", 130, 160)):
        _write(folder / f"relations-{name}.jsonl", relations[start:end])
    documents = (EMBEDDED / "sentences.conllu").read_text(encoding="utf-8").split("# newdoc ")[1:]
    half = len(documents) * 2 // 3
    for name, some in (("train", documents[:half]), ("test", documents[half:])):
        (folder / f"trees-{name}.conllu").write_text(
            "".join(f"# newdoc {one}" for one in some), encoding="utf-8"
        )


def write_models(folder: Path, seed: int) -> None:
    """A classifier, and a model without a head that has other weights."""
    names = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {name: number for number, name in enumerate(LABELS)},
    }
    models = {
        "model": tiny("bert", "classify", seed=seed, **SHAPE, **names),
        "frozen": tiny("bert", seed=seed + 1000, **SHAPE),
    }
    for number, (name, model) in enumerate(models.items()):
        generator = torch.Generator().manual_seed(seed + number)
        with (
            torch.no_grad()
        ):  # biases and norms that are not 0 and 1, so that none can be forgotten unseen
            for parameter in model.network.parameters():
                if parameter.dim() == 1:
                    parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        model.save(folder / name)


def _rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (EMBEDDED / name).read_text(encoding="utf-8").splitlines()]


def _by_label(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The shortest rows, the labels in turn."""
    short = sorted(rows, key=lambda row: len(str(row["text"])))
    parts = [[row for row in short if row["label"] == label] for label in LABELS]
    return [row for pair in zip(*parts, strict=False) for row in pair]


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )


if __name__ == "__main__":
    write_inputs()
