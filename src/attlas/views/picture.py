"""Pictures without a browser: small matrices as PNG, shaded texts as SVG."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import vl_convert

from attlas.support.files import write_bytes
from attlas.support.outputs import PICTURES
from attlas.views.overlay import LEVELS, Overlay

INK, FOR, AGAINST = (43, 95, 168), (0, 133, 98), (205, 84, 0)
COLUMNS, CHARACTER, LINE = (
    112,
    7.2,
    19,
)  # of a shaded text: letters a line, their width and height in pixels


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


def text_svg(overlay: Overlay, title: str = "") -> str:
    """A shaded text as a picture: lines of fixed width, paragraphs kept."""
    boxes: list[str] = []
    letters: list[str] = []
    x, y = 0, 1 if title else 0
    cursor = 0

    def put(piece: str, tint: int | None) -> None:
        nonlocal x, y
        for part in _pieces(piece):
            if part == "\n":
                x, y = 0, y + 1
                continue
            if x and x + len(part) > COLUMNS:
                x, y = 0, y + 1
                if part.isspace():
                    continue
            if tint:
                shade, colour = (
                    abs(tint) / (LEVELS - 1),
                    (FOR if tint > 0 else AGAINST) if overlay.signed else INK,
                )
                boxes.append(
                    f'<rect x="{x * CHARACTER:.1f}" y="{y * LINE}" '
                    f'width="{len(part) * CHARACTER:.1f}" height="{LINE - 2}" '
                    f'fill="rgb{colour}" fill-opacity="{shade:.2f}"/>'
                )
            if not part.isspace():
                ink = "#ffffff" if abs(tint or 0) >= 7 else "#1d2129"
                letters.append(
                    f'<text x="{x * CHARACTER:.1f}" y="{y * LINE + 13}" fill="{ink}" '
                    f'textLength="{len(part) * CHARACTER:.1f}">{escape(part)}</text>'
                )
            x += len(part)

    for (start, stop), tint in zip(overlay.words, overlay.tints.tolist(), strict=True):
        if start < 0:
            continue
        put(overlay.content[cursor : max(start, cursor)], None)
        put(overlay.content[max(start, cursor) : stop], tint)
        cursor = max(cursor, stop)
    head = f'<text x="0" y="13" fill="#6a7180">{escape(title[:COLUMNS])}</text>' if title else ""
    width, height = COLUMNS * CHARACTER + 16, (y + 1) * LINE + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="-8 -4 {width:.0f} {height}">'
        '<rect x="-8" y="-4" width="100%" height="100%" fill="#ffffff"/><g '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" '
        'xml:space="preserve">'
        f"{head}{''.join(boxes)}{''.join(letters)}</g></svg>"
    )


def _pieces(text: str) -> list[str]:
    """A stretch of text as line breaks and runs that are not broken; no control characters."""
    clean = "".join(letter if letter >= " " or letter == "\n" else " " for letter in text)
    out: list[str] = []
    for number, line in enumerate(clean.split("\n")):
        if number:
            out.append("\n")
        out += [line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS)]
    return out


def write_picture(svg: str, path: Path, kind: str) -> list[Path]:
    """Write a picture as svg, png or pdf; other formats of charts (html, json) are left out."""
    if f".{kind}" not in PICTURES:
        return []
    path = path.with_name(f"{path.name}.{kind}")
    write_bytes(path, picture_bytes(svg, kind))
    return [path]


def picture_bytes(svg: str, kind: str) -> bytes:
    """A picture in a format."""
    if kind == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=1.5))
    return _pdf(svg) if kind == "pdf" else svg.encode()


def _pdf(svg: str) -> bytes:
    """A picture as PDF; letters that no font at hand can put there are drawn as boxes."""
    try:
        return vl_convert.svg_to_pdf(svg)
    except RuntimeError:
        return vl_convert.svg_to_pdf(
            "".join(letter if ord(letter) < 0x250 else "□" for letter in svg)
        )
