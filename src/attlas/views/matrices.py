"""The weights of chosen heads for the view `matrix`: codes of 8 bits on a log scale.

Code 0 is a weight below the floor, 1 to 254 are the floor to 1 in equal steps of its logarithm, and
255 is a key that the query does not see. A weight is read from its code to within `ROUNDING`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.views.matrix import Matrix, matrix_svg
from attlas.views.modules import View
from attlas.views.packing import deflated

FLOOR = 1e-5
STEPS = 253
MASKED = 255
STEP = -math.log(FLOOR) / STEPS
ROUNDING = math.exp(STEP / 2) - 1  # relative; 2.3%
MOST_TOKENS = 4_096
TOKENS = 1_024  # by default
WIDTH = 640.0  # of pictures

MATRIX = View("matrix")
Codes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.floating[Any]]


def weight_codes(weights: Floats, seen: npt.NDArray[np.bool_] | None = None) -> Codes:
    """The codes of weights; what is not `seen` is masked.

    >>> weight_codes(np.array([0.0, 1e-6, 1e-5, 0.5, 1.0]))
    array([  0,   0,   1, 239, 254], dtype=uint8)
    """
    above = np.maximum(weights, FLOOR, dtype=np.float64) / FLOOR
    codes = 1 + np.rint(np.log(above) / STEP)
    codes = np.where(weights < FLOOR, 0, np.minimum(codes, STEPS + 1)).astype(np.uint8)
    return codes if seen is None else np.where(seen, codes, np.uint8(MASKED))


def code_weights(codes: Codes) -> npt.NDArray[np.float64]:
    """The weights of codes, 0 where a key is not seen.

    >>> code_weights(np.array([0, 1, 239, 254, 255], dtype=np.uint8)).round(3).tolist()
    [0.0, 0.0, 0.505, 1.0, 0.0]
    """
    table = FLOOR * np.exp((np.arange(256) - 1) * STEP)
    table[[0, MASKED]] = 0.0
    return np.asarray(table[codes], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class HeadCodes:
    """The codes of one head, and how many keys each query sees, also beyond those with a code."""

    name: str
    codes: Codes  # query key
    seen: npt.NDArray[np.int64]  # query

    @property
    def packed(self) -> dict[str, Any]:
        """As the view takes them: one number of keys if all queries see as many."""
        same = len(set(self.seen.tolist())) == 1
        return {
            "name": self.name,
            "seen": self.seen[:1].tolist() if same else self.seen.tolist(),
            "codes": deflated(np.ascontiguousarray(self.codes).tobytes()),
        }


@dataclass(frozen=True, eq=False)
class HeadMatrices:
    """Matrices of some heads of one text, one shown at a time."""

    text: str  # which text, for a selection that is shared between views
    tokens: tuple[str, ...]  # those of the matrices
    word_of: npt.NDArray[np.int64]  # token
    total: int  # tokens of the text
    heads: tuple[HeadCodes, ...]
    seams: tuple[int, ...] = ()  # tokens at which positions repeat
    view: View = MATRIX

    @property
    def data(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "word_of": self.word_of[: len(self.tokens)].tolist(),
            "total": self.total,
            "floor": FLOOR,
            "seams": [one for one in self.seams if one < len(self.tokens)],
            "heads": [one.packed for one in self.heads],
        }

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return [matrix_svg(self._matrix(one), WIDTH) for one in self.heads]

    def _matrix(self, one: HeadCodes) -> Matrix:
        uniform = (one.codes != MASKED) / np.maximum(one.seen, 1)[:, None]
        return Matrix(self.tokens, code_weights(one.codes), uniform)
