"""What shape is the attention of one text? Its graphs as a page with a slider for thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from attlas.models.look import TextAttention
from attlas.support.arrays import Floats
from attlas.support.errors import MeasureError
from attlas.support.files import write_bytes
from attlas.support.heads import layer_and_head
from attlas.support.outputs import PAGE, PICTURES, check_output
from attlas.topology import section
from attlas.topology.betti import BettiNumbers, betti
from attlas.topology.experiment import THRESHOLDS
from attlas.topology.section.graph import (
    MOST_TOKENS,
    AttentionGraphs,
    GraphText,
    HeadGraph,
)
from attlas.views.modules import page_scripts
from attlas.views.notebook import NOT_STORED, Panel, Shown, picture_html
from attlas.views.page import framed, templates
from attlas.views.picture import write_picture

LEAST, LEAST_OF_ALL = 0.001, 0.01  # the lowest threshold of one head, and of all


@dataclass(frozen=True, eq=False)
class AttentionGraph(Shown):
    """The attention graphs of one text: of one head, or of all."""

    seen: TextAttention
    layer: int | None = None
    head: int | None = None

    @property
    def heads(self) -> list[tuple[int, int]]:
        """The layers and heads that have a graph here."""
        if self.layer is not None and self.head is not None:
            return [(self.layer, self.head)]
        return [
            (layer, head)
            for layer in range(self.seen.n_layers)
            for head in range(self.seen.n_heads)
        ]

    def betti(self, thresholds: Sequence[float] = THRESHOLDS) -> BettiNumbers:
        """Betti numbers of each of the heads, [head, threshold]; see `attlas.topology.betti`."""
        weights = self.seen.weights
        return betti(np.stack([weights[one] for one in self.heads]), thresholds)

    @property
    def part(self) -> AttentionGraphs:
        """The graphs as a part of a page."""
        seen, batch = self.seen, self.seen.batch
        least = LEAST if len(self.heads) == 1 else LEAST_OF_ALL
        weights = seen.weights.float().numpy()
        texts = []
        graphs = []
        for layer in sorted({layer for layer, _ in self.heads}):
            words = tuple(int(word) for word in batch.words[0].of)
            texts.append(GraphText(batch.texts[0].id, seen.tokens, _ranges(weights[layer]), words))
        first = self.heads[0][0]
        for layer, head in self.heads:
            query, key = np.nonzero(weights[layer, head] >= np.float32(least))
            keys = (query, key, weights[layer, head][query, key])
            graphs.append(HeadGraph.of_weights(f"L{layer}H{head}", layer - first, keys, least))
        return AttentionGraphs(tuple(texts), tuple(graphs), THRESHOLDS)

    @property
    def _headline(self) -> str:
        name = f"L{self.layer}H{self.head}" if len(self.heads) == 1 else "all heads"
        return f"Attention graph: {name}"

    def page(self) -> str:
        """A page that needs nothing else."""
        part = self.part
        page = templates(section.__name__).get_template("graph.html")
        return page.render(
            headline=self._headline,
            about=self.seen.text,
            model=self.seen.model,
            graph=Markup(part.html(0)),
            **page_scripts({part.view: [part.data]}),
        )

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page to a file; to .svg, .png or .pdf, a picture at the usual threshold."""
        path = check_output(path, (PAGE, *PICTURES), force)
        if path.suffix in PICTURES:
            svg = self.part.pictures()[0]
            return write_picture(svg, path.with_suffix(""), path.suffix[1:])[0]
        write_bytes(path, self.page().encode("utf-8", "replace"))
        return path

    @property
    def panel(self) -> Panel:
        part = self.part

        def picture(words: bool) -> str:
            if words:
                return picture_html(part.pictures()[0], self._headline)
            return f"<p>{self._headline}<br>{NOT_STORED}</p>"

        selection, kinds = self.seen.selection, ("attlas-graph",)
        return Panel((part,), picture, self.page, selection, self._headline, kinds)

    def _repr_html_(self) -> str:
        """An isolated frame, so that nothing leaks into a notebook."""
        return framed(self.page(), 2000)


def attention_graph(
    attention: TextAttention, layer: int | str | None = None, head: int | None = None
) -> AttentionGraph:
    """The attention graph of one text in a head, such as "L2H10", or in all heads.

    `attention` is `attlas.attention(model, text)`. `write("graph.html")` writes a page with a
    slider: at each threshold its numbers are those of `betti`, loops included.
    """
    number, of_layer = layer_and_head(layer, head)
    shape = attention.n_layers, attention.n_heads
    if (number is None) != (of_layer is None):
        raise MeasureError("give one head, by layer and head: 2, 10 or L2H10; or none, for all")
    if (number or 0) >= shape[0] or (of_layer or 0) >= shape[1]:
        raise MeasureError(
            f"there is no head L{number}H{of_layer}; the model has {shape[0]} layers x "
            f"{shape[1]} heads"
        )
    if len(attention.tokens) > MOST_TOKENS:
        raise MeasureError(
            f"graphs are drawn for at most {MOST_TOKENS} tokens, not {len(attention.tokens):,}; "
            "use a shorter text, or betti() for the numbers alone"
        )
    return AttentionGraph(attention, number, of_layer)


def _ranges(weights: Floats) -> tuple[tuple[int, int], ...] | None:
    """The keys that each query of a layer sees, [head, query, key]; None if they have gaps."""
    seen = np.asarray((weights > 0).any(axis=0))
    first, last = seen.argmax(1), seen.shape[1] - 1 - seen[:, ::-1].argmax(1)
    if not (seen.sum(1) == last - first + 1).all():
        return None
    return tuple((int(one), int(other)) for one, other in zip(first, last, strict=True))
