"""Saved estimators that are damaged, with a repaired checksum: each is refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from attlas.dynamics import AttentionClassifier
from attlas.relations import RelationExtractor
from attlas.support.errors import AttlasError, ModelError
from attlas.support.fingerprint import sha256_of
from attlas.support.saving import FILES
from attlas.testing import tiny
from attlas.topology import TopologyClassifier
from attlas.tree import TreeProbe
from tests.builders.dynamics import fitted as attention_classifier
from tests.builders.relations import rows
from tests.builders.topology import data
from tests.builders.trees import corpus

MODEL = tiny("bert")
ESTIMATORS: dict[str, tuple[Callable[[Path], Any], Callable[..., Any]]] = {
    "topology": (
        lambda folder: TopologyClassifier(C=(0.1,), max_iter=(3,)).fit(*data()).save(folder, MODEL),
        TopologyClassifier.load,
    ),
    "tree": (
        lambda folder: TreeProbe(MODEL, epochs=1, progress=False).fit(corpus(6)).save(folder),
        TreeProbe.load,
    ),
    "relations": (
        lambda folder: (
            RelationExtractor(MODEL, negatives=2, grid=(0.1,), workers=1, progress=False)
            .fit(rows(24), rows(12, 1))
            .save(folder)
        ),
        RelationExtractor.load,
    ),
    "dynamics": (
        lambda folder: attention_classifier(epochs=1, count=20).save(folder),
        lambda folder, model: AttentionClassifier.load(folder),
    ),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder of each estimator."""
    root = tmp_path_factory.mktemp("estimators")
    return {name: Path(make(root / name)) for name, (make, _) in ESTIMATORS.items()}


def files_of(folder: Path) -> tuple[Path, Path]:
    return next(folder.glob("*.json")), next(folder.glob("*.safetensors"))


def signed(folder: Path) -> None:
    """Let the JSON have the checksum of the arrays as they are now."""
    about, arrays = files_of(folder)
    content = json.loads(about.read_text())
    about.write_text(json.dumps({**content, FILES: {arrays.name: sha256_of(arrays)}}))


def rewrite(folder: Path, change: Callable[[str, np.ndarray], np.ndarray | None]) -> None:
    path = files_of(folder)[1]
    arrays = {name: change(name, array.copy()) for name, array in load_file(path).items()}
    save_file({name: array for name, array in arrays.items() if array is not None}, path)


def cut(folder: Path) -> None:
    path = files_of(folder)[1]
    path.write_bytes(path.read_bytes()[:-8])


def longer(_: str, array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, array]) if array.ndim else array


def spoiled(number: float) -> Callable[[str, np.ndarray], np.ndarray]:
    def spoil(_: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "f":
            array.flat[-1] = number
        return array

    return spoil


DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "empty": lambda folder: files_of(folder)[1].write_bytes(b"") and None,
    "longer": lambda folder: rewrite(folder, longer),
    "one axis": lambda folder: rewrite(folder, lambda _, array: array.reshape(-1)),
    "one more axis": lambda folder: rewrite(folder, lambda _, array: array[None]),
    "no numbers": lambda folder: rewrite(folder, lambda _, array: array[:0]),
    "not a number": lambda folder: rewrite(folder, spoiled(np.nan)),
    "infinite": lambda folder: rewrite(folder, spoiled(np.inf)),
    "missing": lambda folder: rewrite(folder, lambda name, array: None),
}


def refused(folder: Path, name: str, model: Any = MODEL) -> str:
    with pytest.raises(AttlasError) as refusal:
        ESTIMATORS[name][1](folder, model)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_damaged_arrays_are_refused(
    saved: dict[str, Path], name: str, how: str, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(saved[name], tmp_path / "copy"))
    ESTIMATORS[name][1](folder, MODEL)
    DAMAGE[how](folder)
    signed(folder)
    assert "holds no" in refused(folder, name)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"[" * 200_000, b"\xff"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_json_that_is_none_is_refused(
    saved: dict[str, Path], name: str, content: bytes, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(saved[name], tmp_path / "copy"))
    files_of(folder)[0].write_bytes(content)
    assert "holds no" in refused(folder, name)


@pytest.mark.parametrize("name", ["topology", "tree", "relations"])
def test_another_model_is_refused(saved: dict[str, Path], name: str) -> None:
    with pytest.raises(ModelError, match="differs in weights"):
        ESTIMATORS[name][1](saved[name], tiny("bert", seed=1))


def test_numbers_of_a_reader_that_are_not_finite_are_refused(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(saved["relations"], tmp_path / "copy"))
    about = files_of(folder)[0]
    content = json.loads(about.read_text())
    about.write_text(json.dumps({**content, "thresholds": [float("nan"), 0.5]}))
    assert "related is nan" in refused(folder, "relations")
    content["readers"]["named"]["temperature"] = float("inf")
    about.write_text(json.dumps(content))
    assert "temperature is inf" in refused(folder, "relations")
