"""The laws of experiments on every experiment of the catalogue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
