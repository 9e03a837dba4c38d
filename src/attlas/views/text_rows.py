"""Who attends to whom in one text: all weights, or the largest of each word; and what tokens see.

rows.js reads them: sums over selected words with what uniform attention would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.support.arrays import Bools, Floats32, Ints
from attlas.views.packing import FAINTEST, LOG_ERROR, LOG_STEPS, STEPS, logs, packed, roots

RANKS = 8  # words listed of each row
Weights = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Visible:
    """Which keys each query sees, by the kinds of heads that see different ones.

    A query sees the keys `first` to `stop` and those of `always`, `count` in all.
    """

    of: Ints  # layer head: the kind
    first: Ints  # kind token
    stop: Ints  # kind token
    always: Bools  # kind token
    count: Ints  # kind token

    @property
    def data(self) -> dict[str, Any]:
        """What rows.js reads."""
        return {
            "of": self.of.reshape(-1).tolist(),
            **{name: packed(getattr(self, name), "i4") for name in ("first", "stop", "count")},
            "always": [np.nonzero(one)[0].tolist() for one in self.always],
        }


@dataclass(frozen=True, eq=False)
class Tops:
    """The words that each word attends to most, and those that attend to it most.

    Rows are those of every head, then of the mean of each layer, then of all. `rest` is the
    attention of a row (or column) to other words than those listed.
    """

    words: Ints  # [attends to or attended by, row, word, rank]; -1 where there is none
    weights: Floats32  # the same
    rest: Floats32  # [attends to or attended by, row, word]

    @property
    def data(self) -> dict[str, Any]:
        """What rows.js reads: a weight is rounded by at most `error`, relative to its size."""
        kind = "u2" if self.words.shape[2] <= STEPS else "i4"
        return {
            "ranks": self.words.shape[-1],
            "words": [packed(np.maximum(one, 0), kind) for one in self.words],
            "weights": [logs(np.where(self.words < 0, 0, self.weights)[side]) for side in (0, 1)],
            "rest": [roots(one) for one in self.rest],
            "faintest": FAINTEST,
            "steps": LOG_STEPS,
            "error": round(LOG_ERROR, 4),
        }


def weights_data(weights: Weights) -> dict[str, Any]:
    """All weights [layer, head, query, key] of a short text, in 65,535 steps."""
    scale = float(weights.max(initial=0.0)) or 1.0
    return {"scale": scale, "codes": packed(np.rint(weights / scale * STEPS), "u2")}
