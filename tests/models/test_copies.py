"""Models and estimators are pickled, copied and stored by joblib like other objects."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone

import attlas
from attlas.coreference import CoreferenceHeads
from attlas.dynamics import AttentionClassifier
from attlas.models.predict import run_batches
from attlas.relations import RelationExtractor
from attlas.syntax import SyntaxHeads
from attlas.topology import TopologyClassifier, TopologyFeatures
from attlas.tree import TreeProbe
from tests.builders.models import tiny

WITH_A_MODEL = (SyntaxHeads, TreeProbe, CoreferenceHeads, RelationExtractor, TopologyFeatures)
WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "pickle": lambda one, path: pickle.loads(pickle.dumps(one)),
    "deepcopy": lambda one, path: copy.deepcopy(one),
    "joblib": lambda one, path: (joblib.dump(one, path), joblib.load(path))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["bert", "gpt2", "longformer"])
def test_a_model_that_was_used_is_copied(kind: str, way: str, tmp_path: Path) -> None:
    shared = tiny(kind)
    model = attlas.load((shared.network, shared.tokenizer))
    before = attlas.attention(model, "the cat sat on the mat")
    run_batches(model, [attlas.Text("a", "a cat")], lambda batch, output: None, states=True)
    other = WAYS[way](model, tmp_path / "model")
    assert other.identity() == model.identity()
    after = attlas.attention(other, "the cat sat on the mat")
    assert torch.equal(before.received(), after.received())
    assert other.network is not model.network


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", WITH_A_MODEL)
def test_an_estimator_is_copied_with_its_model(kind: Any, way: str, tmp_path: Path) -> None:
    estimator = kind(tiny("bert"))
    other = WAYS[way](estimator, tmp_path / "estimator")
    assert {**other.get_params(), "model": None} == {**estimator.get_params(), "model": None}
    assert other.model.identity() == estimator.model.identity()
    assert clone(other).get_params().keys() == estimator.get_params().keys()


@pytest.mark.parametrize("way", WAYS)
def test_fitted_classifiers_answer_as_before(way: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = random.normal(size=(40, 5))
    labels = np.where(table[:, 0] > 0, "b", "a")
    topology = TopologyClassifier(C=(1.0,), max_iter=(50,)).fit(table, labels)
    texts = [
        attlas.Text(str(at), f"{label} cat sat {at}", label=label)
        for at, label in enumerate(labels)
    ]
    dynamics = AttentionClassifier(epochs=1, dim=4, progress=False).fit(texts, list(labels))
    for fitted, rows in ((topology, table), (dynamics, texts)):
        other = WAYS[way](fitted, tmp_path / "fitted")
        np.testing.assert_array_equal(other.predict(rows), fitted.predict(rows))
        np.testing.assert_array_equal(other.classes_, fitted.classes_)
