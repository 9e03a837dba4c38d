"""Result folders with given tables, for tests of what opens and draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attlas.experiments.experiment import Outcome
from attlas.experiments.run import write_outcome
from attlas.studies import Study
from attlas.studies.folder import Folder


def write_result(
    place: Folder,
    manifest: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
    result: Mapping[str, Any] | None = None,
) -> Study:
    """Write tables and a result into a claimed folder; `manifest` describes model and corpus."""
    write_outcome(place, Outcome(tables=frames, result=result or {}), manifest)
    return Study.open(place.path)
