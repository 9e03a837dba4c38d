"""The attention of one text to look at: a page to click in, a picture, a frame in a notebook."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from attlas.core.importance import received_by
from attlas.support.errors import AttlasError
from attlas.support.files import write_bytes
from attlas.support.outputs import PAGE, PICTURES, check_output
from attlas.views.overlay import Overlay, overlay
from attlas.views.page import framed, inline_json, templates
from attlas.views.picture import tinted_svg, write_picture

PAGE_BYTES = 8 * 2**20
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class TextNumbers:
    """One text, its tokens and words, and the attention that they give and receive."""

    model: str
    text: str
    tokens: tuple[str, ...]  # what a reader sees of each
    words: tuple[str, ...]
    word_of: npt.NDArray[np.int64]  # token
    special: npt.NDArray[np.bool_]  # token
    spans: npt.NDArray[np.int64]  # token 2: characters from, to
    cut: int  # tokens that the model does not read
    by_head: Floats  # layer head token: attention received
    uniform: Floats  # layer token: what uniform attention gives
    tops: tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]  # see `overlay`
    importance: Floats | None = field(default=None, repr=False)  # layer head
    weights: Floats | None = field(default=None, repr=False)  # layer head query key

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
            "start": np.where(one.special, -1, one.spans[:, 0]),
            "stop": np.where(one.special, -1, one.spans[:, 1]),
            "string": list(one.tokens),
        }
    )
    even = one.uniform
    if layer is not None or head is not None:
        chosen = received_by(one.by_head, layer, head, one.importance)[None, None]
        uniform = even if layer is None else even[layer : layer + 1]
        return overlay(one.text, tokens, chosen, uniform, of=one.word_of)
    return overlay(one.text, tokens, one.by_head, even, one.importance, one.tops, one.word_of)


def text_page(one: TextNumbers) -> str:
    """A page that needs nothing else: choose layer and head, click tokens, or words."""
    layers, heads = one.by_head.shape[:2]
    common = {"model": one.model, "n_layers": layers, "n_heads": heads, "cut": one.cut}
    if one.weights is None or one.importance is not None or 2 * one.weights.size > PAGE_BYTES:
        drawn = text_overlay(one)
        page = templates().get_template("long.html")
        return page.render(words=Markup(drawn.html), data=inline_json(drawn.data), **common)
    scale = float(one.weights.max()) or 1.0
    packed = np.round(one.weights / scale * 65535).astype("<u2").tobytes()
    data = {
        "tokens": list(one.tokens),
        "special": one.special.tolist(),
        "spans": one.spans.tolist(),
        "text": one.text,
        "shape": list(one.weights.shape),
        "scale": scale,
        "weights": base64.b64encode(packed).decode(),
        "uniform": rounded(one.uniform.mean(0)),
        "visible": visible_keys(one.weights),
    }
    return templates().get_template("look.html").render(data=inline_json(data), **common)


def visible_keys(weights: Floats) -> list[list[int]]:
    """The first and the last key that each query of [layer, head, query, key] sees anywhere.

    >>> visible_keys(np.tril(np.ones((1, 1, 2, 2))))
    [[0, 0], [0, 1]]
    """
    seen = np.asarray((weights > 0).any(axis=(0, 1)))
    last = seen.shape[1] - 1 - seen[:, ::-1].argmax(1)
    return np.stack([seen.argmax(1), last], 1).tolist()


def text_frame(one: TextNumbers) -> str:
    """The page in an isolated frame, so that nothing leaks into a notebook."""
    return framed(text_page(one), len(one.text))


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
