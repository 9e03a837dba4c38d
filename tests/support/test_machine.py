"""One computing thread: torch and BLAS keep to it and are restored; fits do not depend on cores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (loads a BLAS of its own)
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from attlas.stats import linear
from attlas.support.machine import in_kept_threads, one_thread
from attlas.topology.classifier import TopologyClassifier


@contextmanager
def computing_threads(count: int) -> Iterator[None]:
    """As on a machine with so many cores."""
    before = torch.get_num_threads()
    with threadpool_limits(count, "blas"):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def threads() -> set[int]:
    """How many threads torch and each BLAS compute with."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} | {
        torch.get_num_threads()
    }


def test_all_compute_with_one_thread_and_then_as_before() -> None:
    with computing_threads(2):
        assert threads() == {2}
        with one_thread():
            assert threads() == {1}
            with one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
        with pytest.raises(ZeroDivisionError), one_thread():
            1 / 0  # noqa: B018
        assert threads() == {2}


def test_kept_threads_give_results_in_order_and_are_made_once() -> None:
    names = in_kept_threads(lambda _: threading.current_thread().name, range(20))
    assert in_kept_threads(lambda number: -number, range(5)) == [0, -1, -2, -3, -4]
    assert all(name.startswith("attlas-kept") for name in names)
    assert {one.name for one in threading.enumerate()} >= set(names)
    with pytest.raises(ZeroDivisionError):
        in_kept_threads(lambda number: 1 / number, range(2))


def fitted_reader(features: Any, names: list[str]) -> list[Any]:
    reader = linear.fit_reader(
        features, names, (features[:200], names[:200]), linear.by_balanced_accuracy, (0.01, 1.0)
    )
    return [reader.coef, reader.intercept, reader.temperature]


def published_reader(features: Any, names: list[str]) -> list[Any]:
    reader = linear.fit_published(features[:200], names[:200], weighted=True)
    return [reader.coef, reader.intercept]


def fitted_classifier(features: Any, names: list[str]) -> list[Any]:
    classifier = TopologyClassifier(C=(0.01, 1.0), max_iter=(1, 5, 25)).fit(features, names)
    return [classifier.coef_, classifier.intercept_]


@pytest.mark.parametrize("fit", [fitted_reader, published_reader, fitted_classifier])
def test_fits_do_not_depend_on_the_number_of_cores(fit: Any) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3000, 120))
    names = [
        ("bad", "good")[int(one)] for one in features[:, :5].sum(1) + rng.normal(size=3000) > 0
    ]
    made = []
    for count in (1, 2):
        with computing_threads(count):
            made.append([np.asarray(one).tobytes() for one in fit(features, names)])
    assert made[0] == made[1]
