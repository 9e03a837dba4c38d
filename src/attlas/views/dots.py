"""A finding as a small picture: a dot with its interval, and its control as a grey tick."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from attlas.views.claims import Finding
from attlas.views.numbers import number

WIDTH, HEIGHT, EDGE = 272, 40, 6
LAST = 222  # where the scale ends
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


def dot_svg(finding: Finding) -> Markup:
    """The value of a finding on the scale of its possible values; its control is named below.

    The title has the ends of the scale.
    """
    claim, (low, high), scale = finding.claim, finding.ends, _Scale.of(finding)
    control, first, last = (scale.x(one) for one in (claim.control, scale.first, scale.last))
    at = scale.share(claim.control)
    anchor = "start" if at < 0.25 else "end" if at > 0.75 else "middle"
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
        Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
            control, HEIGHT - 4, anchor, name
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
