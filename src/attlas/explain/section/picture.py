"""A text with attention above its words and attribution below, as SVG without a script."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attlas.support.arrays import Floats
from attlas.views.colours import OPPOSES, SUPPORTS
from attlas.views.numbers import number, percent
from attlas.views.picture import SANS, SOFT, heading_svg, shortened, stacked, xml_text

if TYPE_CHECKING:
    from attlas.explain.section.aligned import AlignedText, Row, TextAgreement

PER_LINE, LINES = 60, 4  # words of a line, lines of a picture
STEP, LEFT, ABOVE, BELOW, LETTERS = 15, 34, 74, 54, 74  # pixels
WIDTH = LEFT + STEP * PER_LINE + 8
AMOUNT, CONTROL, INK, RULE = "#2068ab", "#b6bcc5", "#15181d", "#c5cad1"
DOTS, TICK = 420, 0.2  # width of the axis of agreement, and how far its ticks are apart


def ratios(row: Row) -> Floats:
    """How many times its own uniform attention each word receives; 0 without any."""
    uniform = row.uniform if row.uniform is not None else np.ones(len(row.values))
    return np.divide(row.values, uniform, out=np.zeros(len(uniform)), where=uniform > 0)


def aligned_svg(one: AlignedText) -> str:
    """The first of its kinds of attention, the attribution, and the agreement of all kinds."""
    row = one.attention[0]
    count = min(len(one.words), PER_LINE * LINES)
    about = [
        f"Above: {row.data['name']} relative to each word's own uniform attention "
        "(grey up to 1, blue above 1)."
    ]
    if one.attribution is not None:
        sides = f"green supports {one.target}, purple opposes it"
        name = one.attribution.data["name"]
        about.append(f"Below: {name}{f' ({sides})' if one.attribution.signed else ''}.")
    if count < len(one.words):
        about.append(f"The first {count} of {len(one.words):,} words.")
    lines = [_line(one, at, min(at + PER_LINE, count)) for at in range(0, count, PER_LINE)]
    agreement = [_agreement(one.agreement)] if one.agreement else []
    return stacked(heading_svg(one.title, about, WIDTH), *lines, *agreement)


def _largest(values: Floats, special: tuple[int, ...]) -> float:
    """The largest value of a word that is not special."""
    ordinary = np.delete(values, list(special))
    return float(ordinary.max(initial=0.0)) or 1.0


def _line(one: AlignedText, start: int, stop: int) -> str:
    """The words from `start` to `stop`, on the scales of the whole text."""
    received = ratios(one.attention[0])
    top = max(2.0, math.ceil(_largest(received, one.special)))
    below = one.attribution
    most = 1.0 if below is None else _largest(np.abs(below.values), one.special)
    parts, axis = [], 12 + ABOVE
    for place, word in enumerate(range(start, stop)):
        x = LEFT + STEP * place
        up = ABOVE * min(received[word], top) / top
        grey = min(up, ABOVE / top)
        parts.append(_bar(x, axis - grey, grey, CONTROL))
        if up > grey:
            parts.append(_bar(x, axis - up, up - grey, AMOUNT))
        if received[word] > top:  # the bar ends at the top of the scale
            parts.append(_text(x + STEP / 2, axis - ABOVE - 3, f"{received[word]:.1f}", "middle"))
        if below is not None:
            value = float(below.values[word])
            colour = AMOUNT if not below.signed else SUPPORTS if value > 0 else OPPOSES
            parts.append(_bar(x, axis + 4, BELOW * min(abs(value) / most, 1), colour))
        parts.append(_word(x + STEP / 2 + 3, axis + BELOW + 12, one.words[word]))
    for value in (0.0, 1.0, top):
        y = axis - ABOVE * value / top
        dash = ' stroke-dasharray="2 3"' if value == 1 else ""
        width = LEFT + STEP * (stop - start)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{width}" stroke="{RULE}"{dash} fill="none"/>')
        parts.append(_text(LEFT - 5, y + 4, f"{value:g}", "end"))
    return _svg("".join(parts), axis + BELOW + LETTERS)


def _bar(x: float, y: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x + 1}" y="{y:.1f}" width="{STEP - 2}" height="{height:.1f}" fill="{colour}"/>'
    )


def _word(x: float, y: float, word: str) -> str:
    """A word below its bars, from its end at the bar downwards."""
    return (
        f'<text transform="translate({x:.1f} {y:.1f}) rotate(-60)" text-anchor="end" '
        f'fill="{INK}">{xml_text(shortened(word, 13))}</text>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{SOFT}">'
        f"{xml_text(words)}</text>"
    )


def _svg(content: str, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH} {height:g}"><g font-family="{SANS}" font-size="11">{content}'
        "</g></svg>"
    )


def _agreement(rows: tuple[TextAgreement, ...]) -> str:
    """A dot for each kind of attention on its band of circular shifts."""
    ends = [value for one in rows for value in (one.tau, one.low, one.high, one.published)]
    known = [value for value in ends if math.isfinite(value)]
    first, last = min([*known, 0.0]), max([*known, 0.5])

    def x(value: float) -> float:
        return 330 + DOTS * (value - first) / (last - first)

    levels = sorted({percent(one.level) for one in rows if math.isfinite(one.level)})
    span = " to ".join(dict.fromkeys((levels[0], levels[-1]))) if levels else ""
    shifts = f"; band: {span} of circular shifts (grey)" if span else ""
    parts = [_text(4, 13, f"Kendall's tau in this text{shifts}")]
    bottom = 32 + 18 * len(rows)
    for tick in range(math.ceil(first / TICK), math.floor(last / TICK) + 1):
        at = x(tick * TICK)
        parts.append(f'<path d="M{at:.1f} 22V{bottom - 8}" stroke="{RULE}" fill="none"/>')
        parts.append(_text(at, bottom + 6, f"{tick * TICK:.1f}".replace("-", "\u2212"), "middle"))
    for at, one in enumerate(rows):
        y = 32 + 18 * at
        parts.append(_text(4, y + 4, shortened(f"{one.data['left']}, {one.keep}", 52)))
        if math.isfinite(one.low):
            width = x(one.high) - x(one.low)
            parts.append(
                f'<rect x="{x(one.low):.1f}" y="{y - 6}" width="{width:.1f}" height="12" '
                f'fill="{RULE}"/>'
            )
        if math.isfinite(one.tau):
            inside = INK if one.outside else "#ffffff"
            parts.append(
                f'<circle cx="{x(one.tau):.1f}" cy="{y}" r="4" fill="{inside}" stroke="{INK}"/>'
            )
            parts.append(_text(WIDTH - 8, y + 4, number(one.tau), "end"))
    return _svg("".join(parts), bottom + 14)
