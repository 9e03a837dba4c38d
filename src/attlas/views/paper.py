"""A figure for a paper: a picture of a given width, its caption and its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from attlas.support.errors import AttlasError
from attlas.support.files import write_bytes
from attlas.support.outputs import CHARTS, PICTURES, TEXT, check_output
from attlas.views.charts import spec_bytes
from attlas.views.notebook import NOT_STORED, Answer, Panel, Selection, Shown, svg_url
from attlas.views.parts import Part
from attlas.views.picture import fitted, picture_bytes
from attlas.views.placed import parts_page
from attlas.views.tables import TextTable

UNITS = {"in": 72.0, "cm": 72 / 2.54, "mm": 7.2 / 2.54, "pt": 1.0, "px": 0.75}  # points of each
FONT = 12  # the letters of all drawings, which are then scaled
NARROWEST, WIDEST = 72.0, 2880.0  # points
SMALLEST, LARGEST = 4.0, 48.0  # letters, in points
LETTERS = 20  # that a line has room for, at least
DOTS = 300  # of a PNG, for an inch
Drawn = str | Mapping[str, Any]  # SVG, or the specification of a chart


@dataclass(frozen=True)
class Size:
    """The width of a picture and the size of its letters, in points."""

    width: float
    font: float

    @classmethod
    def of(cls, width: str = "3.3in", font: float = 8) -> Size:
        """A size from a width with its unit, checked.

        >>> Size.of("3.3in"), Size.of("84mm", font=9).width
        (Size(width=237.6, font=8), 238.110236)
        >>> Size.of("3.3")
        Traceback (most recent call last):
            ...
        attlas.support.errors.AttlasError: width is '3.3'; give it in in, cm, mm, pt or px: 3.3in
        """
        written = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]+)\s*", str(width))
        if written is None or written[2] not in UNITS:
            units = " or ".join(", ".join(UNITS).rsplit(", ", 1))
            raise AttlasError(f"width is {width!r}; give it in {units}: 3.3in")
        points = round(float(written[1]) * UNITS[written[2]], 6)
        if not NARROWEST <= points <= WIDEST:
            raise AttlasError(f"width is {width!r}; it must be from 1in to 40in")
        if isinstance(font, bool) or not isinstance(font, int | float) or not math.isfinite(font):
            raise AttlasError(f"font is {font!r}; it must be a number of points, such as 8")
        if not SMALLEST <= font <= LARGEST:
            raise AttlasError(f"font is {font:g}; it must be from {SMALLEST:g} to {LARGEST:g}")
        if points < LETTERS * font / 2:
            least = LETTERS * font / 2 / UNITS["in"]
            raise AttlasError(
                f"a width of {width} has no room for letters of {font:g} points; "
                f"give at least {math.ceil(least * 10) / 10:g}in, or a smaller font"
            )
        return cls(points, font)


@dataclass(frozen=True, eq=False)
class Interactive:
    """What a notebook draws in place of a picture, with the values that the code names."""

    parts: Callable[[], tuple[Part, ...]]
    selection: Selection
    values: Mapping[str, Any]
    answer: Answer | None = None
    has_words: bool = True  # in the picture


@dataclass(frozen=True, eq=False)
class PaperFigure(Shown):
    """What `save` writes: `draw` makes the picture of a width in letters of 12 units.

    It is SVG or the specification of a chart, which may also be saved as .html or .json. All of
    the picture is then scaled, so that it has the width and its letters the size that are wanted.
    """

    caption: str
    table: TextTable
    draw: Callable[[float], Drawn]
    is_chart: bool = False
    interactive: Interactive | None = None

    def save(
        self,
        path: str | Path,
        width: str = "3.3in",
        font: float = 8,
        *,
        caption: bool = False,
        force: bool = False,
    ) -> Path:
        """Write the picture as .pdf, .svg or .png (300 dpi), `width` wide, in letters of `font` pt.

        With `caption`, its caption is written next to it, to a file that ends in .txt. An existing
        file is overwritten only with `force`.
        """
        size = Size.of(width, font)
        path = check_output(path, CHARTS if self.is_chart else PICTURES, force)
        if caption:
            check_output(path.with_suffix(TEXT), [TEXT], force)
        write_bytes(path, self.content(path.suffix, size))
        if caption:
            write_bytes(path.with_suffix(TEXT), f"{self.caption}\n".encode("utf-8", "replace"))
        return path

    def content(self, suffix: str, size: Size) -> bytes:
        """The picture in a format."""
        drawn = self.draw(size.width * FONT / size.font)
        if not isinstance(drawn, str) and suffix not in PICTURES:
            return spec_bytes(drawn, suffix, FONT)
        svg = drawn if isinstance(drawn, str) else spec_bytes(drawn, ".svg", FONT).decode()
        if suffix == ".svg":
            return fitted(svg, size.width, "pt").encode()
        return picture_bytes(fitted(svg, size.width), suffix[1:], DOTS)

    def latex(self, label: str = "") -> str:
        """The numbers as a booktabs table under the caption."""
        return self.table.latex(self.caption, label)

    @property
    def panel(self) -> Panel:
        """What a notebook draws in place of the picture."""
        shown = self.interactive
        if shown is None:
            raise AttlasError("this figure has no widget; save it, or show it as it is")
        parts = shown.parts()

        def picture(words: bool) -> str:
            if words or not shown.has_words:
                return self._repr_html_()
            return f"<p>{escape(self.caption)}<br>{escape(NOT_STORED)}</p>"

        return Panel(
            parts,
            picture,
            lambda: parts_page(self.caption, parts, shown.values),
            shown.selection,
            values=shown.values,
            answer=shown.answer,
        )

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any] | None:
        return None if self.interactive is None else super()._repr_mimebundle_(**options)

    def _repr_html_(self) -> str:
        """The picture under its caption, isolated from the notebook."""
        svg = self.content(".svg", Size.of("6in", 9))
        words = escape(self.caption)
        return f'<figure><img src="{svg_url(svg)}" alt=""><figcaption>{words}</figcaption></figure>'

    def __repr__(self) -> str:
        return f"PaperFigure({self.caption!r})"
