"""The former name of the experiment `Coreference`, called as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attlas.coreference.experiment import Coreference
from attlas.experiments.derived import Experiment, run_as_before


def probe_coreference(
    model: Any, train: Any, test: Any = None, out: str | Path = "runs/coreference", **options: Any
) -> Experiment:
    """Run `Coreference` with these options; `workers`, `fresh`, `progress`, `say` as in `run`."""
    return run_as_before(Coreference, out, options, train=train, test=test, model=model)
