"""A finding as a small picture: a dot with its interval, and its control as a grey tick."""

from __future__ import annotations

import math

from markupsafe import Markup

from attlas.views.claims import Finding
from attlas.views.numbers import number

WIDTH, HEIGHT, EDGE = 220, 34, 12


def dot_svg(finding: Finding) -> Markup:
    """The value of a finding on a scale from its smallest to its largest possible value.

    Where there is none, the scale ends a little beyond what is drawn.
    """
    claim, (low, high) = finding.claim, finding.ends
    drawn = [end for end in (claim.value, low, high, claim.control) if math.isfinite(end)]
    first, last = claim.bounds
    first = first if math.isfinite(first) else min(drawn)
    last = last if math.isfinite(last) else max(drawn)
    size = (last - first) or 1.0

    def x(value: float) -> str:
        share = min(1.0, max(0.0, (value - first) / size))
        return f"{EDGE + share * (WIDTH - 2 * EDGE):.1f}"

    middle = 12
    label = f"{number(claim.value)}, {claim.control_name} {number(claim.control)}"
    parts = [
        f'<line class="axis" x1="{x(first)}" x2="{x(last)}" y1="{middle}" y2="{middle}"/>',
        f'<line class="control" x1="{x(claim.control)}" x2="{x(claim.control)}" '
        f'y1="{middle - 8}" y2="{middle + 8}"/>',
        f'<line class="interval" x1="{x(low)}" x2="{x(high)}" y1="{middle}" y2="{middle}"/>',
        f'<circle class="value" cx="{x(claim.value)}" cy="{middle}" r="4.5"/>',
        f'<text x="{x(first)}" y="{HEIGHT - 2}">{number(first)}</text>',
        f'<text x="{x(last)}" y="{HEIGHT - 2}" text-anchor="end">{number(last)}</text>',
    ]
    return Markup(
        '<svg class="dots" role="img" viewBox="0 0 {} {}" width="{}" height="{}">'
        "<title>{}</title>{}</svg>"
    ).format(WIDTH, HEIGHT, WIDTH, HEIGHT, label, Markup("".join(parts)))
