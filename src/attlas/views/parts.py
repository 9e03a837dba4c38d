"""Parts of a figure that a script draws: shaded texts, sentences with lines between their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

from markupsafe import escape

from attlas.views.lines import Lines, lines_svg
from attlas.views.overlay import Overlay
from attlas.views.picture import tinted_svg

LONG_WORDS = 1_000  # a text of more is shown in a window


@dataclass(frozen=True)
class Drawing:
    """A script for pages: `call(element, data)` draws in every element that has `data-NAME`.

    `script` and `style` are files in the folder `templates` of a package.
    """

    name: str
    call: str
    script: str
    package: str = "attlas.views"
    style: str = ""

    @property
    def source(self) -> str:
        """The code of the script."""
        return self._read(self.script)

    @property
    def css(self) -> str:
        """The rules that its elements need."""
        return self._read(self.style) if self.style else ""

    def _read(self, name: str) -> str:
        return (files(self.package) / "templates" / name).read_text(encoding="utf-8")


class Part(Protocol):
    """Something in a figure that a script draws."""

    @property
    def drawing(self) -> Drawing:
        """What draws it."""

    @property
    def data(self) -> Any:
        """What the script gets, as JSON."""

    def html(self, number: int) -> str:
        """Its elements; one of them has `data-NAME="NUMBER"`."""

    def pictures(self) -> Sequence[str]:
        """The same without a script: pictures as SVG."""


OVERLAY = Drawing("overlay", "tint", "overlay.js")
LINES = Drawing("lines", "chooseLines", "lines.js")


@dataclass(frozen=True, eq=False)
class TintedText:
    """A text whose words are shaded, with its title."""

    title: str
    shown: Overlay
    drawing: Drawing = OVERLAY

    @property
    def data(self) -> Any:
        return self.shown.data

    def html(self, number: int) -> str:
        long = " long" if len(self.shown.words) > LONG_WORDS else ""
        words = f'<p dir="auto" class="words{long}" data-overlay="{number}">{self.shown.html}</p>'
        return f'<div class="text"><div class="id">{escape(self.title)}</div>{words}</div>'

    def pictures(self) -> list[str]:
        return [tinted_svg(self.shown, self.title)]


@dataclass(frozen=True, eq=False)
class LinedSentences:
    """Sentences with lines between their words, one shown at a time."""

    sentences: tuple[Lines, ...]
    drawing: Drawing = LINES

    @property
    def data(self) -> Any:
        return [one.data for one in self.sentences]

    def html(self, number: int) -> str:
        return f'<div data-lines="{number}"></div>'

    def pictures(self) -> list[str]:
        return [lines_svg(one) for one in self.sentences]
