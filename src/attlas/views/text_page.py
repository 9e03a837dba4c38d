"""The attention of one text to look at: a page to click in, a picture, a frame in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup, escape

from attlas.core.importance import received_by
from attlas.support.errors import AttlasError
from attlas.support.files import write_bytes
from attlas.support.outputs import PAGE, PICTURES, check_output
from attlas.views.head_views import HEADS, HeadGrid, head_grid_part
from attlas.views.matrices import HeadCodes, HeadMatrices
from attlas.views.modules import LOOK, View, page_scripts
from attlas.views.notebook import NOT_STORED, Answer, Panel, Selection, picture_html
from attlas.views.numbers import head_name
from attlas.views.overlay import Overlay, overlay
from attlas.views.page import framed, templates
from attlas.views.parts import TEXT
from attlas.views.picture import tinted_svg, write_picture
from attlas.views.placed import PageData
from attlas.views.tables import Column
from attlas.views.text_rows import Tops, Visible, weights_data

PAGE_BYTES = 8 * 2**20  # of all weights of a text; of a longer one, the largest of each word
LINED = 4  # heads with lines
BRIEF = 150  # words that leave room below them
FRAMED = 1_200  # characters for which a frame in a notebook has room, at least
COLUMNS = (
    Column("entropy", "entropy", "nats", kind="below", control="entropy_uniform"),
    Column("first", "share on the first token", kind="above", control="first_uniform"),
    Column("distance", "attention distance", "tokens", kind="below", control="distance_uniform"),
)
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class TextNumbers:
    """One text, its tokens and words, and the attention that they give and receive."""

    model: str
    id: str
    text: str
    tokens: tuple[str, ...]  # what a reader sees of each
    words: tuple[str, ...]
    word_of: npt.NDArray[np.int64]  # token
    special: npt.NDArray[np.bool_]  # token
    spans: npt.NDArray[np.int64]  # token 2: characters from, to
    cut: int  # tokens that the model does not read
    by_head: Floats  # layer head token: attention received
    uniform: Floats  # layer token: what uniform attention gives
    tops: tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]  # side word rank: mean of heads
    visible: Visible
    heads: pd.DataFrame  # layer head: numbers of this text
    importance: Floats | None = field(default=None, repr=False)  # layer head
    weights: Floats | None = field(default=None, repr=False)  # layer head query key
    head_tops: Callable[[], Tops] | None = None  # of every head
    matrices: tuple[HeadCodes, ...] = ()
    seams: tuple[int, ...] = ()  # tokens at which positions repeat

    @property
    def matrix_parts(self) -> list[HeadMatrices]:
        """The matrices of the heads that were asked for, if any."""
        if not self.matrices:
            return []
        tokens = self.tokens[: len(self.matrices[0].codes)]
        parts = (self.id, tokens, self.word_of, len(self.tokens), self.matrices)
        return [HeadMatrices(*parts, self.seams)]

    def check(self, layer: int | None, head: int | None) -> None:
        """Refuse a layer or a head that the model does not have."""
        layers, heads = self.by_head.shape[:2]
        for name, chosen, size in (("layer", layer, layers), ("head", head, heads)):
            if chosen is not None and not 0 <= chosen < size:
                raise AttlasError(
                    f"there is no {name} {chosen}; the model has {name}s 0 to {size - 1}"
                )


def text_overlay(one: TextNumbers, layer: int | None = None, head: int | None = None) -> Overlay:
    """The text shaded by what its words receive, for every layer and head; or for one alone."""
    tokens = pd.DataFrame(
        {
            "text": one.id,
            "start": np.where(one.special, -1, one.spans[:, 0]),
            "stop": np.where(one.special, -1, one.spans[:, 1]),
            "string": list(one.tokens),
        }
    )
    even = one.uniform
    if layer is not None or head is not None:
        chosen = received_by(one.by_head, layer, head, one.importance)[None, None]
        uniform = even if layer is None else even[layer : layer + 1]
        return overlay(one.text, tokens, chosen, uniform.mean(0), of=one.word_of)
    return overlay(one.text, tokens, one.by_head, even, one.importance, one.word_of)


def text_data(one: TextNumbers) -> dict[str, Any]:
    """What text.js draws: the text with its rows, and lines of a few heads."""
    rows: dict[str, Any] = {}
    if one.weights is not None and 2 * one.weights.size <= PAGE_BYTES:
        rows["weights"] = weights_data(one.weights)
    elif one.head_tops is not None:
        rows["tops"] = one.head_tops().data
    shown = {**text_overlay(one).data, "lines": focused_heads(one.heads)}
    seams = {"seams": list(one.seams)} if one.seams else {}
    return {**shown, **rows, "visible": one.visible.data, **seams}


def focused_heads(heads: pd.DataFrame, count: int = LINED) -> list[str]:
    """The heads whose entropy is furthest below that of uniform attention.

    >>> numbers = {"layer": 0, "head": [0, 1], "entropy": [2.0, 1.0], "entropy_uniform": 3.0}
    >>> focused_heads(pd.DataFrame(numbers), 1)
    ['L0H1']
    """
    below = heads["entropy_uniform"] - heads["entropy"]
    chosen = heads.loc[below.sort_values(ascending=False, kind="stable").index[:count]]
    return [head_name(row) for row in chosen.to_dict("records")]


@dataclass(frozen=True, eq=False)
class TextPart:
    """One text with all its rows, as a part."""

    numbers: TextNumbers
    view: View = TEXT

    @property
    def data(self) -> dict[str, Any]:
        return text_data(self.numbers)

    def html(self, number: int) -> str:
        return self.view.html(number, escape(self.numbers.text))

    def pictures(self) -> list[str]:
        return [tinted_svg(text_overlay(self.numbers))]


def heads_part(one: TextNumbers) -> HeadGrid:
    """The grid of all heads by numbers of this text."""
    return head_grid_part(one.heads, COLUMNS, table="text")


def text_title(one: TextNumbers) -> str:
    """The model and the size of the text, without its words."""
    layers, heads = one.by_head.shape[:2]
    size = f"{len(one.words):,} words, {len(one.tokens):,} tokens"
    return f"{one.model}: {layers} layers × {heads} heads · {size}"


def text_panel(one: TextNumbers, selection: Selection, answer: Answer | None = None) -> Panel:
    """The text, its heads and its matrices in a notebook."""

    def picture(words: bool) -> str:
        shown = text_overlay(one)
        svg = tinted_svg(shown if words else shown.without_words)
        caption = f"{text_title(one)}. Tint: attention received, mean of all heads."
        return picture_html(svg, caption, "" if words else NOT_STORED)

    return Panel(
        (TextPart(one), heads_part(one), *one.matrix_parts),
        picture,
        lambda: text_page(one, small=True),
        selection,
        text_title(one),
        ("", "heads compact", *("more" for _ in one.matrix_parts)),
        _look(one, small=True),
        answer=answer,
    )


def text_page(one: TextNumbers, small: bool = False) -> str:
    """A page that needs nothing else: the text, its heads, what words attend to, lines, matrices.

    A `small` page is that of a notebook.
    """
    page = PageData(views={TEXT: [text_data(one)]})
    grid = heads_part(one)
    layers, heads = one.by_head.shape[:2]
    words = {
        "model": one.model,
        "n_layers": layers,
        "n_heads": heads,
        "n_tokens": len(one.tokens),
        "n_words": len(one.words),
        "cut": one.cut,
        "look": _look(one, small),
        "text": Markup(TEXT.html(0, escape(one.text))),
        "heads": Markup(HEADS.html(page.number(grid), kind="compact")),
        "more": Markup("").join(page.part(one) for one in one.matrix_parts),
    }
    return (
        templates()
        .get_template("look.html")
        .render(**words, **page_scripts(page.views, sheets=[LOOK]))
    )


def _look(one: TextNumbers, small: bool) -> str:
    """The classes of the page: a brief text has its lists below it."""
    kinds = {"look": True, "small": small, "brief": len(one.words) <= BRIEF}
    return " ".join(kind for kind, is_one in kinds.items() if is_one)


def text_frame(one: TextNumbers) -> str:
    """The page in an isolated frame, so that nothing leaks into a notebook."""
    return framed(text_page(one, small=True), max(len(one.text), FRAMED))


def write_text(
    one: TextNumbers,
    path: str | Path,
    layer: int | None = None,
    head: int | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write the page to a file; to .svg, .png or .pdf, a picture of the shaded text."""
    path = check_output(path, (PAGE, *PICTURES), force)
    if path.suffix in PICTURES:
        name = ("" if layer is None else f"L{layer}") + ("" if head is None else f"H{head}")
        title = f"{one.model}, {name or 'all layers and heads'}"
        picture = tinted_svg(text_overlay(one, layer, head), title)
        return write_picture(picture, path.with_suffix(""), path.suffix[1:])[0]
    write_bytes(path, text_page(one).encode("utf-8", "replace"))
    return path


def rounded(values: Any) -> list[float]:
    """Numbers to five places, for JSON."""
    return [round(float(value), 5) for value in values]
