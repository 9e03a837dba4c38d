"""What a notebook shows of something: a widget where there can be one, else a static picture.

A widget needs the extra `attlas[notebook]` and a running kernel; `widgets.py` makes it. The output
has a static picture next to it, for hosts without widgets and for notebooks that are read later.
Texts are not stored in the notebook unless asked.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeGuard

from attlas.support.errors import AttlasError

if TYPE_CHECKING:
    from attlas.views.parts import Part
    from attlas.views.widgets import PartsWidget, Shared

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
HTML = "text/html"
PLAIN = "text/plain"
NOT_STORED = (
    "The words are not stored in this notebook: run the cell again to see them, or call "
    "attlas.notebook(store_texts=True) before it."
)
Answer = Callable[[Mapping[str, Any]], bytes]  # what a part asks, such as a row of weights


@dataclass
class Settings:
    """What notebooks store.

    `store_texts` is None unless chosen: then texts are stored only where there are no widgets.
    """

    store_texts: bool | None = None


settings = Settings()


@dataclass(eq=False)
class Selection:
    """What widgets share that show the same study or the same text: head, column, words."""

    @cached_property
    def shared(self) -> Shared:
        """The shared values; only widgets need them."""
        from attlas.views.widgets import Shared

        return Shared()


@dataclass(frozen=True, eq=False)
class Panel:
    """What a notebook shows of something.

    `parts` are drawn by a script, in places of the class `kinds` inside an element of the class
    `layout`. `picture` is the same without a script, as HTML: with the words of texts, or without.
    `values` are those that the code names (`head`, `column`), which do not follow the selection.
    """

    parts: tuple[Part, ...]
    picture: Callable[[bool], str]
    page: Callable[[], str]
    selection: Selection
    title: str = ""
    kinds: tuple[str, ...] = ()
    layout: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    answer: Answer | None = None


@dataclass(frozen=True)
class Frame:
    """A page in an isolated frame, so that nothing leaks into a notebook."""

    html: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"Frame({len(self.html):,} characters)"


class Shown:
    """Shows itself in a notebook by what its `panel` says.

    `_repr_html_` of a class derived from this is what a notebook without widgets shows.
    """

    @property
    def panel(self) -> Panel:
        """What a notebook shows of this."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        raise NotImplementedError

    @property
    def widget(self) -> PartsWidget:
        """The widget, which `attlas[notebook]` is needed for; the same one every time."""
        if find_spec("anywidget") is None:
            raise AttlasError("widgets need an extra: pip install 'attlas[notebook]'")
        if settings.store_texts not in self._widgets:
            from attlas.views.widgets import widget_of

            self._widgets[settings.store_texts] = widget_of(self.panel)
        return self._widgets[settings.store_texts]

    @cached_property
    def _widgets(self) -> dict[bool | None, PartsWidget]:
        """The widget by what is stored of texts."""
        return {}

    def static(self) -> Frame:
        """A page that needs neither a kernel nor the extra, in a frame; it holds the texts."""
        return Frame(framed_page(self.panel.page()))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any] | None:
        """The widget with a static picture, as notebooks ask for it."""
        if not has_widgets() and settings.store_texts is not False:
            return None
        picture = self.panel.picture(bool(settings.store_texts))
        bundle: dict[str, Any] = {PLAIN: self._plain(), HTML: picture}
        if has_widgets():
            model = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
            bundle[WIDGET_VIEW] = model
        return bundle

    def _plain(self) -> str:
        """What a notebook stores as text, without words of texts."""
        return repr(self)

    def _display_(self) -> Any:
        """What marimo shows."""
        return self.widget if find_spec("anywidget") else Frame(self._repr_html_())


def is_index(value: Any, stop: int) -> TypeGuard[int]:
    """Whether a value of a message is a whole number from 0 to less than `stop`.

    >>> is_index(2, 3), is_index(3, 3), is_index(True, 3), is_index("2", 3)
    (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < stop


def has_widgets() -> bool:
    """Whether the extra is installed and a kernel runs this."""
    if "IPython" not in sys.modules or find_spec("anywidget") is None:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None) is not None


def notebook(*, store_texts: bool | None = None) -> None:
    """What notebooks store of texts.

    With `store_texts=True` outputs keep the words of texts, so that they can be read without a
    kernel; with False they never do. By default widgets do not store them, and without widgets
    (`pip install 'attlas[notebook]'`) the static page holds them.
    """
    settings.store_texts = store_texts


def picture_html(svg: str, caption: str, note: str = "") -> str:
    """A picture under its caption, isolated from the notebook."""
    words = escape(caption) + (f"<br>{escape(note)}" if note else "")
    return (
        f'<figure style="margin:0"><img src="{svg_url(svg.encode())}" alt="">'
        f"<figcaption>{words}</figcaption></figure>"
    )


def svg_url(svg: bytes) -> str:
    """A picture as an address."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def framed_page(page: str) -> str:
    """A page in a frame of the height of a screen."""
    from attlas.views.page import framed

    return framed(page, 2_000)
