"""Features of texts, and their labels."""

from __future__ import annotations

import numpy as np


def data(
    seed: int = 0, n: int = 60, width: int = 6, classes: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers as Betti numbers are, one column constant, that predict labels in part."""
    draw = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    features = draw.integers(0, 9, (n, width)).astype(np.float64)
    features[:, 0] += 2 * codes
    features[:, 1] = features[:, 0] + draw.integers(0, 2, n)
    features[:, -1] = 7
    return features, codes
