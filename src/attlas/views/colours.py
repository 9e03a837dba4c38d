"""The colours of pictures without a browser: those of `static/colour.js`."""

from __future__ import annotations

# from what speaks against to what speaks for, on a light and on a dark ground
SIGN = ("#5f2273", "#9a69a9", "#d3bddb", "#f5f5f5", "#c2e0c4", "#5fa56c", "#145c2b")
SIGN_DARK = ("#dcb0ec", "#a773bb", "#553561", "#1e2127", "#234a2d", "#4f9d60", "#98e0a8")
SUPPORTS, OPPOSES = "#3c8d4c", "#8a5599"  # bars, lines and dots: read on both grounds
INK, WHITE = "#15181d", "#ffffff"
EASY = 0.179  # luminance above which black letters are easier to read than white ones


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue.

    >>> channels("#5f2273")
    (95, 34, 115)
    """
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def sign_colour(shade: float) -> tuple[int, int, int]:
    """The colour of a shade from -1 to 1.

    >>> sign_colour(-1), sign_colour(0), sign_colour(0.5)
    ((95, 34, 115), (245, 245, 245), (145, 195, 152))
    """
    at = (min(max(shade, -1.0), 1.0) + 1) / 2 * (len(SIGN) - 1)
    low = min(int(at), len(SIGN) - 2)
    first, second = channels(SIGN[low]), channels(SIGN[low + 1])
    red, green, blue = (
        int(one + (other - one) * (at - low) + 0.5)
        for one, other in zip(first, second, strict=True)
    )
    return red, green, blue


def letters_on(colour: tuple[int, int, int]) -> str:
    """The colour of letters that can be read on another.

    >>> letters_on((255, 255, 255)), letters_on((20, 92, 43))
    ('#15181d', '#ffffff')
    """
    shares = (one / 255 for one in colour)
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares
    )
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > EASY else WHITE
