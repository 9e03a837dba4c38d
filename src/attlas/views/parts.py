"""Parts of a figure that a script draws: shaded texts, sentences with lines between their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from markupsafe import escape

from attlas.views.lines import Lines, lines_svg
from attlas.views.modules import View
from attlas.views.overlay import Overlay
from attlas.views.picture import tinted_svg


class Part(Protocol):
    """Something in a figure that a script draws."""

    @property
    def view(self) -> View:
        """What draws it."""

    @property
    def data(self) -> Any:
        """What the view gets, as JSON."""

    def html(self, number: int) -> str:
        """Its elements; one of them is that of the view, with this number."""

    def pictures(self) -> Sequence[str]:
        """The same without a script: pictures as SVG."""


TEXT = View("text")
LINES = View("lines")


@dataclass(frozen=True, eq=False)
class TintedText:
    """A text whose words are shaded, with its title.

    One that `follows` another has no controls of its own: all texts of a page are shown alike.
    """

    title: str
    shown: Overlay
    follows: bool = False
    view: View = TEXT

    @property
    def data(self) -> Any:
        return self.shown.data

    def html(self, number: int) -> str:
        options = {"follows": "first"} if self.follows else {}
        words = self.view.html(number, self.shown.html, options=options)
        return f'<div class="text"><div class="id">{escape(self.title)}</div>{words}</div>'

    def pictures(self) -> list[str]:
        return [tinted_svg(self.shown, self.title)]


@dataclass(frozen=True, eq=False)
class LinedSentences:
    """Sentences with lines between their words, one shown at a time."""

    sentences: tuple[Lines, ...]
    view: View = LINES

    @property
    def data(self) -> Any:
        return [one.data for one in self.sentences]

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return [lines_svg(one) for one in self.sentences]
