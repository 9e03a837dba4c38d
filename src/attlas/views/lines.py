"""Words on both sides and lines between them: what one head attends to in a sentence.

As in Figure 5 of Clark et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.views.colours import INK as BLACK
from attlas.views.packing import STEPS, packed
from attlas.views.picture import INK, shortened, xml_text

STEP, MIDDLE, CHARACTER = 20, 200, 7.6  # pixels: a word's height, the way of the lines, a letter
FAINT = 0.02


@dataclass(frozen=True, eq=False)
class Lines:
    """One sentence of one head: words, weights between them [query, key], pairs to look for."""

    title: str
    words: tuple[str, ...]
    weights: npt.NDArray[np.float64]
    gold: tuple[tuple[int, int], ...] = ()
    about: str = ""  # relation, head and direction
    relation: str = ""
    special: tuple[int, ...] = ()  # words that are special tokens

    @property
    def data(self) -> dict[str, Any]:
        """What lines.js draws."""
        scale = float(self.weights.max(initial=0.0)) or 1.0
        return {
            "title": self.title,
            "about": self.about or self.title,
            "words": list(self.words),
            "scale": scale,
            "codes": packed(np.rint(self.weights / scale * STEPS), "u2"),
            "gold": [list(pair) for pair in self.gold],
            "special": list(self.special),
        }


def lines_svg(lines: Lines, title: str | None = None, width: float | None = None) -> str:
    """One sentence as a picture: of this width, or as wide as its words need."""
    title = lines.title if title is None else title
    side = max(map(len, lines.words)) * CHARACTER + 14
    middle = float(MIDDLE)
    if width is not None:  # the way of the lines takes what words leave, but a third at least
        side = min(side, width / 3)
        middle = width - 2 * side
    letters = int((side - 8) / CHARACTER)
    top = 24 if title else 4
    known = set(lines.gold)
    drawn = []
    for query, key in zip(
        *np.nonzero((lines.weights >= FAINT) | _marked(known, len(lines.words))), strict=True
    ):
        is_known = (int(query), int(key)) in known
        stroke = f'"{BLACK}" stroke-dasharray="5 3"' if is_known else f'"rgb{INK}"'
        drawn.append(
            f'<line x1="{side:.0f}" y1="{top + STEP * query + STEP / 2:.0f}" '
            f'x2="{side + middle:.0f}" y2="{top + STEP * key + STEP / 2:.0f}" '
            f'stroke={stroke} stroke-width="1.8" '
            f'stroke-opacity="{max(0.05, min(1.0, float(lines.weights[query, key]))):.2f}"/>'
        )
    for number, word in enumerate(lines.words):
        y = top + STEP * number + STEP / 2 + 4
        for x, anchor in ((side - 6, "end"), (side + middle + 6, "start")):
            drawn.append(
                f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" '
                f'fill="#1d2129">{xml_text(shortened(word, letters))}</text>'
            )
    across, height = 2 * side + middle, top + STEP * len(lines.words) + 8
    head = f'<text x="4" y="14" fill="#6a7180">{xml_text(title[: int(across / 6.4)])}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across:.0f}" height="{height}" '
        f'viewBox="0 0 {across:.0f} {height}"><rect width="100%" height="100%" '
        'fill="#ffffff"/>'
        '<g font-family="DejaVu Sans, Helvetica, Arial, sans-serif" '
        f'font-size="12">{head}{"".join(drawn)}</g></svg>'
    )


def _marked(known: set[tuple[int, int]], count: int) -> npt.NDArray[np.bool_]:
    out = np.zeros((count, count), dtype=bool)
    for pair in known:
        out[pair] = True
    return out
