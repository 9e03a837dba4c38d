"""The contrast of colours, as the Web Content Accessibility Guidelines compute it."""

from __future__ import annotations

import re

Colour = tuple[float, float, float]


def rgb(written: str) -> Colour:
    """A colour such as "#c2410c", "#fff", "white" or "rgb(194, 65, 12)"."""
    if written == "white":
        return (255, 255, 255)
    if match := re.fullmatch(r"#([0-9a-f]{3})", written):
        written = "#" + "".join(2 * digit for digit in match[1])
    if match := re.fullmatch(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", written):
        red, green, blue = (int(part, 16) for part in match.groups())
    else:
        red, green, blue = (int(part) for part in re.findall(r"\d+", written)[:3])
    return (red, green, blue)


def luminance(colour: Colour) -> float:
    shares = [one / 255 for one in colour]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str | Colour, other: str | Colour) -> float:
    """From 1 (the same) to 21 (black and white).

    >>> round(contrast("#000000", "#ffffff")), round(contrast("#767676", "#ffffff"), 2)
    (21, 4.54)
    """
    colours = (rgb(part) if isinstance(part, str) else part for part in (one, other))
    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)
