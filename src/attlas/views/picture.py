"""Pictures without a browser: small matrices as PNG; shaded texts, headings and legends as SVG."""

from __future__ import annotations

import base64
import re
import struct
import textwrap
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.support.files import write_bytes
from attlas.support.outputs import PICTURES
from attlas.views.colours import letters_on, sign_colour
from attlas.views.numbers import decimal
from attlas.views.overlay import LEVELS, Overlay
from attlas.views.vega import vl_convert

INK = (43, 95, 168)
# of a shaded text: letters a line, their width and height in pixels
COLUMNS, CHARACTER, LINE = 112, 7.2, 19
LETTER = 6.6  # width of a letter of a proportional font of 12 pixels, on the safe side
SANS = "Helvetica, Arial, DejaVu Sans, sans-serif"
SOFT = "#6a7180"


def png(shades: npt.NDArray[np.uint8], ink: tuple[int, int, int] = INK) -> bytes:
    """A picture of one colour whose opacity is the shade (0 clear, 255 full), [row, column]."""
    height, width = shades.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), shades], axis=1).tobytes()
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(
                b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
            ),  # a palette of 256 shades
            chunk(b"PLTE", bytes(ink) * 256),
            chunk(b"tRNS", bytes(range(256))),
            chunk(b"IDAT", zlib.compress(lines, 9)),
            chunk(b"IEND", b""),
        )
    )


def png_url(values: npt.NDArray[Any], top: float) -> str:
    """Values from 0 to `top` as the address of a picture; a root brings out what is faint."""
    share = np.clip(np.nan_to_num(values) / (top if top > 0 else 1.0), 0, 1)
    shades = np.rint(255 * np.sqrt(share)).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(shades)).decode()


def text_svg(overlay: Overlay, title: str = "", columns: int = COLUMNS) -> str:
    """A shaded text as a picture: lines of so many letters, paragraphs kept."""
    boxes: list[str] = []
    letters: list[str] = []
    x, y = 0, 1 if title else 0
    cursor = 0

    def put(piece: str, tint: int | None) -> None:
        nonlocal x, y
        for part in _pieces(piece, columns):
            if part == "\n":
                x, y = 0, y + 1
                continue
            if x and x + len(part) > columns:
                x, y = 0, y + 1
                if part.isspace():
                    continue
            if tint:
                boxes.append(
                    f'<rect x="{x * CHARACTER:.1f}" y="{y * LINE}" '
                    f'width="{len(part) * CHARACTER:.1f}" height="{LINE - 2}" '
                    f"{_fill(tint, overlay.signed)}/>"
                )
            if not part.isspace():
                ink = _letters(tint or 0, overlay.signed)
                letters.append(
                    f'<text x="{x * CHARACTER:.1f}" y="{y * LINE + 13}" fill="{ink}" '
                    f'textLength="{len(part) * CHARACTER:.1f}">{xml_text(part)}</text>'
                )
            x += len(part)

    for (start, stop), tint in zip(overlay.words, overlay.tints.tolist(), strict=True):
        if start < 0:
            continue
        put(overlay.content[cursor : max(start, cursor)], None)
        put(overlay.content[max(start, cursor) : stop], tint)
        cursor = max(cursor, stop)
    head = f'<text x="0" y="13" fill="{SOFT}">{xml_text(title[:columns])}</text>' if title else ""
    width, height = columns * CHARACTER + 16, (y + 1) * LINE + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="-8 -4 {width:.0f} {height}">'
        '<rect x="-8" y="-4" width="100%" height="100%" fill="#ffffff"/><g '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" '
        'xml:space="preserve">'
        f"{head}{''.join(boxes)}{''.join(letters)}</g></svg>"
    )


def _fill(tint: int, signed: bool) -> str:
    """The ground of a word: of the scale of signs, or of one colour that becomes stronger."""
    shade = tint / (LEVELS - 1)
    if signed:
        return f'fill="rgb{sign_colour(shade)}"'
    return f'fill="rgb{INK}" fill-opacity="{shade:.2f}"'


def _letters(tint: int, signed: bool) -> str:
    """The letters of a word on its ground."""
    if signed and tint:
        return letters_on(sign_colour(tint / (LEVELS - 1)))
    return "#ffffff" if abs(tint) >= 7 else "#1d2129"


def _pieces(text: str, columns: int) -> list[str]:
    """A stretch of text as line breaks and runs that are not broken; no control characters."""
    clean = "".join(letter if letter >= " " or letter == "\n" else " " for letter in text)
    out: list[str] = []
    for number, line in enumerate(clean.split("\n")):
        if number:
            out.append("\n")
        out += [line[start : start + columns] for start in range(0, len(line), columns)]
    return out


def xml_text(string: str) -> str:
    """A string as text of a picture: escaped, and without characters that XML does not allow."""
    return escape(
        "".join(
            letter
            if letter >= " " and letter not in "\ufffe\uffff" and not "\ud800" <= letter <= "\udfff"
            else " "
            for letter in string
        )
    )


def shortened(string: str, letters: int) -> str:
    """A string that fits into so many letters.

    >>> shortened("attention", 9), shortened("attention", 6)
    ('attention', 'atten…')
    """
    return string if len(string) <= letters else string[: max(1, letters - 1)] + "…"


def wrapped(text: str, width: float) -> list[str]:
    """The lines of a text in letters of 12 pixels."""
    return textwrap.wrap(text, max(8, int(width / LETTER)))


def heading_svg(title: str, about: Sequence[str], width: float) -> str:
    """A title and the lines below it, as a picture that goes above another."""
    lines = [(line, "#1d2129", 600) for line in wrapped(title, width - 8)]
    lines += [(line, SOFT, 400) for text in about for line in wrapped(text, width - 8)]
    drawn = "".join(
        f'<text x="4" y="{13 + 15 * at}" fill="{ink}" font-weight="{weight}">'
        f"{xml_text(line)}</text>"
        for at, (line, ink, weight) in enumerate(lines)
    )
    return _svg(f'<g font-family="{SANS}" font-size="12">{drawn}</g>', width, 15 * len(lines) + 8)


def legend_svg(
    low: str, high: str, width: float, ink: tuple[int, int, int] = INK, swatches: int = LEVELS
) -> str:
    """The tints from none to the darkest between the words for both ends, in as many lines."""
    size = 14
    first = wrapped(low, width - 8)
    is_one_line = len(first) == 1 and (len(low) + len(high)) * LETTER + swatches * size + 24 < width
    parts = [
        f'<text x="4" y="{13 + 15 * at}" fill="{SOFT}">{xml_text(line)}</text>'
        for at, line in enumerate(first)
    ]
    x, y = (8 + len(low) * LETTER, 0) if is_one_line else (4, 15 * len(first) + 3)
    for level in range(swatches):
        parts.append(
            f'<rect x="{x + size * level:.1f}" y="{y + 3}" width="{size}" height="11" '
            f'fill="rgb{ink}" fill-opacity="{level / (swatches - 1):.2f}" stroke="#c5cad1" '
            'stroke-width="0.5"/>'
        )
    end = x + size * swatches + 5
    parts.append(f'<text x="{end:.1f}" y="{y + 13}" fill="{SOFT}">{xml_text(high)}</text>')
    return _svg(f'<g font-family="{SANS}" font-size="12">{"".join(parts)}</g>', width, y + 20)


def tinted_svg(overlay: Overlay, title: str = "", columns: int = COLUMNS) -> str:
    """A shaded text under its title and what its tints mean, and their legend.

    The legend is of tints that start at uniform attention.
    """
    parts = [text_svg(overlay, columns=columns)]
    width = svg_size(parts[0])[0]
    if about := [line for line in (title, overlay.says) if line]:
        parts.insert(0, heading_svg("", about, width))
    if overlay.darkest:
        darkest = f"{decimal(overlay.darkest, 1)}×"
        parts.append(legend_svg("no tint: uniform attention or less", darkest, width))
    return stacked(*parts)


def _svg(content: str, width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">{content}</svg>'
    )


def svg_size(svg: str) -> tuple[float, float]:
    """The width and the height that a picture declares."""
    root = svg[: svg.index(">", svg.index("<svg"))]
    width, height = (re.search(rf'\s{name}="([\d.]+)', root) for name in ("width", "height"))
    if width is None or height is None:
        raise ValueError("a picture declares its width and its height")
    return float(width[1]), float(height[1])


def stacked(*pictures: str) -> str:
    """Pictures below one another on one ground, as one."""
    drawn, below, widest = [], 0.0, 0.0
    for picture in pictures:
        width, height = svg_size(picture)
        drawn.append(picture.replace("<svg ", f'<svg y="{below:g}" ', 1))
        below, widest = below + height, max(widest, width)
    return _svg(f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(drawn)}', widest, below)


def fitted(svg: str, width: float, unit: str = "") -> str:
    """A picture that is scaled to a width; all of it becomes larger or smaller, letters too."""
    across, down = svg_size(svg)
    start = svg.index("<svg")
    stop = svg.index(">", start)
    root = svg[start:stop]
    box = "" if "viewBox=" in root else f' viewBox="0 0 {across:g} {down:g}"'
    for name, size in (("width", width), ("height", down * width / across)):
        root = re.sub(rf'(\s{name}=")[^"]*', rf"\g<1>{size:.6g}{unit}", root, count=1)
    return svg[:start] + root + box + svg[stop:]


def write_picture(svg: str, path: Path, kind: str) -> list[Path]:
    """Write a picture as svg, png or pdf; other formats of charts (html, json) are left out."""
    if f".{kind}" not in PICTURES:
        return []
    path = path.with_name(f"{path.name}.{kind}")
    write_bytes(path, picture_bytes(svg, kind))
    return [path]


def picture_bytes(svg: str, kind: str, dots: float = 108) -> bytes:
    """A picture in a format; a PNG has so many dots for 72 units of the picture."""
    if kind == "png":
        return bytes(vl_convert.svg_to_png(svg, ppi=dots))
    return _pdf(svg) if kind == "pdf" else svg.encode()


def _pdf(svg: str) -> bytes:
    """A picture as PDF; letters that no font at hand can put there are drawn as boxes."""
    try:
        return vl_convert.svg_to_pdf(svg)
    except RuntimeError:
        return vl_convert.svg_to_pdf(
            "".join(letter if ord(letter) < 0x250 else "□" for letter in svg)
        )
