"""Classifiers on topological features: scikit-learn's numbers, intervals, resuming."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, matthews_corrcoef
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import attlas
from attlas.models.model import Model
from attlas.stats.bootstrap import difference, score
from attlas.stats.intervals import wilson
from attlas.stats.scores import mcc
from attlas.studies import Study
from attlas.studies.folder import Folder
from attlas.support.errors import AttlasError, CorpusError, MeasureError, ModelError, StudyError
from attlas.support.files import file_sha256
from attlas.support.fingerprint import Put, feed
from attlas.testing import tiny
from attlas.topology import (
    TopologyClassifier,
    TopologyFeatures,
    best_heads,
    likeness,
    score_heads,
    work,
)
from attlas.topology.barcode import BarcodeMeasure
from attlas.topology.betti import Betti
from attlas.topology.classifier import ITERATIONS, STRENGTHS, _path
from attlas.topology.features import head_of
from attlas.topology.heads import columns_of
from tests.builders.models import shared
from tests.builders.pages import (
    SECTIONS,
    draw_all,
    findings,
    n_pictures,
    open_page,
    redrawn,
    write_charts,
)
from tests.builders.studies import write_result
from tests.builders.topology import data
from tests.twins.topology import bootstrap_slowly, mcc_slowly, row_slowly


def reference_regression(
    features: np.ndarray, codes: np.ndarray, strength: float, iterations: int
) -> LogisticRegression:
    """scikit-learn's own, stopped after so many iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, max_iter=iterations).fit(features, codes)


# --- the path ----------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_every_stop_on_the_path_is_scikit_learns(classes: int) -> None:
    features, codes = data(classes, classes=classes)
    scaled = StandardScaler().fit_transform(features)
    for strength in STRENGTHS:
        stops: dict[int, np.ndarray] = {}

        def visit(
            iterations: int, weights: np.ndarray, stops: dict[int, np.ndarray] = stops
        ) -> bool:
            stops[iterations] = weights
            return False

        _path((scaled, codes), classes, strength, ITERATIONS, visit)
        assert list(stops) == list(ITERATIONS[: len(stops)])
        last = None
        for iterations in ITERATIONS:
            last = stops.get(
                iterations, last
            )  # a stop that is missing is after convergence: as the one before
            assert last is not None
            theirs = reference_regression(scaled, codes, strength, iterations)
            np.testing.assert_allclose(last[:-1].T, theirs.coef_, rtol=0, atol=1e-9)
            np.testing.assert_allclose(last[-1], theirs.intercept_, rtol=0, atol=1e-9)
            if len(stops) < len(ITERATIONS) and iterations == list(stops)[-1]:
                assert theirs.n_iter_[0] <= iterations


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_chosen_settings_are_the_best_of_the_whole_grid(classes: int, seed: int) -> None:
    (features, codes), (others, wanted) = (
        data(seed, 40, classes=classes),
        data(seed + 50, 25, classes=classes),
    )
    strengths, iterations = (1.0, 0.001, 0.05), (100, 1, 3, 10)  # in no order
    ours = TopologyClassifier(C=strengths, max_iter=iterations, patience=None).fit(
        features, codes, (others, wanted)
    )
    scaler = StandardScaler().fit(features)
    best = None
    grid = {}
    for strength in sorted(strengths):
        for count in sorted(iterations):
            theirs = reference_regression(scaler.transform(features), codes, strength, count)
            guesses = theirs.predict(scaler.transform(others))
            grid[strength, count] = (
                matthews_corrcoef(wanted, guesses),
                accuracy_score(wanted, guesses),
            )
            if best is None or grid[strength, count][0] > best[0]:
                best = grid[strength, count][0], strength, count, theirs
    assert best is not None
    assert (ours.C_, ours.max_iter_) == best[1:3]
    np.testing.assert_allclose(ours.coef_, best[3].coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, best[3].intercept_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        ours.predict_proba(others),
        best[3].predict_proba(scaler.transform(others)),
        rtol=0,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        ours.decision_function(others),
        best[3].decision_function(scaler.transform(others)),
        rtol=0,
        atol=1e-9,
    )
    assert (ours.predict(others) == best[3].predict(scaler.transform(others))).all()
    for row in ours.dev_scores_.to_dict("records"):
        assert (row["mcc"], row["accuracy"]) == pytest.approx(grid[row["C"], row["max_iter"]])
    visited = ours.dev_scores_.groupby("C")["max_iter"].max()
    assert set(visited.index) == set(strengths)


def test_patience_leaves_a_path_and_only_that() -> None:
    (features, codes), dev = data(4, 50), data(9, 30)
    whole = TopologyClassifier(patience=None).fit(features, codes, dev).dev_scores_
    for patience in (1, 2, 3):
        some = TopologyClassifier(patience=patience).fit(features, codes, dev)
        expected = []
        for _, path in whole.groupby("C", sort=True):
            top, since = -np.inf, 0
            for row in path.to_dict("records"):
                expected.append(row)
                since = 0 if row["mcc"] > top else since + 1
                top = max(top, row["mcc"])
                if since >= patience and (top > 0 or row["max_iter"] >= 100):
                    break
        pd.testing.assert_frame_equal(some.dev_scores_, pd.DataFrame(expected))
        first = some.dev_scores_.loc[some.dev_scores_["mcc"].idxmax()]
        assert (some.C_, some.max_iter_) == (first["C"], first["max_iter"])


@pytest.mark.parametrize("classes", [2, 3])
def test_without_dev_the_chosen_classifier_is_fitted_on_all(classes: int) -> None:
    features, codes = data(3, 50, classes=classes)
    ours = TopologyClassifier(C=(0.01, 0.1), max_iter=(2, 10), seed=1).fit(features, codes)
    scaled = StandardScaler().fit_transform(features)
    theirs = reference_regression(scaled, codes, ours.C_, ours.max_iter_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-9)
    again = TopologyClassifier(C=(0.01, 0.1), max_iter=(2, 10), seed=1).fit(features, codes)
    np.testing.assert_array_equal(again.coef_, ours.coef_)
    assert (
        TopologyClassifier().fit(features[:3], ["a", "b", "b"]).predict(features[:3])
        == ["a", "b", "b"]
    ).all()


@settings(max_examples=60)
@given(
    st.integers(2, 12),
    st.integers(1, 4),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(0, 2**32 - 1),
)
def test_scaling_is_scikit_learns(
    rows: int, width: int, middle: float, spread: float, seed: int
) -> None:
    assume(spread > 1e-6 * abs(middle))
    features = middle + spread * np.random.default_rng(seed).normal(size=(rows, width))
    features[:, 0] = middle  # constant
    ours = TopologyClassifier(C=(1.0,), max_iter=(1,)).fit(
        features, np.arange(rows) % 2, (features, np.arange(rows) % 2)
    )
    theirs = StandardScaler().fit(features)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.scale_, theirs.scale_, rtol=1e-9)
    assert ours.scale_[0] == 1


def test_small_features_are_scaled_too() -> None:
    features, codes = data()
    one = TopologyClassifier(C=(0.1,), max_iter=(10,)).fit(features, codes, (features, codes))
    two = TopologyClassifier(C=(0.1,), max_iter=(10,)).fit(
        features * 1e-17, codes, (features * 1e-17, codes)
    )
    np.testing.assert_allclose(
        two.predict_proba(features * 1e-17), one.predict_proba(features), atol=1e-9
    )


def test_constant_columns_are_harmless() -> None:
    features, codes = data(2)
    plain = TopologyClassifier().fit(features[:, :-1], codes, (features[:, :-1], codes))
    with_constants = np.concatenate(
        [features[:, :-1], np.full((len(features), 3), [0.1, 0.0, 1e9])], axis=1
    )
    ours = TopologyClassifier().fit(with_constants, codes, (with_constants, codes))
    np.testing.assert_allclose(ours.coef_[:, :5], plain.coef_, atol=1e-9)
    np.testing.assert_allclose(ours.coef_[:, 5:], 0, atol=1e-12)
    np.testing.assert_allclose(
        ours.predict_proba(with_constants), plain.predict_proba(features[:, :-1]), atol=1e-9
    )
    flat = TopologyClassifier().fit(np.ones((8, 2)), [0, 1] * 4)
    assert np.isfinite(flat.predict_proba(np.ones((2, 2)))).all()


def test_it_is_an_estimator_like_others() -> None:
    features, codes = data(1)
    names = np.array(["ham", "spam"])[codes]
    ours = TopologyClassifier(C=(0.01, 0.1), max_iter=(1, 10), patience=2, seed=4)
    copy = clone(ours)
    assert copy is not ours
    assert (
        copy.get_params()
        == ours.get_params()
        == {"C": (0.01, 0.1), "max_iter": (1, 10), "patience": 2, "seed": 4}
    )
    pipe = make_pipeline(StandardScaler(), ours).fit(features, names)
    assert set(pipe.predict(features)) <= {"ham", "spam"}
    assert list(pipe.classes_) == ["ham", "spam"]
    found = cross_val_score(pipe, features, names, cv=3, scoring="matthews_corrcoef")
    assert found.mean() > 0.3
    by_hand = TopologyClassifier(C=(0.01, 0.1), max_iter=(1, 10), patience=2, seed=4).fit(
        features, names
    )
    assert by_hand.score(features, names) == pytest.approx(
        (by_hand.predict(features) == names).mean()
    )
    np.testing.assert_allclose(by_hand.predict_proba(features).sum(1), 1)
    ours.fit(features, codes)
    assert clone(ours).__dict__.keys() == copy.__dict__.keys()  # a clone is not fitted


def test_a_frame_names_the_features_and_they_must_be_the_same_again() -> None:
    features, codes = data(1)
    frame = pd.DataFrame(features, columns=list("uvwxyz"))
    ours = TopologyClassifier().fit(frame, codes, (frame, codes))
    assert ours.feature_names_in_.tolist() == list("uvwxyz")
    assert (ours.predict(frame) == ours.predict(features)).all()
    turned = frame[list("zyxwvu")]
    try:
        guesses = ours.predict(turned)
    except (AttlasError, ValueError):
        return
    assert (guesses == ours.predict(frame)).all()


def test_it_can_be_fitted_again_on_other_features() -> None:
    features, codes = data(1)
    frame = pd.DataFrame(features, columns=list("uvwxyz"))
    ours = TopologyClassifier().fit(frame, codes, (frame, codes))
    again = ours.fit(features[:, :3], codes, (features[:, :3], codes))
    other = TopologyClassifier().fit(features[:, :3], codes, (features[:, :3], codes))
    np.testing.assert_array_equal(again.coef_, other.coef_)
    assert again.n_features_in_ == 3
    assert not hasattr(again, "feature_names_in_")


def test_nothing_given_is_changed() -> None:
    features, codes = data(1)
    others, wanted = data(2)
    given_ = features, codes, others, wanted
    kept = [array.copy() for array in given_]
    for array in given_:
        array.setflags(write=False)
    ours = TopologyClassifier(C=(0.1,), max_iter=(1, 5)).fit(features, codes, (others, wanted))
    ours.predict_proba(others)
    TopologyClassifier(C=(0.1,), max_iter=(1, 5)).fit(features, codes)
    for array, before in zip(given_, kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_it_is_saved_without_a_pickle_and_predicts_the_same(tmp_path: Path) -> None:
    for number, (names, classes) in enumerate(
        [
            (["ham", "spam"], 2),
            ([3, 1, 2], 3),
            ([True, False], 2),
            ([0.5, 1.5], 2),
            (["ä", "<b>", "名"], 3),
        ]
    ):
        features, codes = data(number, classes=classes)
        labels = np.array(names)[codes]
        frame = pd.DataFrame(features, columns=[f"L0.H{head}.b0@0.1" for head in range(6)])
        ours = TopologyClassifier(C=[0.01, 0.1], max_iter=(1, 10)).fit(
            frame, labels, (frame, labels)
        )
        place = ours.save(tmp_path / str(number) / "deep")
        assert {path.name for path in place.iterdir()} == {
            "classifier.json",
            "classifier.safetensors",
        }
        assert not any(path.read_bytes().startswith((b"\x80", b"PK")) for path in place.iterdir())
        loaded = TopologyClassifier.load(place)
        np.testing.assert_array_equal(loaded.predict_proba(frame), ours.predict_proba(frame))
        np.testing.assert_array_equal(loaded.predict(frame), ours.predict(frame))
        assert loaded.predict(frame).dtype == ours.predict(frame).dtype
        assert (loaded.C_, loaded.max_iter_, loaded.n_features_in_) == (ours.C_, ours.max_iter_, 6)
        assert loaded.feature_names_in_.tolist() == list(frame.columns)
        pd.testing.assert_frame_equal(loaded.dev_scores_, ours.dev_scores_)
        assert loaded.save(place) == place  # over itself
        np.testing.assert_array_equal(TopologyClassifier.load(place).coef_, ours.coef_)


def test_a_grid_of_numpy_is_saved_too(tmp_path: Path) -> None:
    features, codes = data()
    ours = TopologyClassifier(C=np.logspace(-3, 0, 3), max_iter=np.array([1, 5]), seed=np.int64(2))
    place = ours.fit(features, codes).save(tmp_path / "classifier")
    np.testing.assert_array_equal(TopologyClassifier.load(place).coef_, ours.coef_)


def test_what_is_no_classifier_is_refused(tmp_path: Path) -> None:
    features, codes = data()
    with pytest.raises(AttlasError, match="holds no topology classifier"):
        TopologyClassifier.load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AttlasError, match="holds no topology classifier"):
        TopologyClassifier.load(tmp_path / "empty")
    good = TopologyClassifier(C=(0.1,), max_iter=(1,)).fit(features, codes).save(tmp_path / "good")
    about = json.loads((good / "classifier.json").read_text())
    for name, break_it in {
        "half the arrays": lambda place: (place / "classifier.safetensors").write_bytes(
            (good / "classifier.safetensors").read_bytes()[:-40]
        ),
        "no arrays": lambda place: (place / "classifier.safetensors").unlink(),
        "no JSON": lambda place: (place / "classifier.json").write_text("{oops"),
        "a list": lambda place: (place / "classifier.json").write_text("[1]"),
        "bytes": lambda place: (place / "classifier.json").write_bytes(b"\xff\xfe"),
        "another kind": lambda place: (place / "classifier.json").write_text(
            json.dumps({**about, "format": "bread"})
        ),
        "a key is missing": lambda place: (place / "classifier.json").write_text(
            json.dumps({key: value for key, value in about.items() if key != "classes"})
        ),
        "another parameter": lambda place: (place / "classifier.json").write_text(
            json.dumps({**about, "parameters": {"penalty": 1}})
        ),
    }.items():
        place = shutil.copytree(good, tmp_path / name)
        break_it(place)
        with pytest.raises(AttlasError) as caught:
            TopologyClassifier.load(place)
        assert str(place) in str(caught.value)
    with pytest.raises(NotFittedError):
        TopologyClassifier().save(tmp_path / "unfitted")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StudyError, match="cannot be written"):
        TopologyClassifier.load(good).save(tmp_path / "file")


@pytest.fixture
def fitted() -> TopologyClassifier:
    return TopologyClassifier(C=(0.1,), max_iter=(3,)).fit(*data())


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "gone"])
def test_a_damaged_classifier_is_refused(
    how: str,
    fitted: TopologyClassifier,
    tmp_path: Path,
) -> None:
    path = fitted.save(tmp_path) / "classifier.safetensors"
    content = path.read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])  # in a number: the file can still be read
    path.write_bytes({"cut": content[:-8], "empty": b"", "changed": changed, "gone": b""}[how])
    if how == "gone":
        path.unlink()
    with pytest.raises(AttlasError, match="holds no topology classifier") as caught:
        TopologyClassifier.load(tmp_path)
    assert how == "gone" or "has changed since it was written" in str(caught.value)


def test_the_model_of_the_features_is_noted(
    bert: Model,
    fitted: TopologyClassifier,
    tmp_path: Path,
) -> None:
    features = TopologyFeatures(bert).fit()
    for number, source in enumerate((bert, features, (bert.network, bert.tokenizer))):
        place = fitted.save(tmp_path / str(number), source)
        loaded = TopologyClassifier.load(place, bert)
        assert loaded.fitted_on_["identity"] == {
            part: value for part, value in bert.identity().items() if part != "device"
        }
        again = TopologyClassifier.load(loaded.save(tmp_path / f"{number} again"))
        assert again.fitted_on_ == loaded.fitted_on_
    left = tiny("bert")
    left.tokenizer.truncation_side = "left"
    for other, part in (
        (tiny("bert", seed=1), "weights"),
        (TopologyFeatures(left), "tokenizer"),
        (attlas.load((bert.network, bert.tokenizer), max_length=5), "max_length"),
    ):
        with pytest.raises(ModelError, match=rf"\(differs in {part}\)") as caught:
            TopologyClassifier.load(tmp_path / "0", other)
        assert "\n" not in str(caught.value)


def test_a_model_given_by_its_folder_is_loaded_as_it_was_noted(
    fitted: TopologyClassifier,
    tmp_path: Path,
) -> None:
    tiny("bert", "classify").save(tmp_path / "model")
    whole = attlas.load(tmp_path / "model", task="classify")
    for name, source in {"whole": whole, "base": tmp_path / "model"}.items():
        TopologyClassifier.load(fitted.save(tmp_path / name, source), tmp_path / "model")
    with pytest.raises(ModelError, match="differs in weights"):
        TopologyClassifier.load(tmp_path / "base", whole)


def test_classifiers_of_earlier_versions_and_without_a_model_are_read(
    bert: Model, fitted: TopologyClassifier, tmp_path: Path
) -> None:
    path = fitted.save(tmp_path) / "classifier.json"
    assert TopologyClassifier.load(tmp_path, bert).fitted_on_ is None
    about = json.loads(path.read_text())
    del about["files"], about["model"]
    path.write_text(json.dumps(about))
    again = TopologyClassifier.load(tmp_path, bert)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    assert again.fitted_on_ is None


def test_it_is_saved_over_a_classifier_and_nothing_else(
    fitted: TopologyClassifier,
    tmp_path: Path,
) -> None:
    for name, content in {
        "classifier.json": '{"format": "attlas attention classifier 1"}',
        "classifier.safetensors": "mine",
        "notes.txt": "mine",
    }.items():
        place = tmp_path / name
        place.mkdir()
        (place / name).write_text(content)
        with pytest.raises(
            StudyError, match=rf"is not empty \(it has {name}\) and holds no topology"
        ):
            fitted.save(place)
        assert [(path.name, path.read_text()) for path in place.iterdir()] == [(name, content)]
    other = TopologyClassifier(C=(1.0,), max_iter=(50,)).fit(*data(3))
    place = other.save(tmp_path / "kept")
    (place / "notes.txt").write_text("mine")
    fitted.save(place)
    np.testing.assert_array_equal(TopologyClassifier.load(place).coef_, fitted.coef_)
    assert (place / "notes.txt").read_text() == "mine"


def refused() -> dict[str, tuple[Callable[[], Any], str]]:
    features, codes = data()
    hole = features.copy()
    hole[3, 2] = np.nan
    endless = features.copy()
    endless[0, 1] = np.inf
    named = pd.DataFrame(hole, columns=list("uvwxyz"))
    one = TopologyClassifier(C=(0.1,), max_iter=(1,))
    fitted = clone(one).fit(features, codes)

    def with_grid(**grid: Any) -> TopologyClassifier:
        return clone(one).set_params(**grid).fit(features, codes)

    return {
        "NaN": (lambda: clone(one).fit(hole, codes), "NaN or infinite values, first in column 2"),
        "infinite": (lambda: clone(one).fit(endless, codes), "infinite values, first in column 1"),
        "NaN in a frame": (lambda: clone(one).fit(named, codes), "first in w"),
        "NaN in dev": (lambda: clone(one).fit(features, codes, (hole, codes)), "first in column 2"),
        "NaN to predict": (lambda: fitted.predict(hole), "first in column 2"),
        "one class": (
            lambda: clone(one).fit(features, np.ones(60)),
            "all texts have the same label",
        ),
        "a missing label": (
            lambda: clone(one).fit(features, [np.nan, *codes[1:]]),
            "labels are missing",
        ),
        "fewer labels": (lambda: clone(one).fit(features, codes[:-1]), "60 texts but 59 labels"),
        "no labels": (lambda: clone(one).fit(features, []), "60 texts but 0 labels"),
        "no texts": (lambda: clone(one).fit(features[:0], []), "at least one text"),
        "one axis": (lambda: clone(one).fit(features[0], codes), r"shape \(6,\)"),
        "fewer features": (
            lambda: fitted.predict(features[:, :5]),
            "5 features, but the classifier was fitted on 6",
        ),
        "more features": (lambda: fitted.predict_proba(np.ones((2, 7))), "7 features"),
        "other features in dev": (
            lambda: clone(one).fit(features, codes, (features[:, :5], codes)),
            "5 features",
        ),
        "other lengths in dev": (
            lambda: clone(one).fit(features, codes, (features, codes[:-1])),
            "60 .*59",
        ),
        "no dev texts": (
            lambda: clone(one).fit(features, codes, (features[:0], codes[:0])),
            "at least one text",
        ),
        "unknown labels in dev": (
            lambda: clone(one).fit(features, codes, (features, codes + 1)),
            "no training text has: 2",
        ),
        "no C": (lambda: with_grid(C=()), "C"),
        "C of 0": (lambda: with_grid(C=(0.0,)), "C"),
        "a negative C": (lambda: with_grid(C=(-1.0,)), "C"),
        "no max_iter": (lambda: with_grid(max_iter=()), "max_iter"),
        "max_iter of 0": (lambda: with_grid(max_iter=(0,)), "max_iter"),
    }


@pytest.mark.parametrize("case", refused())
def test_what_cannot_be_is_refused_in_a_line(case: str) -> None:
    call, message = refused()[case]
    with pytest.raises(
        CorpusError if "unknown labels" in case else MeasureError, match=message
    ) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_column_of_labels_is_refused_or_taken_as_labels() -> None:
    features, codes = data()
    plain = TopologyClassifier(C=(0.1,), max_iter=(5,)).fit(features, codes, (features, codes))
    try:
        column = TopologyClassifier(C=(0.1,), max_iter=(5,)).fit(
            features, codes[:, None], (features, codes)
        )
    except (AttlasError, ValueError):
        return
    np.testing.assert_array_equal(column.coef_, plain.coef_)


def test_a_dev_of_one_label_is_no_cause_for_warnings() -> None:
    features, codes = data()
    features[:, 0] = 50 * codes
    ours = TopologyClassifier(C=(0.1,), max_iter=(1, 50)).fit(
        features, codes, (features[codes == 1], codes[codes == 1])
    )
    assert (ours.dev_scores_["mcc"] == 0).all()  # warnings are errors here


def test_nothing_is_predicted_before_it_is_fitted() -> None:
    features, _ = data()
    for method in ("decision_function", "predict_proba", "predict"):
        with pytest.raises(NotFittedError):
            getattr(TopologyClassifier(), method)(features)


# --- scores ------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.integers(1, 4).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 6), min_size=k, max_size=k), min_size=k, max_size=k
        )
    )
)
def test_mcc_is_scikit_learns(table: list[list[int]]) -> None:
    counts = np.array(table)
    assume(counts.sum())
    labels, guesses = (
        np.repeat(index.reshape(-1), counts.reshape(-1)) for index in np.indices(counts.shape)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that only one label occurs
        theirs = matthews_corrcoef(labels, guesses)
    assert float(mcc(counts)) == pytest.approx(theirs, abs=1e-12)
    found = score(labels, guesses)
    assert found.mcc == pytest.approx(theirs, abs=1e-12)
    assert found.accuracy == pytest.approx((labels == guesses).mean(), abs=1e-12)
    assert found.n == counts.sum()
    assert found.accuracy_low - 1e-9 <= found.accuracy <= found.accuracy_high + 1e-9
    assert -1 - 1e-9 <= found.mcc_low <= found.mcc_high <= 1 + 1e-9
    assert found.mcc_low - 1e-9 <= found.mcc <= found.mcc_high + 1e-9


def test_mcc_of_many_tables_at_once() -> None:
    tables = np.random.default_rng(0).integers(0, 9, (5, 4, 3, 3))
    assert mcc(tables).shape == (5, 4)
    assert mcc(tables)[2, 1] == mcc(tables[2, 1])


def drawn(n: int, right: float, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, seed])
    labels = np.random.default_rng(n).integers(0, classes, n)
    return labels, np.where(rng.random(n) < right, labels, rng.integers(0, classes, n))


@pytest.mark.parametrize(("n", "right", "classes"), [(60, 0.9, 2), (300, 0.6, 2), (200, 0.75, 3)])
def test_the_interval_is_that_of_a_bootstrap_over_texts(n: int, right: float, classes: int) -> None:
    labels, guesses = drawn(n, right, classes)
    found = score(labels, guesses)
    assert found.mcc_low < found.mcc < found.mcc_high
    assert found.accuracy_low < found.accuracy < found.accuracy_high
    assert (found.accuracy_low, found.accuracy_high) == wilson(found.accuracy, n)
    low, high = bootstrap_slowly([labels, guesses], mcc_slowly, spread=True)
    assert (found.mcc_low, found.mcc_high) == pytest.approx((low, high), abs=0.1 * (high - low))
    assert found.mcc_high - found.mcc_low == pytest.approx(high - low, rel=0.12)
    low, high = bootstrap_slowly([labels, guesses], mcc_slowly, spread=False)
    assert found.mcc_high - found.mcc_low == pytest.approx(high - low, rel=0.12)
    assert score(labels, guesses) == found
    assert score(labels, guesses, seed=1) != found
    names = np.array(["x", "y", "z"])
    assert score(names[labels], names[guesses]) == found
    assert found.to_dict()["mcc"] == found.mcc


def test_the_difference_of_two_classifiers_is_paired() -> None:
    labels, one = drawn(200, 0.8, 3)
    _, two = drawn(200, 0.7, 3, seed=1)
    found = difference(labels, one, two)
    assert found["mcc"] == pytest.approx(
        matthews_corrcoef(labels, one) - matthews_corrcoef(labels, two)
    )
    low, high = bootstrap_slowly(
        [labels, one, two], lambda a, b, c: mcc_slowly(a, b) - mcc_slowly(a, c), spread=True
    )
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=0.1 * (high - low))
    turned = difference(labels, two, one)
    assert turned["mcc"] == -found["mcc"]
    same = difference(labels, one, one)
    assert (
        same["low"] < same["mcc"] == 0 < same["high"]
    )  # that they agree on 200 texts is not that they always do
    assert same["high"] - same["low"] < 0.2 * (high - low)
    names = np.array(["x", "y", "z"])
    assert difference(names[labels], names[one], names[two]) == found
    near = one.copy()
    near[:3] = (near[:3] + 1) % 3
    close = difference(labels, one, near)
    assert close["high"] - close["low"] < 0.5 * (
        score(labels, one).mcc_high - score(labels, one).mcc_low
    )


@pytest.mark.parametrize(
    "parts", [("ab", "abc", "abcd"), ("ab", "ab", "a"), ("abc", "ab", "a"), ("", "", "")]
)
def test_differences_of_unlike_lengths_are_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(AttlasError):
        difference(*map(list, parts))


def test_degenerate_scores() -> None:
    one = score(["a"] * 5, ["a"] * 5)
    assert one.to_dict() == {
        "mcc": 0.0,
        "mcc_low": 0.0,
        "mcc_high": 0.0,
        "accuracy": 1.0,
        "accuracy_low": wilson(1.0, 5)[0],
        "accuracy_high": 1.0,
        "n": 5,
    }
    assert score(["a", "b"], ["c", "c"]).accuracy == 0  # a guess that is no label
    perfect = score(["a", "b"] * 50, ["a", "b"] * 50)
    assert (perfect.mcc, perfect.mcc_high, perfect.accuracy_high) == (1.0, 1.0, 1.0)
    assert (
        0.9 < perfect.mcc_low < 1
    )  # a hundred texts without an error do not prove that there never is one


@pytest.mark.parametrize(("labels", "guesses"), [("abc", "abcde"), ("ab", "abc"), ("", "")])
def test_scores_of_unlike_lengths_are_refused(labels: str, guesses: str) -> None:
    with pytest.raises(AttlasError, match=f"{len(labels)}"):
        score(list(labels), list(guesses))


# --- features ----------------------------------------------------------------------------------

TEXTS = [
    "a cat sat .",
    "the dog saw a cat , and it was not very good !",
    "good",
    "a cat sat .",
    "they was in the mat of you ?",
    "a dog",
]


@pytest.fixture(scope="module")
def bert() -> Model:
    return shared("bert")


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches were made, from now on."""
    from attlas.models.encode import Encoder

    batches, make = [0], Encoder.batch

    def count(*arguments: Any) -> Any:
        batches[0] += 1
        return make(*arguments)

    monkeypatch.setattr(Encoder, "batch", count)
    return batches


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_features_are_those_of_the_pure_functions_text_by_text(family: str) -> None:
    model, thresholds = tiny(family), (0.3, 0.05)
    ours = TopologyFeatures(model, features=("digraph", "betti"), thresholds=thresholds)
    matrix = ours.fit_transform(TEXTS)
    names = list(ours.get_feature_names_out())
    for row, text in zip(matrix, TEXTS, strict=True):
        slowly = row_slowly(model, text, ["digraph", "betti"], thresholds)
        assert set(names) == set(slowly)
        np.testing.assert_allclose(row, [slowly[name] for name in names], rtol=1e-6)
    assert (matrix[0] == matrix[3]).all()
    assert len(np.unique(matrix, axis=0)) == 5


def test_features_are_the_tables_of_a_study(bert: Model, tmp_path: Path) -> None:
    kinds = ["templates", "betti", "barcode", "digraph"]
    ours = TopologyFeatures(bert, features=kinds)
    texts = [
        *TEXTS[:3],
        attlas.Text("same id", "a dog"),
        attlas.Text("same id", words=("a", "cat's", "mat")),
    ]
    matrix = ours.fit_transform(texts)
    plain = [*TEXTS[:3], "a dog", attlas.Text("4", words=("a", "cat's", "mat"))]
    study = attlas.study(bert, plain, kinds, out=tmp_path / "study")
    frame = pd.concat([study.table(kind).drop(columns="text") for kind in kinds], axis=1)
    assert list(ours.get_feature_names_out()) == list(frame.columns)
    np.testing.assert_array_equal(matrix, frame.to_numpy(dtype=np.float32))
    assert study.table("betti")["text"].tolist() == list("01234")


def test_templates_are_features_too(bert: Model) -> None:
    ours = TopologyFeatures(bert, features="templates", heads=[(1, 2)]).fit()
    row = ours.transform(["a cat , and a dog ."])[0]
    seen = attlas.attention(bert, "a cat , and a dog .")
    named = dict(zip(ours.get_feature_names_out(), row, strict=True))
    weights = np.asarray(seen.weights)[1, 2]
    expected = np.linalg.norm(weights - np.eye(len(weights))) / np.sqrt(
        np.linalg.norm(weights) ** 2 + len(weights)
    )
    assert named["L1.H2.self"] == pytest.approx(expected, rel=1e-5)


def test_some_heads_and_some_kinds_are_the_right_columns(bert: Model) -> None:
    everything = TopologyFeatures(bert, features=("betti", "templates")).fit()
    matrix, names = everything.transform(TEXTS), list(everything.get_feature_names_out())
    some = TopologyFeatures(
        bert, features=("betti", "templates"), heads=[(2, 1), (0, 3), (2, 1)]
    ).fit()
    wanted = [place for place, name in enumerate(names) if name.startswith(("L0.H3.", "L2.H1."))]
    assert list(some.get_feature_names_out()) == [names[place] for place in wanted]
    np.testing.assert_array_equal(some.transform(TEXTS), matrix[:, wanted])
    assert columns_of(names, [(2, 1), (0, 3)]) == wanted
    one = TopologyFeatures(bert, features=["templates"]).fit()
    np.testing.assert_array_equal(
        one.transform(TEXTS), matrix[:, [names.index(name) for name in one.get_feature_names_out()]]
    )
    assert matrix.dtype == np.float32
    assert everything.transform([]).shape == (0, len(names))
    turned = everything.transform(TEXTS[::-1])
    np.testing.assert_array_equal(turned, matrix[::-1])


def test_a_cache_is_found_again_by_content(
    bert: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"cache": tmp_path / "cache", "thresholds": (0.1,)}
    first = TopologyFeatures(bert, **options).fit().transform(TEXTS)
    batches = counted(monkeypatch)
    again = TopologyFeatures(load_again(bert), **options).fit()
    probe = batches[0]  # a pass over one word shows how many layers there are
    np.testing.assert_array_equal(again.transform(np.array(TEXTS)), first)
    np.testing.assert_array_equal(again.transform(pd.Series(TEXTS, index=range(6, 0, -1))), first)
    assert batches[0] == probe
    assert len(list((tmp_path / "cache").iterdir())) == 1
    for other in (
        TopologyFeatures(tiny("bert", seed=1), **options),
        TopologyFeatures(bert, **{**options, "thresholds": (0.2,)}),
    ):
        alone = TopologyFeatures(other.model, thresholds=other.thresholds).fit().transform(TEXTS)
        np.testing.assert_array_equal(other.fit().transform(TEXTS), alone)
        assert (alone != first).any()
    assert (again.transform(TEXTS[::-1]) == first[::-1]).all()
    assert (again.transform([*TEXTS[:-1], "a cat"]) != first).any()
    assert len(list((tmp_path / "cache").iterdir())) == 5


def test_everything_of_a_text_counts_but_its_id(tmp_path: Path) -> None:
    """Spans of `global` attention are part of what a Longformer reads."""
    model = tiny("longformer")
    plain = [attlas.Text(str(number), one) for number, one in enumerate(TEXTS)]
    wide = [replace(one, annotations={"global": [(0, 5)]}) for one in plain]
    moved = [replace(one, id=f"{one.id} moved") for one in wide]
    for options in ({}, {"cache": tmp_path / "cache"}):
        ours = TopologyFeatures(model, **options).fit()
        narrow, found = ours.transform(plain), ours.transform(wide)
        study = attlas.study(model, wide, "betti").table("betti").drop(columns="text")
        np.testing.assert_array_equal(found, study.to_numpy(dtype=np.float32))
        assert (narrow != found).any()
        np.testing.assert_array_equal(ours.transform(moved), found)
    count = len(list((tmp_path / "cache").iterdir()))
    assert count == 2
    for change in (
        {"label": "a"},
        {"annotations": {"rationale": [(0, 5)]}},
        {"annotations": {"note": np.arange(2)}},
        {"annotations": {"note": np.arange(1, 3)}},
    ):
        ours.transform([replace(plain[0], **change), *plain[1:]])
        count += 1
        assert len(list((tmp_path / "cache").iterdir())) == count


def test_the_tokenizer_counts_and_so_does_the_code(
    bert: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the memory of one object, whose model is changed in place."""
    model = replace(tiny("bert"), limit=5)
    for options in ({}, {"cache": tmp_path / "cache"}):
        model.tokenizer.truncation_side = "right"
        ours = TopologyFeatures(model, **options).fit()
        first = ours.transform(TEXTS)
        model.tokenizer.truncation_side = "left"
        second = ours.transform(TEXTS)
        np.testing.assert_array_equal(second, TopologyFeatures(model).fit_transform(TEXTS))
        assert (first != second).any()
    keys = {ours._key(texts_of(TEXTS))}
    monkeypatch.setattr("attlas.topology.features.source_digest", lambda: "other code")
    assert ours._key(texts_of(TEXTS)) not in keys


def texts_of(strings: Sequence[str]) -> list[attlas.Text]:
    return [attlas.Text(str(number), one) for number, one in enumerate(strings)]


@pytest.mark.parametrize("how", ["cut", "gone", "manifest"])
def test_a_damaged_cache_is_made_again(how: str, bert: Model, tmp_path: Path) -> None:
    first = TopologyFeatures(bert, cache=tmp_path).fit().transform(TEXTS)
    (place,) = tmp_path.iterdir()
    table = place / "tables" / "betti.parquet"
    if how == "manifest":
        manifest = json.loads((place / "manifest.json").read_text())
        (place / "manifest.json").write_text(json.dumps({**manifest, "status": "running"}))
    elif how == "gone":
        table.unlink()
    else:
        table.write_bytes(table.read_bytes()[:-9])
    again = TopologyFeatures(bert, cache=tmp_path).fit().transform(TEXTS)
    np.testing.assert_array_equal(again, first)
    assert list(tmp_path.iterdir()) == [place]


def load_again(model: Model) -> Model:
    return attlas.load((model.network, model.tokenizer))


def test_without_a_cache_the_same_object_remembers(
    bert: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = TopologyFeatures(bert).fit()
    first = ours.transform(TEXTS)
    first[:] = -1  # what was handed out is the caller's own
    batches = counted(monkeypatch)
    again = ours.transform(TEXTS)
    assert batches[0] == 0
    assert (again >= 0).all()
    ours.set_params(heads=[(0, 0)]).fit()
    np.testing.assert_array_equal(ours.transform(TEXTS), again[:, : 2 * 6])
    assert batches[0] == 0


@pytest.mark.parametrize("cached", [False, True], ids=["memory", "cache"])
def test_the_same_weights_that_read_texts_otherwise_are_another_model(
    cached: bool, bert: Model, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"cache": tmp_path / "cache"} if cached else {}
    short = attlas.load((bert.network, bert.tokenizer), max_length=4)
    ours = TopologyFeatures(bert, **options).fit()
    whole = ours.transform(TEXTS)
    cut = ours.set_params(model=short).fit().transform(TEXTS)
    np.testing.assert_array_equal(cut, TopologyFeatures(short).fit_transform(TEXTS))
    assert (cut != whole).any()
    np.testing.assert_array_equal(ours.set_params(model=bert).fit().transform(TEXTS), whole)


def test_a_clone_shares_the_model(bert: Model) -> None:
    ours = TopologyFeatures(bert, heads=[(0, 1)], thresholds=[0.1], features=["betti"]).fit()
    copy = clone(ours)
    assert copy.model is bert
    assert copy.get_params() == ours.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(TEXTS)
    with pytest.raises(NotFittedError):
        copy.get_feature_names_out()
    pipe = make_pipeline(ours, TopologyClassifier(C=(0.1,), max_iter=(3,)))
    assert clone(pipe)[0].model is bert


def test_texts_to_labels_in_one_pipeline(bert: Model) -> None:
    draw = np.random.default_rng(0)
    words = ["cat", "dog", "sat", "mat"]
    texts = [" ".join(draw.choice(words, 3 if number % 2 else 9)) for number in range(30)]
    labels = ["short" if number % 2 else "long" for number in range(30)]
    pipe = make_pipeline(
        TopologyFeatures(bert, heads=[(0, 0), (1, 1)]), TopologyClassifier(C=(0.1,), max_iter=(10,))
    )
    assert cross_val_score(pipe, texts, labels, cv=2).min() > 0.9
    assert pipe.fit(texts, labels).predict(
        ["cat", "dog sat mat cat dog sat mat cat dog"]
    ).tolist() == ["short", "long"]


UNREADABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "an empty text": (lambda: ["a cat", ""], "text '1': the text is empty"),
    "a blank text": (lambda: [" \n"], "text '0': the text is empty"),
    "no string": (lambda: ["a cat", None], "a text is a NoneType; pass strings"),
    "a number": (lambda: [3], "a text is a int; pass strings"),
    "one string": (lambda: "a cat", "one string was given; pass a list"),
    "a NUL byte": (lambda: ["a\0b"], "NUL"),
    "a text without a token": (lambda: ["a cat", "\u200b"], "no tokens for text 1 .*; exclude it"),
    "only a text without a token": (lambda: ["\x01"], "no token"),
    "a frame": (lambda: pd.DataFrame({"text": TEXTS, "label": 1}), "DataFrame"),
    "a mapping": (lambda: {"text": TEXTS}, "dict|mapping"),
    "nothing": (lambda: None, "NoneType"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_text_is_refused_in_a_line(case: str, bert: Model) -> None:
    make, message = UNREADABLE[case]
    with pytest.raises(CorpusError, match=message) as caught:
        TopologyFeatures(bert).fit().transform(make())
    assert "\n" not in str(caught.value)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"features": ()}, "features are some of betti, digraph, barcode, templates"),
    "an unknown kind": ({"features": ["betty"]}, "not betty"),
    "a measure of another kind": ({"features": "surface"}, "not surface"),
    "no head": ({"heads": []}, "layers 0 to 2 and heads 0 to 3"),
    "an unknown head": ({"heads": [(0, 0), (3, 0)]}, "no head L3.H0; the model has layers 0 to 2"),
    "a negative head": ({"heads": [(-1, 0)]}, "L-1.H0"),
    "one pair": ({"heads": (1, 2)}, "heads"),
    "no threshold": ({"thresholds": ()}, "no thresholds"),
    "a threshold of 0": ({"thresholds": (0.0,)}, "threshold is 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters_are_said_when_fitting(case: str, bert: Model) -> None:
    options, message = WRONG[case]
    with pytest.raises(MeasureError, match=message):
        TopologyFeatures(bert, **options).fit()


def test_names_of_features() -> None:
    assert head_of("L11.H3.b0@0.1") == (11, 3)
    with pytest.raises(MeasureError, match="not the name of a feature"):
        head_of("tokens")


# --- heads -------------------------------------------------------------------------------------


def heads_data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two features of each of 2 x 3 heads; (1, 2) predicts the label, (0, 1) less well."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, 120)
    features = draw.normal(size=(120, 12))
    features[:, 10] += 4 * labels  # L1.H2.a
    features[:, 3] += 1.2 * labels  # L0.H1.b
    return features, np.array(["no", "yes"])[labels]


NAMES = [f"L{layer}.H{head}.{name}" for layer in range(2) for head in range(3) for name in "ab"]


def test_the_head_that_carries_the_label_is_found() -> None:
    progress: list[tuple[int, int]] = []
    train, dev, test = (heads_data(seed) for seed in range(3))
    scores = score_heads(
        NAMES, train, dev, test, on_progress=lambda done, total: progress.append((done, total))
    )
    assert scores[["layer", "head"]].to_numpy().tolist() == [
        [0, 0],
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
        [1, 2],
    ]
    assert list(scores.columns) == ["layer", "head", "train", "dev", "test"]
    assert progress == [(number, 6) for number in range(1, 7)]
    for part in ("train", "dev", "test"):
        assert best_heads(scores, 2, by=part) == [(1, 2), (0, 1)]
    assert scores.iloc[5]["test"] > 0.85
    others = scores.drop([1, 5])
    assert others[["dev", "test"]].abs().to_numpy().max() < 0.3
    alike = likeness(scores)
    assert alike["pearson"] == pytest.approx(np.corrcoef(scores["train"], scores["test"])[0, 1])
    assert alike["spearman"] == pytest.approx(scores[["train", "test"]].corr("spearman").iloc[0, 1])
    assert alike["pearson"] > 0.9
    by_hand = TopologyClassifier().fit(train[0][:, 10:], train[1], (dev[0][:, 10:], dev[1]))
    assert scores.iloc[5]["test"] == pytest.approx(
        matthews_corrcoef(test[1], by_hand.predict(test[0][:, 10:]))
    )
    few = score_heads(NAMES, train, dev, classifier=TopologyClassifier(C=(0.1,), max_iter=(1,)))
    assert list(few.columns) == ["layer", "head", "train", "dev"]


def test_columns_in_any_order_are_scored_alike() -> None:
    train, dev, test = (heads_data(seed) for seed in range(3))
    order = np.random.default_rng(0).permutation(12)
    turned = [(features[:, order], labels) for features, labels in (train, dev, test)]
    simple = TopologyClassifier(C=(0.1,), max_iter=(3, 10))
    one = score_heads(NAMES, train, dev, test, simple)
    two = score_heads([NAMES[place] for place in order], *turned, simple)
    pd.testing.assert_frame_equal(one, two.sort_values(["layer", "head"], ignore_index=True))


@pytest.mark.parametrize("label", ["a", "of", "zebra"])
def test_a_label_that_no_head_was_fitted_on_is_refused(label: str) -> None:
    train, dev, (features, labels) = (heads_data(seed) for seed in range(3))
    strange = np.where(np.arange(120) < 60, label, labels)
    with pytest.raises(CorpusError, match=f"test has labels that no training text has: {label}"):
        score_heads(
            NAMES, train, dev, (features, strange), TopologyClassifier(C=(0.1,), max_iter=(3,))
        )


def test_among_equal_heads_the_lower_comes_first() -> None:
    scores = pd.DataFrame(
        {"layer": [1, 0, 0], "head": [0, 2, 1], "train": [0.5, 0.5, 0.5], "test": [1, 1, 1]}
    )
    assert best_heads(scores, 2) == [(0, 1), (0, 2)]
    assert best_heads(scores, 12) == [(0, 1), (0, 2), (1, 0)]
    assert np.isnan([*likeness(scores).values()]).all()  # the maps are flat


# --- experiments -------------------------------------------------------------------------------


def subset(name: str, start: int, count: int) -> list[attlas.Text]:
    by_label: dict[str, list[attlas.Text]] = {}
    for text in attlas.read(f"embedded:{name}"):
        by_label.setdefault(str(text.label), []).append(text)
    return [
        text
        for group in by_label.values()
        for text in group[start : start + count // len(by_label)]
    ]


PARTS: dict[str, Any] = {
    "train": subset("messages", 0, 36),
    "dev": subset("messages", 18, 16),
    "test": subset("messages", 26, 20),
}
KEYS = {"mcc", "mcc_low", "mcc_high", "accuracy", "accuracy_low", "accuracy_high", "n"}


def go(
    model: Any, out: Path, *, fresh: bool = False, cache: Path | None = None, **options: Any
) -> Study:
    fields = {**PARTS, "model": model, "thresholds": (0.05, 0.1, 0.25), **options}
    return attlas.run(attlas.Topology(**fields), out, fresh=fresh, cache=cache, progress=False)


def classifier_of(done: Study) -> TopologyClassifier:
    return TopologyClassifier.load(done.folder / done.result["classifier"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny model and what was fine-tuned from it."""
    root = tmp_path_factory.mktemp("models")
    model = tiny("bert")
    model.network.save_pretrained(root / "base")
    model.tokenizer.save_pretrained(root / "base")
    tuning = attlas.Finetune(
        texts=PARTS["train"], dev=PARTS["dev"], model=root / "base", epochs=1, learning_rate=1e-3
    )
    attlas.run(tuning, root / "tuned", progress=False)
    return root / "base", root / "tuned"


@pytest.fixture(scope="module")
def done(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return go(folders[1], tmp_path_factory.mktemp("experiment") / "out")


def small(task: str = "base", seed: int = 0, **options: Any) -> Model:
    """One layer of four heads: fewer than the twelve best."""
    return tiny("bert", task, seed, num_hidden_layers=1, **options)


def tables_of(folder: Path) -> dict[str, pd.DataFrame]:
    return {
        path.stem: pd.read_parquet(path) for path in sorted((folder / "tables").glob("*.parquet"))
    }


def test_an_experiment_says_what_it_should(done: Any, folders: tuple[Path, Path]) -> None:
    result = done.result
    assert set(result) >= KEYS
    assert set(result["heads"]) == {"12", "3", "1"}
    assert set(result["controls"]) == {"random_model", "frozen_model", "length_only"}
    for part in (result["model"], *result["heads"].values(), *result["controls"].values()):
        assert set(part) >= KEYS
        assert -1 <= part["mcc_low"] <= part["mcc"] <= part["mcc_high"] <= 1
        assert part["n"] == 20
    assert [len(result["heads"][count]["chosen"]) for count in ("12", "3", "1")] == [12, 3, 1]
    assert result["heads"]["3"]["chosen"][0] == result["heads"]["1"]["chosen"][0]
    assert result["texts"] == {"train": 36, "dev": 16, "test": 20}
    expected = {
        "kinds": ["betti"],
        "thresholds": [0.05, 0.1, 0.25],
        "columns": 3 * 4 * 6,
        "left_out": 0,
    }
    assert result["features"] == expected
    assert result["truncated"] == {"train": 0, "dev": 0, "test": 0}
    assert result["test_texts_in_train"] == 0
    gap = result["difference_from_model"]
    assert gap["mcc"] == pytest.approx(result["mcc"] - result["model"]["mcc"])
    assert gap["low"] <= gap["mcc"] <= gap["high"]
    apart, scores = done.table("topology_differences"), done.table("topology")
    reached = scores.set_index("classifier")["mcc"]
    assert apart["control"].tolist() == list(result["controls"])
    for row in apart.to_dict("records"):
        assert row["difference"] == pytest.approx(reached["all"] - reached[row["control"]])
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    claims = SECTIONS["topology"].claims(done)
    assert [(one.difference_low, one.difference_high) for one in claims] == [
        tuple(row)
        for row in apart.loc[apart["difference"] == apart["difference"].min()]
        .iloc[:1][["difference_low", "difference_high"]]
        .to_numpy()
        .tolist()
    ]
    assert result["majority_accuracy"] == 0.5
    assert json.loads(json.dumps(result)) == result
    assert json.loads((done.folder / "result.json").read_text()) == result
    assert done.table("topology")["classifier"].tolist() == [
        "model",
        "all",
        "12",
        "3",
        "1",
        "frozen_model",
        "random_model",
        "length_only",
    ]
    assert done.table("topology").set_index("classifier").loc["all", "mcc"] == pytest.approx(
        result["mcc"]
    )
    assert len(done.table("topology_heads")) == 12
    assert done.manifest["tables"]["topology_heads"]["kind"] == "head"
    assert Study.open(done.folder).tables == [
        "topology",
        "topology_differences",
        "topology_heads",
        "topology_grid",
    ]


def test_an_experiment_is_what_its_parts_give(done: Any, folders: tuple[Path, Path]) -> None:
    base, tuned = folders
    labels = {name: [text.label for text in part] for name, part in PARTS.items()}

    def by_hand(model: Any, heads: Any = None) -> tuple[float, TopologyClassifier]:
        features = TopologyFeatures(model, thresholds=(0.05, 0.1, 0.25), heads=heads).fit()
        matrix = {
            name: features.transform([text.text for text in part]) for name, part in PARTS.items()
        }
        fitted = TopologyClassifier().fit(
            matrix["train"], labels["train"], (matrix["dev"], labels["dev"])
        )
        return matthews_corrcoef(labels["test"], fitted.predict(matrix["test"])), fitted

    loaded = attlas.load(tuned, task="classify")
    mine, fitted = by_hand(loaded)
    assert done.result["mcc"] == pytest.approx(mine)
    assert (done.result["C"], done.result["max_iter"]) == (fitted.C_, fitted.max_iter_)
    np.testing.assert_allclose(classifier_of(done).coef_, fitted.coef_, atol=1e-9)
    assert done.result["controls"]["frozen_model"]["mcc"] == pytest.approx(by_hand(base)[0])
    assert done.result["controls"]["random_model"]["mcc"] == pytest.approx(
        by_hand(loaded.randomized(0))[0]
    )
    chosen = [tuple(head) for head in done.result["heads"]["3"]["chosen"]]
    assert done.result["heads"]["3"]["mcc"] == pytest.approx(by_hand(loaded, chosen)[0])
    assert chosen == best_heads(done.table("topology_heads"), 3)
    tokens = {
        name: np.array(
            [[len(loaded.tokenizer(text.text)["input_ids"])] for text in part], dtype=float
        )
        for name, part in PARTS.items()
    }
    lengths = {name: np.concatenate([n, n**2, np.log(n)], axis=1) for name, n in tokens.items()}
    only = TopologyClassifier().fit(
        lengths["train"], labels["train"], (lengths["dev"], labels["dev"])
    )
    assert done.result["controls"]["length_only"]["mcc"] == pytest.approx(
        matthews_corrcoef(labels["test"], only.predict(lengths["test"]))
    )
    with torch.no_grad():
        guesses = [
            loaded.network.config.id2label[
                int(
                    loaded.network(
                        **loaded.tokenizer(text.text, return_tensors="pt")
                    ).logits.argmax()
                )
            ]
            for text in PARTS["test"]
        ]
    assert done.result["model"]["mcc"] == pytest.approx(matthews_corrcoef(labels["test"], guesses))


def test_the_same_call_finds_the_result(
    done: Any, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = counted(monkeypatch)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it was fitted again")

    monkeypatch.setattr(TopologyClassifier, "fit", refuse)
    before = {path: path.stat().st_mtime_ns for path in done.folder.rglob("*") if path.is_file()}
    again = go(folders[1], done.folder)
    assert again.result == done.result
    assert batches[0] == 0
    assert {
        path: path.stat().st_mtime_ns for path in done.folder.rglob("*") if path.is_file()
    } == before


def test_an_experiment_killed_before_its_end_resumes_with_the_features_it_has(
    done: Any, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"

    publish = Folder.publish

    def die(place: Folder, *given: Any, **more: Any) -> Any:
        if place.kind != "study":  # all features are there
            raise KeyboardInterrupt
        return publish(place, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "publish", die)
        with pytest.raises(KeyboardInterrupt):
            go(folders[1], folder)
    with pytest.raises(StudyError, match="not complete"):
        Study.open(folder)
    attlas.load(folders[1], task="classify").n_layers  # noqa: B018
    read: list[Any] = []
    make = Model.reading
    monkeypatch.setattr(
        Model,
        "reading",
        lambda self, *a, **k: (read.append(k.get("layers")), make(self, *a, **k))[1],
    )
    again = go(folders[1], folder)
    assert set(read) <= {0, None}
    assert read.count(None) <= 2  # the model's own predictions; features are not read again
    assert {**again.result, "classifier": ""} == {**done.result, "classifier": ""}
    assert not (folder / "states").exists()
    for name, table in tables_of(done.folder).items():
        pd.testing.assert_frame_equal(tables_of(folder)[name], table, check_exact=True)


def test_another_experiment_is_refused_unless_fresh(
    done: Any, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(done.folder, tmp_path / "out")
    before = (folder / "result.json").read_bytes()
    others: dict[str, dict[str, Any]] = {
        "weights": {"model": folders[0]},
        "thresholds": {"thresholds": (0.1,)},
        "features": {"features": ("templates",)},
        "controls": {"controls": False},
        "seed": {"seed": 1},
        "test": {"test": PARTS["test"][:-2]},
        "frozen": {"frozen": folders[1]},
    }
    for name, change in others.items():
        options = {"model": folders[1], **change}
        with pytest.raises(StudyError, match=f"was made with another .*{name}.*--fresh"):
            go(out=folder, **options)
        assert (folder / "result.json").read_bytes() == before
    fresh = go(folders[1], folder, thresholds=(0.1,), controls=False, fresh=True)
    assert fresh.result["features"]["thresholds"] == [0.1]
    assert fresh.result["controls"] == {}
    assert "random_model" not in fresh.table("topology")["classifier"].tolist()
    assert go(folders[1], folder, thresholds=(0.1,), controls=False).result == fresh.result


def test_experiments_may_share_their_features(
    done: Any, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    cache, kept = tmp_path / "features", []
    for number, controls in enumerate((True, False)):
        again = go(folders[1], tmp_path / str(number), cache=cache, controls=controls, fresh=True)
        assert again.result["heads"] == done.result["heads"]
        assert not (tmp_path / str(number) / "states").exists()
        kept.append({path: path.stat().st_mtime_ns for path in cache.glob("*/manifest.json")})
    assert kept[0] == kept[1]
    loaded = attlas.load(folders[1], task="classify")
    models = (loaded, attlas.load(folders[0]), loaded.randomized(0))
    read = [json.loads(path.read_text())["model"]["name"] for path in kept[0]]
    assert sorted(read) == sorted(3 * [model.name for model in models])


def test_features_that_some_text_lacks_are_left_out(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)

    def part(name: str, longest: int) -> list[attlas.Text]:
        lengths = [*draw.integers(4, 10, 23), longest]
        return [
            attlas.Text(
                f"{name} {number}",
                " ".join(draw.choice(["cat", "dog", "mat"], length)),
                "ab"[number % 2],
            )
            for number, length in enumerate(lengths)
        ]

    for longest, left_out in ((9, 0), (20, 4 * 8)):  # eight numbers of holes a head
        parts = {"train": part("train", 9), "dev": part("dev", longest), "test": part("test", 9)}
        found = go(
            small(),
            tmp_path / str(longest),
            **parts,
            features=[BarcodeMeasure(h1_tokens=12)],
            controls=False,
        )
        assert found.result["features"]["left_out"] == left_out
        assert (
            found.result["features"]["columns"]
            == len(classifier_of(found).feature_names_in_)
            == 4 * 14 - left_out
        )
        assert any(".h1_" in name for name in classifier_of(found).feature_names_in_) == (
            left_out == 0
        )


def test_another_frozen_model_is_another_experiment(tmp_path: Path) -> None:
    model = small("classify")
    first = go(model, tmp_path / "out", frozen=small(seed=1), thresholds=(0.1,))
    assert first.result["controls"]["frozen_model"] is not None
    with pytest.raises(StudyError, match="frozen"):
        go(model, tmp_path / "out", frozen=small(seed=2), thresholds=(0.1,))


def test_attention_that_fine_tuning_left_as_it_was_is_read_once(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A classifier of which only the head was trained has the attention of its base model."""
    tuning = attlas.Finetune(
        texts=PARTS["train"], dev=PARTS["dev"], model=folders[0], head_only=True
    )
    attlas.run(tuning, tmp_path / "head", progress=False)
    read: list[str] = []
    features = work.features_of

    def noted(space: Any, model: Model, *rest: Any) -> Any:
        read.append(model.name)
        return features(space, model, *rest)

    monkeypatch.setattr(work, "features_of", noted)
    results = {}
    for name, model in (("head", tmp_path / "head"), ("all", folders[1])):
        results[name] = go(model, tmp_path / f"{name}-out", thresholds=(0.1,)).result
        results[name]["passes"], read[:] = len(read), []
    assert (results["head"]["passes"], results["all"]["passes"]) == (2, 3)
    frozen = results["head"]["controls"]["frozen_model"]
    assert frozen == {name: results["head"][name] for name in frozen}
    assert frozen == results["all"]["controls"]["frozen_model"]


def test_folders_of_others_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(
            StudyError, match=r"is not empty \(it has notes.txt\) and holds no results of Attlas"
        ):
            go(folders[1], tmp_path / "taken", fresh=fresh)
        with pytest.raises(StudyError, match="is a file"):
            go(folders[1], tmp_path / "file", fresh=fresh)
    study = attlas.study(folders[0], ["a cat"], "entropy", out=tmp_path / "study")
    with pytest.raises(StudyError, match=r"another kind of result \(study, not topology\)"):
        go(folders[1], study.folder)
    assert Study.open(study.folder).has("entropy")


def test_an_experiment_without_dev_and_without_a_head(tmp_path: Path) -> None:
    model = small()
    found = go(model, tmp_path / "out", dev=None, thresholds=(0.1,))
    assert found.result["model"] is None
    assert found.result["texts"] == {"train": 32, "dev": 4, "test": 20}
    rows = found.table("topology")["classifier"].tolist()
    assert rows == ["all", "12", "3", "1", "frozen_model", "random_model", "length_only"]
    assert (
        found.result["controls"]["frozen_model"]["mcc"] == found.result["mcc"]
    )  # it is the frozen one
    page = found.report(tmp_path / "report.html").read_text()
    assert "Topological classifier" in page
    assert "the model itself" not in page


def test_a_classifier_of_unknown_origin_has_no_frozen_control(tmp_path: Path) -> None:
    found = go(small("classify"), tmp_path / "out", thresholds=(0.1,))
    assert found.result["controls"]["frozen_model"] is None
    assert "frozen_model" not in found.table("topology")["classifier"].tolist()
    assert found.result["model"]["n"] == 20  # LABEL_0 and LABEL_1 are taken as the labels in order


def test_a_base_model_that_moved_away_is_no_control_and_that_is_said(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    tuned = Path(shutil.copytree(folders[1], tmp_path / "tuned"))
    record = json.loads((tuned / "finetune.json").read_text())
    for base in (str(tmp_path / "gone"), "nobody/no-such-model"):
        (tuned / "finetune.json").write_text(json.dumps({**record, "base": base}))
        found = go(tuned, tmp_path / "out", thresholds=(0.1,))
        assert found.result["controls"]["frozen_model"] is None
        assert found.result["no_frozen_model"].endswith("is not known, or cannot be loaded")
        assert found.manifest["inputs"]["frozen"] == {
            "name": "gone",
            "from": "another input",
        }  # as it was when it was run
    assert f"{tmp_path / 'gone'} cannot be loaded" in (tmp_path / "out" / "log.txt").read_text()
    with pytest.raises(ModelError, match="there is no folder"):  # one that was given is an error
        go(tuned, tmp_path / "other", thresholds=(0.1,), frozen=tmp_path / "gone")


class Counted:
    """An annotation that counts how often it is hashed."""

    times = 0


@feed.register
def _(counted: Counted, put: Put) -> None:
    Counted.times += 1
    put(b"counted")


def test_every_model_is_loaded_once_and_everything_is_hashed_once(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded, weights = import_module("attlas.models.load"), [], []
    read, digest = loading._Source.load, Model.weights_sha256
    monkeypatch.setattr(
        loading._Source, "load", lambda self, task: (loaded.append(self.name), read(self, task))[1]
    )
    monkeypatch.setattr(
        Model, "weights_sha256", lambda self: (weights.append(id(self.network)), digest(self))[1]
    )
    marked = {
        part: [replace(texts[0], annotations={"mark": Counted()}), *texts[1:]]
        for part, texts in PARTS.items()
    }
    go(folders[1], tmp_path / "out", thresholds=(0.1,), **marked)
    assert loaded == [str(folder) for folder in (folders[1], folders[0])]
    assert len(weights) == len(set(weights)) == 2  # random weights are known by their origin
    assert Counted.times == 3  # train, dev and test


def test_a_killed_run_loses_one_fit(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits, fit = [0], TopologyClassifier.fit
    whole = go(small(), tmp_path / "whole", thresholds=(0.1,))

    def count(self: TopologyClassifier, *given: Any, **more: Any) -> Any:
        fits[0] += 1
        if fits[0] == 8:
            raise KeyboardInterrupt
        return fit(self, *given, **more)

    monkeypatch.setattr(TopologyClassifier, "fit", count)
    topology = attlas.Topology(**PARTS, model=small(), thresholds=(0.1,))
    with pytest.raises(KeyboardInterrupt):
        attlas.run(topology, tmp_path / "out", progress=False, workers=1)
    again = attlas.run(topology, tmp_path / "out", progress=False, workers=1)
    # all heads (and the 12 best of four), single heads, 3 best, the best, random, length
    assert fits[0] == 1 + 4 + 2 + 2 + 1
    assert again.result == whole.result


def test_measures_may_be_features(tmp_path: Path) -> None:
    options = {"thresholds": (0.1,), "controls": False}
    by_name = go(small(), tmp_path / "name", **options)
    given = go(small(), tmp_path / "measure", features=[Betti(thresholds=(0.1,))], **options)
    assert given.result["mcc"] == by_name.result["mcc"]
    assert given.manifest["identity"]["features"] != by_name.manifest["identity"]["features"]


def test_a_head_for_other_labels_is_left_out(tmp_path: Path) -> None:
    model = small("classify", id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1})
    found = go(model, tmp_path / "out", thresholds=(0.1,), controls=False)
    assert found.result["model"] is None
    table = found.table("topology")
    assert "model" not in table["classifier"].tolist()
    assert table["mcc"].notna().all()
    assert "the model itself" not in found.report(tmp_path / "report.html").read_text()


def test_a_loaded_encoder_of_a_classifier_is_enough(
    folders: tuple[Path, Path], tmp_path: Path, done: Any
) -> None:
    found = go(attlas.load(folders[1]), tmp_path / "out", controls=False)
    assert found.result["mcc"] == pytest.approx(done.result["mcc"])


def test_what_was_fine_tuned_from_an_object_can_be_analysed(tmp_path: Path) -> None:
    tuning = attlas.Finetune(
        texts=PARTS["train"], dev=PARTS["dev"], model=small("classify"), head_only=True
    )
    attlas.run(tuning, tmp_path / "tuned", progress=False)
    found = go(tmp_path / "tuned", tmp_path / "out", thresholds=(0.1,))
    assert found.result["controls"]["random_model"] is not None


def relabelled(part: str, **names: str) -> list[attlas.Text]:
    return [
        attlas.Text(one.id, one.text, names.get(str(one.label), str(one.label)))
        for one in PARTS[part]
    ]


MISMATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown label in dev": (
        {"dev": relabelled("dev", ham="egg")},
        "labels that no training text has: egg",
    ),
    "an unknown label in test": (
        {"test": relabelled("test", ham="egg")},
        "labels that no training text has: egg",
    ),
    "one label in train": ({"train": relabelled("train", ham="spam"), "dev": None}, "label"),
    "no label": ({"train": [attlas.Text("0", "a cat")]}, "no label"),
    "no column": (
        {"label": "stars", "test": [{"text": "a cat", "label": "ham"}]},
        "no column 'stars'",
    ),
    "an empty train": ({"train": [], "dev": None}, "texts"),
    "an empty dev": ({"dev": []}, "text"),
    "an empty test": ({"test": []}, "text"),
    "an unknown kind": ({"features": ("betty",)}, "not betty"),
    "an object that is no measure": ({"features": (3,)}, "not 3"),
    "one measure without a list": (
        {"features": BarcodeMeasure(h1_tokens=0)},
        "features is .* must be a list$",
    ),
    "a kind twice": ({"features": ("betti", Betti())}, "occurs twice in betti, betti"),
    "a threshold twice": ({"thresholds": (0.1, 0.1)}, "a threshold occurs twice in 0.1, 0.1"),
    "no thresholds": ({"thresholds": ()}, "give at least one number"),
    "an infinite threshold": ({"thresholds": (float("inf"),)}, "thresholds is"),
    "a threshold of 0": ({"thresholds": (0.0,)}, "thresholds is .* each a number above 0"),
    "no such frozen model": ({"frozen": "/nowhere"}, "there is no folder /nowhere"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_what_does_not_fit_is_said_before_anything_is_written(
    case: str, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    change, message = MISMATCHES[case]
    with pytest.raises(AttlasError, match=message) as caught:
        go(folders[1], tmp_path / "out", **{"thresholds": (0.1,), **change})
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_such_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no folder"):
        go("/nowhere", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_findings_name_every_control(done: Any) -> None:
    lines = findings(done)
    text = "\n".join(lines)
    claim = next(
        one for one in lines if one.startswith("The topology of attention predicts labels")
    )
    assert claim.endswith("(n = 20).")
    for control in ("the model before fine-tuning", "random weights", "text length alone"):
        assert re.search(rf"{control} -?\d\.\d\d", claim), control
    best = done.table("topology_heads").sort_values("train", ascending=False).iloc[0]
    first = done.result["heads"]["1"]["chosen"][0]
    assert (
        best["train"]
        == done.table("topology_heads").set_index(["layer", "head"]).loc[tuple(first), "train"]
    )
    assert f"The best single head on train is L{first[0]}H{first[1]}: " in text


# --- the report --------------------------------------------------------------------------------


def test_the_report_is_drawn_offline(done: Any, tmp_path: Path, browser: Any) -> None:
    for scheme, width in (("light", 1200), ("dark", 420)):
        page, wrong = open_page(
            browser,
            done.report(tmp_path / "report.html"),
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
        )
        draw_all(page)
        assert page.locator("#topology .chart svg.marks").count() == 3
        assert page.locator("#topology svg .mark-symbol.role-mark path").count() >= 2 * 8
        shown = page.locator("#topology").inner_text()
        for name in (
            "the model's own head",
            "topology, best head",
            "control: random weights",
            "MCC on train",
        ):
            assert name in shown
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert wrong == []
        page.context.close()


def test_flat_scores_are_drawn_too(done: Any, tmp_path: Path, browser: Any) -> None:
    heads = done.table("topology_heads").assign(train=0.0, dev=0.0, test=0.0)
    grid = done.table("topology_grid").assign(mcc=0.0).head(1)
    tables = {"topology": done.table("topology"), "topology_heads": heads, "topology_grid": grid}
    manifest = {
        key: done.manifest[key]
        for key in ("model", "corpus", "counts", "versions", "measures", "topology", "seconds")
    }
    manifest["topology"] = {**manifest["topology"], "maps": {"pearson": None, "spearman": None}}
    manifest["corpus"] = {**manifest["corpus"], "name": "<b>texts</b>"}
    place = Folder(tmp_path / "flat", "topology")
    with place.claim({}):
        flat = write_result(place, manifest, tables)
    page, wrong = open_page(browser, flat.report(tmp_path / "report.html"))
    draw_all(page)
    assert page.locator("#topology .chart svg.marks").count() == 3
    assert wrong == []
    assert "<b>texts</b>" in page.locator("body").inner_text()
    page.context.close()


def test_the_four_kinds_have_sections(bert: Model, tmp_path: Path, browser: Any) -> None:
    study = attlas.study(
        bert, TEXTS, ["betti", "digraph", "barcode", "templates"], out=tmp_path / "study"
    )
    page, wrong = open_page(browser, study.report(tmp_path / "report.html"))
    draw_all(page)
    for name in ("betti", "digraph", "barcode", "templates"):
        assert page.locator(f"#{name} .strip circle").count() == 12
    menu = page.locator("#betti select")
    redrawn(page, "#betti .strip", partial(menu.select_option, "betti_heads.b1@0.5"))
    assert wrong == []
    page.context.close()


def test_every_chart_of_an_experiment_is_exported(done: Any, tmp_path: Path) -> None:
    paths = write_charts(done, tmp_path, "svg")
    assert len({*paths}) == len(paths) == n_pictures(done)
    assert all(path.read_text().startswith("<svg") for path in paths)
    assert "control: random weights" in paths[0].read_text()


def test_derived_tables_replace_older_ones_and_the_manifest_comes_last(
    done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "derived"
    place = Folder(folder, "topology")
    with place.claim({"a": "1"}):
        pass
    manifest = {key: done.manifest[key] for key in ("model", "corpus", "counts")}
    first = write_result(
        place, manifest, {"one": pd.DataFrame({"a": [1, 2]}), "two": pd.DataFrame({"b": ["x"]})}
    )
    assert first.tables == ["one", "two"]
    written = file_sha256(folder / "tables" / "one.parquet")
    assert first.manifest["tables"]["one"] == {"rows": 2, "kind": "other", "sha256": written}
    second = write_result(place, manifest, {"three": pd.DataFrame({"a": [1.5]})})
    assert second.tables == ["three"]
    assert [path.name for path in (folder / "tables").iterdir()] == ["three.parquet"]

    def fail(*_: Any) -> None:
        raise OSError("the machine goes down")

    monkeypatch.setattr("attlas.studies.store.write_parquet", fail)
    with pytest.raises(AttlasError, match="cannot be written"):
        write_result(place, manifest, {"four": pd.DataFrame({"a": [1]})})
    assert Study.open(folder).table("three")["a"].tolist() == [1.5]
