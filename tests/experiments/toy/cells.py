"""What a worker imports: nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def cell(job: dict[str, Any], unit: float, folder: str) -> dict[str, Any]:
    lengths = np.load(Path(folder) / job["lengths"] / "lengths.npy")
    drawn = np.random.default_rng([job["seed"], job["size"]]).random(job["size"])
    return {"size": job["size"], "mean": float(drawn.mean() * unit), "words": int(lengths.sum())}
