"""The weights of one head as a matrix: queries down, keys across, tokens on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.views.picture import INK, LETTER, png_url, shortened, xml_text

MOST_CELLS = 200  # tokens whose cells are drawn one by one; of more, the cells are an image
LABEL = 13  # pixels between two labels
LONGEST = 14  # letters of a label
EDGE = 14  # pixels next to a label
FAINTEST = 0.005  # a tint that is not drawn


@dataclass(frozen=True, eq=False)
class Matrix:
    """The tokens of a text and the weights between them, [query, key], next to uniform ones."""

    tokens: tuple[str, ...]
    weights: npt.NDArray[np.float64]
    uniform: npt.NDArray[np.float64]  # query key: 0 where a query does not see a key

    @property
    def darkest(self) -> float:
        """The largest weight above uniform attention, or the largest of all if there is none."""
        above = self.weights[self.weights > self.uniform]
        return float(above.max() if above.size else self.weights.max(initial=0.0))

    @property
    def shades(self) -> npt.NDArray[np.float64]:
        """From 0, at or below uniform attention, to 1, the darkest: [query, key]."""
        room = np.maximum(self.darkest - self.uniform, 1e-9)
        return np.clip((self.weights - self.uniform) / room, 0.0, 1.0)


def matrix_svg(matrix: Matrix, width: float) -> str:
    """A matrix as a picture of this width in letters of 12 pixels.

    Where there is no room for every label, tokens are labelled at equal steps.
    """
    tokens = [shortened(token, LONGEST) for token in matrix.tokens]
    step = max(1, int(np.ceil(LABEL * len(tokens) / (0.8 * width))))
    side = min(max(map(len, tokens[::step])) * LETTER + EDGE, width / 3)
    letters = int((side - EDGE + 2) / LETTER)
    cell = (width - side - 2) / len(tokens)
    step = max(step, int(np.ceil(LABEL / cell)))
    parts = [_cells(matrix.shades, cell, side)]
    for at in range(0, len(tokens), step):
        middle = side + (at + 0.5) * cell + 4
        word = xml_text(shortened(tokens[at], letters))
        parts.append(
            f'<text x="{side - 4:.1f}" y="{middle:.1f}" text-anchor="end">{word}</text>'
            f'<text transform="translate({middle:.1f} {side - 4:.1f}) rotate(-90)">{word}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{width:g}" '
        f'viewBox="0 0 {width:g} {width:g}"><g font-family="Helvetica, Arial, DejaVu Sans, '
        f'sans-serif" font-size="12" fill="#1d2129">{"".join(parts)}</g></svg>'
    )


def _cells(shades: npt.NDArray[np.float64], cell: float, side: float) -> str:
    """The tinted cells in their frame."""
    size = cell * len(shades)
    frame = (
        f'<rect x="{side:.2f}" y="{side:.2f}" width="{size:.2f}" height="{size:.2f}" '
        'fill="none" stroke="#c5cad1" stroke-width="0.8"/>'
    )
    if len(shades) > MOST_CELLS:
        return (
            f'<image x="{side:.2f}" y="{side:.2f}" width="{size:.2f}" height="{size:.2f}" '
            f'preserveAspectRatio="none" href="{png_url(shades**2, 1.0)}"/>{frame}'
        )
    drawn = [
        f'<rect x="{side + key * cell:.2f}" y="{side + query * cell:.2f}" width="{cell:.2f}" '
        f'height="{cell:.2f}" fill="rgb{INK}" fill-opacity="{shades[query, key]:.2f}"/>'
        for query, key in np.argwhere(shades >= FAINTEST).tolist()
    ]
    return "".join(drawn) + frame


def uniform_weights(weights: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Uniform attention over the keys that each query sees in any head: [head, query, key].

    >>> uniform_weights(np.tril(np.ones((1, 2, 2))))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    seen = np.asarray((weights > 0).any(axis=0), dtype=np.float64)
    return seen / np.maximum(seen.sum(axis=1, keepdims=True), 1.0)
