"""The former name of the experiment `Syntax`, called as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attlas.experiments.derived import Experiment, run_as_before
from attlas.syntax.experiment import Syntax


def probe_syntax(
    model: Any, train: Any, test: Any = None, out: str | Path = "runs/syntax", **options: Any
) -> Experiment:
    """Run `Syntax` with these options; `workers`, `fresh`, `progress`, `say` as in `run`."""
    return run_as_before(Syntax, out, options, train=train, test=test, model=model)
