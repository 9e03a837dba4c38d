"""A finding as a small picture: a dot with its interval, and its control as a grey tick."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from attlas.views.claims import Finding
from attlas.views.numbers import number

WIDTH, HEIGHT, EDGE = 272, 40, 6
LAST = 222  # where the scale ends
LETTER = 6  # of a label, on average
MIDDLE = 13  # the height of the axis


@dataclass(frozen=True)
class _Scale:
    """From the smallest possible value to the largest; where there is none, of what is drawn."""

    first: float
    last: float

    @classmethod
    def of(cls, finding: Finding) -> _Scale:
        claim = finding.claim
        known = (claim.value, *finding.ends, claim.control)
        drawn = [one for one in known if math.isfinite(one)]
        first, last = claim.bounds
        first = first if math.isfinite(first) else min(drawn)
        return cls(first, last if math.isfinite(last) else max(drawn))

    def share(self, value: float) -> float:
        size = (self.last - self.first) or 1.0
        return min(1.0, max(0.0, (value - self.first) / size))

    def x(self, value: float) -> str:
        return f"{EDGE + self.share(value) * (LAST - EDGE):.1f}"


def _place(x: float, letters: int) -> tuple[str, str]:
    """Where a label of so many letters stands at x, and its anchor: all of it inside the picture.

    >>> _place(20.0, 10), _place(110.0, 10), _place(200.0, 10), _place(80.0, 40)
    (('20.0', 'start'), ('110.0', 'middle'), ('200.0', 'end'), ('0.0', 'start'))
    """
    at, half = (x - EDGE) / (LAST - EDGE), letters * LETTER / 2
    anchor = "start" if at < 0.25 else "end" if at > 0.75 else "middle"
    room = {"start": (0, 2 * half), "middle": (half, half), "end": (2 * half, 0)}[anchor]
    if x < room[0]:
        x, anchor = 0.0, "start"
    elif x > WIDTH - room[1]:
        x, anchor = float(WIDTH), "end"
    return f"{x:.1f}", anchor


def dot_svg(finding: Finding) -> Markup:
    """The value of a finding on the scale of its possible values; its control is named below.

    The title has the ends of the scale.
    """
    claim, (low, high), scale = finding.claim, finding.ends, _Scale.of(finding)
    control, first, last = (scale.x(one) for one in (claim.control, scale.first, scale.last))
    name = Markup("{} {}").format(claim.control_name, number(claim.control))
    parts = [
        f'<line class="axis" x1="{first}" x2="{last}" y1="{MIDDLE}" y2="{MIDDLE}"/>',
        f'<line class="control" x1="{control}" x2="{control}" '
        f'y1="{MIDDLE - 7}" y2="{MIDDLE + 7}"/>',
        f'<line class="interval" x1="{scale.x(low)}" x2="{scale.x(high)}" '
        f'y1="{MIDDLE}" y2="{MIDDLE}"/>',
        f'<circle class="value" cx="{scale.x(claim.value)}" cy="{MIDDLE}" r="4.5"/>',
        f'<line class="axis" x1="{first}" x2="{first}" y1="{MIDDLE - 5}" y2="{MIDDLE + 5}"/>',
        f'<line class="axis" x1="{last}" x2="{last}" y1="{MIDDLE - 5}" y2="{MIDDLE + 5}"/>',
        f'<text class="number" x="{WIDTH}" y="{MIDDLE + 5}" text-anchor="end">'
        f"{number(claim.value)}</text>",
        Markup('<text x="{}" text-anchor="{}" y="{}">{}</text>').format(
            *_place(float(control), len(name)), HEIGHT - 4, name
        ),
    ]
    ends = f"scale from {number(scale.first)} to {number(scale.last)}"
    label = Markup("{} [{}, {}], {}; {}").format(
        number(claim.value), number(low), number(high), name, ends
    )
    return Markup(
        '<svg class="dots" role="img" viewBox="0 0 {} {}" width="{}" height="{}">'
        "<title>{}</title>{}</svg>"
    ).format(WIDTH, HEIGHT, WIDTH, HEIGHT, label, Markup("").join(map(Markup, parts)))
