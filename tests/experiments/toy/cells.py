"""What a worker imports: nothing heavy."""

from __future__ import annotations

from typing import Any

import numpy as np


def cell(job: dict[str, int]) -> dict[str, Any]:
    drawn = np.random.default_rng([job["seed"], job["size"]]).random(job["size"])
    return {"size": job["size"], "mean": float(drawn.mean()), "texts": job["texts"]}
