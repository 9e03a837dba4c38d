"""The small pictures of one head as SVG, for notebooks; pages draw theirs in `multiples.js`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from markupsafe import Markup

from attlas.views.head_profiles import Floats, HeadProfile
from attlas.views.head_rows import Head
from attlas.views.numbers import number
from attlas.views.picture import png_url

WIDTH, BASE, TOP, HEIGHT, SIDE = 176, 98, 12, 116, 66
BLUE, PALE, GREY, CHOSEN = "#2068ab", "#c5cad1", "#808792", "#c2410c"


@dataclass(frozen=True)
class _Scale:
    """From numbers to pixels."""

    low: float
    high: float

    @classmethod
    def of(cls, profile: HeadProfile, head: Head) -> _Scale:
        own = profile.scale == "own"
        parts = (one[head] if own else one for one in (profile.values, profile.controls))
        known = np.concatenate([part[np.isfinite(part)] for part in parts])
        low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
        return cls(low, high if high > low else low + 1.0)

    def y(self, value: float) -> float:
        return BASE - (value - self.low) / (self.high - self.low) * (BASE - TOP)

    def x(self, value: float) -> float:
        return SIDE + (value - self.low) / (self.high - self.low) * (WIDTH - SIDE - 26)


def multiples_html(profiles: Sequence[HeadProfile], head: Head) -> str:
    """The pictures of a head side by side, each with its title and what it shows."""
    figure = Markup(
        '<figure style="margin:0;width:{}px"><b>{}</b>{}<figcaption style="font-size:11px">{}'
        "</figcaption></figure>"
    )
    drawn = [figure.format(WIDTH, one.title, _svg(one, head), _says(one)) for one in profiles]
    frame = '<div style="display:flex;flex-wrap:wrap;gap:12px 20px;font-size:12px">{}</div>'
    return Markup(frame).format(Markup("").join(drawn)) if drawn else ""


def _says(one: HeadProfile) -> str:
    parts = (one.x, one.unit, f"grey: {one.control_name}")
    tile = f"{one.x}; own root scale, no tint at or below {one.control_name}"
    return tile if one.picture == "tile" else "; ".join(filter(None, parts))


def _svg(profile: HeadProfile, head: Head) -> Markup:
    """The picture of one head."""
    parts = DRAW[profile.picture](profile, head)
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" '
        'style="display:block" font-size="11" fill="currentColor" role="img" aria-label="{}">'
        "{}</svg>"
    ).format(WIDTH, HEIGHT, WIDTH, HEIGHT, profile.title, Markup("").join(parts))


def _rect(x: float, y: float, width: float, height: float, fill: str) -> Markup:
    return Markup(
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{max(height, 0.5):.1f}" fill="{fill}"/>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, words
    )


def _line(values: Floats, at: Callable[[int], float], scale: _Scale, colour: str) -> Markup:
    """A line through known values, interrupted where one is missing."""
    parts = []
    for known, some in groupby(range(len(values)), lambda one: math.isfinite(values[one])):
        if known:
            points = " ".join(f"{at(one):.1f},{scale.y(values[one]):.1f}" for one in some)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    return Markup("".join(parts))


def _fill(profile: HeadProfile, value: float, control: float) -> str:
    """Blue on the side of the control that is of interest."""
    if profile.kind in ("plain", "signed") or math.isnan(control):
        return BLUE
    return BLUE if (value > control) == (profile.kind == "above") else PALE


def _ends(profile: HeadProfile, scale: _Scale) -> list[Markup]:
    last = [_text(WIDTH, HEIGHT - 4, profile.labels[-1], "end")] if profile.labels[1:] else []
    top = _text(WIDTH, TOP - 3, number(scale.high), "end")
    return [_text(0, HEIGHT - 4, profile.labels[0]), *last, top]


def _bars(profile: HeadProfile, head: Head) -> list[Markup]:
    values, control, scale = profile.values[head], profile.controls[head], _Scale.of(profile, head)
    step = WIDTH / len(values)
    drawn = [
        _rect(
            at * step + 0.75,
            min(scale.y(value), scale.y(0)),
            step - 1.5,
            abs(scale.y(value) - scale.y(0)),
            _fill(profile, value, control[at]),
        )
        for at, value in enumerate(values)
        if math.isfinite(value)
    ]
    line = _line(control, lambda at: (at + 0.5) * step, scale, GREY)
    return [*drawn, line, *_ends(profile, scale)]


def _lines(profile: HeadProfile, head: Head) -> list[Markup]:
    values, control, scale = profile.values[head], profile.controls[head], _Scale.of(profile, head)
    step = (WIDTH - 16) / max(1, len(values) - 1)

    def at(place: int) -> float:
        return 8 + place * step

    dots = [
        Markup(f'<circle cx="{at(one):.1f}" cy="{scale.y(value):.1f}" r="2.5" fill="{BLUE}"/>')
        for one, value in enumerate(values)
        if math.isfinite(value)
    ]
    lines = _line(control, at, scale, GREY), _line(values, at, scale, BLUE)
    return [*lines, *dots, *_ends(profile, scale)]


def _rows(profile: HeadProfile, head: Head) -> list[Markup]:
    values, control, scale = profile.values[head], profile.controls[head], _Scale.of(profile, head)
    step, out = HEIGHT / len(values), []
    for at, value in enumerate(values):
        top, middle = at * step, (at + 0.5) * step + 4
        out.append(_text(SIDE - 5, middle, profile.labels[at], "end"))
        if not math.isfinite(value):
            continue
        wide = scale.x(value) - scale.x(0)
        out.append(_rect(scale.x(0), top + 2, wide, step - 4, _fill(profile, value, control[at])))
        after = value
        if math.isfinite(control[at]):
            after = max(value, control[at])
            out.append(_rect(scale.x(control[at]) - 0.75, top, 1.5, step, GREY))
        out.append(_text(scale.x(after) + 3, middle, number(value)))
    return out


def _ranks(profile: HeadProfile, head: Head) -> list[Markup]:
    values, scale = profile.values, _Scale.of(profile, head)
    flat = values.reshape(-1)
    order = [at for at in np.argsort(-flat, kind="stable") if math.isfinite(flat[at])]
    own, step = head[0] * values.shape[1] + head[1], WIDTH / len(order)
    drawn = [
        _rect(
            place * step,
            min(scale.y(flat[at]), scale.y(0)),
            max(3.0, step - 0.5) if at == own else step - 0.5,
            abs(scale.y(flat[at]) - scale.y(0)),
            CHOSEN if at == own else BLUE,
        )
        for place, at in enumerate(order)
    ]
    control = float(profile.controls[head])
    level = [_rect(0, scale.y(control), WIDTH, 1, GREY)] if math.isfinite(control) else []
    rank = order.index(own)
    mark, words = _rect(rank * step, BASE + 1, 3, 3, CHOSEN), f"{rank + 1} of {len(order)}"
    top = _text(WIDTH, TOP - 3, number(scale.high), "end")
    return [*drawn, *level, mark, _text(WIDTH / 2, HEIGHT - 4, words, "middle"), top]


def _tile(profile: HeadProfile, head: Head) -> list[Markup]:
    size = HEIGHT - 2
    image = (
        '<image x="1" y="1" width="{}" height="{}" href="{}" style="image-rendering:pixelated"/>'
        '<rect x="1" y="1" width="{}" height="{}" fill="none" stroke="{}"/>'
    )
    address = png_url(profile.of_one(head).shades[0, 0] ** 2, 1.0)
    return [Markup(image).format(size, size, address, size, size, PALE)]


DRAW: dict[str, Callable[[HeadProfile, Head], list[Markup]]] = {
    "bars": _bars,
    "line": _lines,
    "rows": _rows,
    "ranks": _ranks,
    "tile": _tile,
}
