"""The importance of heads, for attention that is scaled by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attlas.core.importance import importance_of
from attlas.studies.opened import Study
from attlas.support.arrays import Floats
from attlas.support.errors import ModelError


def importance_grid(given: Any) -> Floats | None:
    """Importance [layer, head] from a study with that measure, its folder, an array, or None."""
    if given is None:
        return None
    if isinstance(given, str | Path):
        given = Study.open(given)
    if isinstance(given, Study):
        grid = importance_of(given.table("importance"))
    else:
        grid = np.asarray(given, dtype=np.float64)
    if grid.ndim != 2 or not np.isfinite(grid).all() or (grid < 0).any():
        raise ModelError("importance must be an array [layer, head] of numbers of at least 0")
    return grid
