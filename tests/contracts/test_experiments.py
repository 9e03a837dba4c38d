"""The laws of experiments on every experiment of the catalogue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from attlas.catalogue import subjects
from attlas.testing import experiment_checks
from tests.contracts.cases import CASES

QUICK = (
    "toy",
    "grid",
    "syntax",
    "lengthen",
)  # of the others, laws that run them several times are slow


SEVERAL = (
    "workers_change_nothing",
    "a_part_is_the_experiment_alone",
    "how_it_is_run_does_not_count",
)


def test_every_experiment_of_the_catalogue_has_a_case() -> None:
    """An experiment that was added without a case fails; the toys are none of the catalogue."""
    kinds = {subject.experiment(name) for subject in subjects() for name in subject.experiments}
    known = {type(case.make()) for name, case in CASES.items() if name not in ("toy", "grid")}
    assert known == kinds


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check,
            id=f"{name}-{law}",
            marks=[pytest.mark.slow] if law in SEVERAL and name not in QUICK else [],
        )
        for name, case in CASES.items()
        for law, check in experiment_checks(case)
    ],
)
def test_laws(check: Callable[[], None]) -> None:
    check()
