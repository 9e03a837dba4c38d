"""Parts as one widget of a notebook (anywidget): Jupyter, VS Code, Colab, marimo.

What a widget stores in a notebook are its script and styles, the shared values (head, column,
numbers of words) and the data of views that hold no words. Data with words are sent when the
browser asks for them, in pieces, unless they are to be stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import anywidget
import traitlets

from attlas.support.errors import AttlasError
from attlas.views.modules import LOOK, View, joined, scoped_styles
from attlas.views.notebook import PLAIN, Panel, Selection, is_index, settings
from attlas.views.parts import Part

SHARED = ("head", "column", "selection")
PIECE = 500_000  # bytes of a message
MOST_BYTES = 64 * 2**20  # of the data of a widget
MOST_STORED = 8 * 2**20  # of the data of a part, in a notebook


class Shared(traitlets.HasTraits):
    """What all widgets of one study or one text have in common."""

    head = traitlets.Unicode("")
    column = traitlets.Unicode("")
    selection = traitlets.Dict()


class PartsWidget(anywidget.AnyWidget):
    """Parts that share the values of one model; what they ask is answered here."""

    head = traitlets.Unicode("").tag(sync=True)
    column = traitlets.Unicode("").tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    layout_kind = traitlets.Unicode("").tag(sync=True)
    parts: traitlets.List[dict[str, str]] = traitlets.List().tag(
        sync=True
    )  # module and class of each
    stored: traitlets.List[str | None] = traitlets.List().tag(
        sync=True
    )  # data of each as JSON, or None
    title = traitlets.Unicode("").tag(sync=True)
    picture = traitlets.Unicode("").tag(sync=True)  # as HTML, until the data are there

    def __init__(self, panel: Panel, **values: Any) -> None:
        self._panel = panel
        self._sent: dict[int, bytes] = {}
        super().__init__(**values)
        self.on_msg(self._hear)

    @property
    def n_bytes(self) -> int:
        """How many bytes of data it has sent and keeps, for views that are drawn again."""
        return sum(map(len, self._sent.values()))

    def data_of(self, part: int) -> bytes:
        """The data of a part as JSON; they are kept, as each new view asks for them."""
        if part not in self._sent:
            content = part_bytes(self._panel.parts[part])
            if self.n_bytes + len(content) > MOST_BYTES:
                raise AttlasError(
                    f"the data of this view take {len(content) / 1e6:.1f} MB; a widget has at most "
                    f"{MOST_BYTES / 1e6:.0f} MB; .static() shows it as a page"
                )
            self._sent[part] = content
        return self._sent[part]

    def _hear(self, _: Any, content: Any, buffers: Any) -> None:
        """Answer a message of the browser; one that makes no sense gets a sentence."""
        asked = content if isinstance(content, Mapping) else {}
        try:
            reply, payload = self._answer(asked)
        except AttlasError as problem:
            reply, payload = {**asked, "kind": "error", "message": str(problem)}, b""
        self.send(reply, [payload])

    def _answer(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        if asked.get("kind") == "data":
            part, at = asked.get("part"), asked.get("at")
            if not (is_index(part, len(self._panel.parts)) and is_index(at, MOST_BYTES)):
                raise AttlasError("there is no such part")
            content = self.data_of(part)
            return {**asked, "total": len(content)}, content[at : at + PIECE]
        if self._panel.answer is None:
            raise AttlasError("this view answers no questions")
        return dict(asked), self._panel.answer(asked)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget itself is shown as any other, without a picture."""
        bundle = super()._repr_mimebundle_(**options)
        if bundle is not None:
            bundle[0][PLAIN] = "<PartsWidget>"
        return bundle


def part_bytes(part: Part) -> bytes:
    """The data of a part as JSON."""
    content = json.dumps(part.data, ensure_ascii=False, allow_nan=False)
    return content.encode("utf-8", "replace")


@cache
def _class_of(views: tuple[View, ...]) -> type[PartsWidget]:
    """The class of widgets with these views.

    A notebook keeps one sheet of styles for each class, so these depend on the class alone.
    """
    name = "".join(one.name.title() for one in views) + "Widget"
    content = {"__module__": __name__, "_esm": joined(*views), "_css": scoped_styles(views, [LOOK])}
    return type(name, (PartsWidget,), content)


def widget_of(panel: Panel) -> PartsWidget:
    """The widget of a panel, its values linked with those of all that share its selection."""
    views = tuple(dict.fromkeys(one.view for one in panel.parts))
    kinds = panel.kinds or ("",) * len(panel.parts)
    named = zip(panel.parts, kinds, strict=True)
    shared = panel.selection.shared
    follows = [name for name in SHARED if name not in panel.values]
    out = _class_of(views)(
        panel,
        parts=[{"module": one.view.module, "kind": kind} for one, kind in named],
        layout_kind=panel.layout,
        title=panel.title,
        picture=panel.picture(bool(settings.store_texts)),
        stored=list(_stored(panel.parts)),
        **{name: getattr(shared, name) for name in follows},
        **panel.values,
    )
    for name in follows:
        traitlets.link((shared, name), (out, name))
    return out


def widget(*parts: Part) -> PartsWidget:
    """Parts as a widget, one below the other."""
    return widget_of(Panel(parts, lambda words: "", lambda: "", Selection()))


def _stored(parts: Iterable[Part]) -> Iterable[str | None]:
    """What a notebook stores of each part: data without words, or all if texts are stored."""
    for part in parts:
        if part.view.has_words and not settings.store_texts:
            yield None
            continue
        content = part_bytes(part)
        yield content.decode() if len(content) <= MOST_STORED else None
