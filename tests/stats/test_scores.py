"""Scores of confusion tables are scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    precision_recall_fscore_support,
)

from attlas.stats.scores import (
    accuracy,
    balanced_accuracy,
    codes_of,
    confusion,
    f1,
    macro,
    macro_f1,
    precision,
    recall,
)
from tests import strategies


@settings(max_examples=60)
@given(strategies.generators)
def test_scores_are_scikit_learns(rng: np.random.Generator) -> None:
    size = int(rng.integers(1, 40))
    labels, guesses = rng.choice(list("abcd"), size), rng.choice(list("abcde"), size)
    classes, codes = codes_of(labels, guesses)
    assert (classes[codes[0]] == labels).all()
    assert (classes[codes[1]] == guesses).all()
    table = confusion(codes[0], codes[1], len(classes))
    each = precision_recall_fscore_support(labels, guesses, labels=classes, zero_division=0)
    np.testing.assert_allclose([precision(table), recall(table), f1(table)], each[:3], atol=1e-12)
    known = np.unique(labels)
    theirs = f1_score(labels, guesses, labels=known, average="macro", zero_division=0)
    assert float(macro_f1(table)) == pytest.approx(theirs, abs=1e-12)
    assert accuracy(table) == pytest.approx(accuracy_score(labels, guesses))
    weights = 1 / np.bincount(codes[0])[codes[0]]
    theirs = accuracy_score(labels, guesses, sample_weight=weights)
    assert balanced_accuracy(table) == pytest.approx(theirs)


def test_balanced_accuracy_is_scikit_learns() -> None:
    labels, guesses = np.array([0, 0, 0, 1]), np.array([0, 1, 0, 1])
    ours = balanced_accuracy(confusion(labels, guesses, 2))
    assert ours == balanced_accuracy_score(labels, guesses)


def test_many_tables_at_once() -> None:
    tables = np.random.default_rng(0).integers(0, 4, (5, 3, 3))
    for number, table in enumerate(tables):
        assert macro_f1(tables)[number] == macro_f1(table)
        assert balanced_accuracy(tables)[number] == balanced_accuracy(table)


def test_no_case_has_no_mean() -> None:
    empty = np.zeros((2, 2))
    assert np.isnan(macro(f1(empty), empty))
