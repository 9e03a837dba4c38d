"""attention: all layers of one text, for Python, notebooks, the terminal and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attlas.core.attention import Attention, DenseAttention, words_from_tokens
from attlas.core.batch import Batch
from attlas.core.importance import received_by
from attlas.core.text import Text
from attlas.models.head_codes import check_tokens, parse_matrices
from attlas.models.model import Model
from attlas.models.text_pass import TextPass, TopWords, mean_tops_of, visible_of
from attlas.support.arrays import Floats, Floats32, Ints
from attlas.support.errors import CorpusError, ModelError
from attlas.support.heads import layer_and_head, parse_head
from attlas.views.notebook import Panel, Selection, Shown, is_index
from attlas.views.text_rows import Tops, Visible

if TYPE_CHECKING:
    import altair as alt

    from attlas.views.matrices import HeadCodes
    from attlas.views.overlay import Overlay
    from attlas.views.paper import PaperFigure
    from attlas.views.text_page import TextNumbers

MOST_BYTES = 2**30  # of all weights that are kept
LISTED = 6  # words of each word, mean of all heads


@dataclass(frozen=True, eq=False)
class TextAttention(Shown):
    """The attention of one text with its tokens and words.

    `weights` [layer, head, query, key] are kept only if they fit into memory.
    """

    batch: Batch
    model: str
    by_head: Tensor  # layer head key: attention received
    uniform: Tensor  # layer key: received from uniform attention over the visible tokens
    mean_tops: Tops  # of the mean of all heads
    grids: Tensor  # layer head bin bin: see Attention.grid
    uniform_grids: Tensor  # layer bin bin: of uniform attention
    visible: Visible
    heads: pd.DataFrame  # layer head: entropy, share on the first token, distance; and uniform
    square: Tensor | None = field(default=None, repr=False)
    largest: Tops | None = field(default=None, repr=False)  # of every head, if it is not kept
    importance: Floats | None = field(default=None, repr=False)  # layer head
    matrices: tuple[HeadCodes, ...] = field(default=(), repr=False)  # of the heads asked for
    seams: tuple[int, ...] = ()  # tokens at which positions repeat
    exact: Mapping[tuple[int, int], Attention] = field(default_factory=dict, repr=False)
    selection: Selection = field(default_factory=Selection, repr=False)  # of widgets

    @property
    def weights(self) -> Tensor:
        """All weights, [layer, head, query, key]."""
        if self.square is None:
            size = weight_bytes(self.n_layers, self.n_heads, len(self.tokens)) / 2**30
            raise ModelError(
                f"the weights of all layers for {len(self.tokens):,} tokens would take {size:.1f} "
                "GB and were not kept; use received() for attention received per token, and grids "
                "for the pattern of each head"
            )
        return self.square

    def __getitem__(self, index: int | str | tuple[int, int]) -> Tensor:
        """The weights [query, key] of a head: `one[2, 9]`, `one["L2H9"]`; of a layer: `one[2]`."""
        layer, head = layer_and_head(*index) if isinstance(index, tuple) else layer_and_head(index)
        self.numbers.check(layer, head)
        kept = self.exact.get((layer or 0, head or 0)) if self.square is None else None
        if kept is not None and head is not None:
            return kept.dense().weights[0, 0]
        weights = self.weights[layer]
        return weights if head is None else weights[head]

    def layer(self, layer: int) -> TextLayer:
        """One layer: `one.layer(2).weights`, `one.layer(2).head(9)`."""
        self.numbers.check(layer, None)
        return TextLayer(self, layer)

    def to_frame(self, layer: int | str | None = None, head: int | None = None) -> pd.DataFrame:
        """Weights as a table: a row for every head, query and key; of all heads, or of some."""
        layer, head = layer_and_head(layer, head)
        self.numbers.check(layer, head)
        layers = range(self.n_layers) if layer is None else [layer]
        heads = range(self.n_heads) if head is None else [head]
        weights = np.stack([[self[one, other].numpy() for other in heads] for one in layers])
        places = np.indices(weights.shape).reshape(4, -1)
        names = np.array(self.tokens, dtype=object)
        return pd.DataFrame(
            {
                "layer": np.array(layers)[places[0]],
                "head": np.array(heads)[places[1]],
                "query": places[2],
                "key": places[3],
                "query_token": names[places[2]],
                "key_token": names[places[3]],
                "weight": weights.reshape(-1),
            }
        )

    @property
    def tops(self) -> tuple[Ints, Floats32]:
        """Words and weights, mean of all heads: [attends to or attended by, word, rank]."""
        top = self.mean_tops
        return np.maximum(top.words[:, 0, :, :LISTED], 0), top.weights[:, 0, :, :LISTED]

    @property
    def n_layers(self) -> int:
        return len(self.by_head)

    @property
    def n_heads(self) -> int:
        return int(self.by_head.shape[1])

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as a reader sees them."""
        return self.batch.surfaces[0]

    @property
    def words(self) -> tuple[str, ...]:
        return self.batch.words[0].strings

    @property
    def text(self) -> str:
        return self.batch.texts[0].text

    @property
    def special(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens the tokenizer added."""
        return self.batch.special[0]

    def to_words(self) -> Tensor:
        """Attention between words [layer, head, word, word]: sum over keys, mean over queries."""
        words = self.batch.words[0]
        return torch.stack([words_from_tokens(layer, words) for layer in self.weights])

    def received(self) -> Tensor:
        """Attention received by each token: column sums, [layer, head, key]."""
        return self.by_head

    def to_dict(self) -> dict[str, Any]:
        """Tokens, words and attention received (mean over heads) by layer, for JSON."""
        from attlas.views.text_page import rounded

        received = self.by_head.mean(1)
        scaled = {}
        if self.importance is not None:
            by_importance = received_by(self.by_head.numpy(), importance=self.importance)
            scaled["scaled"] = rounded(by_importance)
        return {
            "model": self.model,
            "text": self.text,
            "tokens": list(self.tokens),
            "words": list(self.words),
            "word_of": self.batch.words[0].of.tolist(),
            "n_layers": self.n_layers,
            "n_heads": self.n_heads,
            "cut": self.batch.truncated_by[0],
            "received": {
                "all": rounded(received.mean(0)),
                **scaled,
                **{f"L{layer}": rounded(values) for layer, values in enumerate(received)},
            },
            "uniform": rounded(self.uniform.mean(0)),
            "attends_to": self._top_words(0),
            "attended_by": self._top_words(1),
        }

    @cached_property
    def head_tops(self) -> Tops:
        """The words that each word attends to most in every head, and those that attend to it."""
        if self.largest is not None:
            return self.largest
        collected = TopWords()
        for layer, weights in enumerate(self.weights):
            collected.add(DenseAttention(weights[None], self.batch, layer))
        return collected.result(self.mean_tops)

    def _top_words(self, side: int) -> list[list[list[float]]]:
        """For each word, the top words of one side of `tops` with their weights."""
        words, weights = (part[side] for part in self.tops)
        return [
            [
                [int(word), round(float(weight), 5)]
                for word, weight in zip(*row, strict=True)
                if weight > 0
            ]
            for row in zip(words, weights, strict=True)
        ]

    @property
    def numbers(self) -> TextNumbers:
        """The numbers that views draw, as arrays."""
        from attlas.views.findings import model_name
        from attlas.views.text_page import TextNumbers

        words = self.batch.words[0]
        return TextNumbers(
            model_name(self.model),
            self.batch.texts[0].id,
            self.text,
            self.tokens,
            self.words,
            words.of,
            self.special,
            self.batch.offsets[0],
            self.batch.truncated_by[0],
            self.by_head.numpy(),
            self.uniform.numpy(),
            self.tops,
            self.visible,
            self.heads,
            self.importance,
            None if self.square is None else self.square.float().numpy(),
            lambda: self.head_tops,
            self.matrices,
            self.seams,
        )

    def row(self, layer: int, head: int, query: int) -> Floats32:
        """What one query gives to each key in one head.

        Of a text whose weights were not kept, only in heads with a matrix.
        """
        kept = self.exact.get((layer, head)) if self.square is None else None
        weights = self.weights[layer, head, query] if kept is None else kept.row(query)[0]
        return weights.float().cpu().numpy()

    def _answer(self, asked: Mapping[str, Any]) -> bytes:
        """The exact row of a matrix, as a widget asks for it."""
        layer, head = parse_head(str(asked.get("head")))
        query = asked.get("query")
        is_row = asked.get("kind") == "row" and asked.get("text") == self.batch.texts[0].id
        inside = layer < self.n_layers and head < self.n_heads
        if not (is_row and inside and is_index(query, len(self.tokens))):
            raise ModelError("there is no such row of weights in this text")
        return self.row(layer, head, query).astype("<f4").tobytes()

    @property
    def panel(self) -> Panel:
        from attlas.views.text_page import text_panel

        return text_panel(self.numbers, self.selection, self._answer)

    def __repr__(self) -> str:
        size = f"{self.n_layers} layers x {self.n_heads} heads"
        return f"TextAttention({self.model}: {size}, {len(self.tokens):,} tokens)"

    def _repr_html_(self) -> str:
        """An isolated frame, so that nothing leaks into a notebook."""
        from attlas.views.text_page import text_frame

        return text_frame(self.numbers)

    def overlay(self, layer: int | None = None, head: int | None = None) -> Overlay:
        """The text with its words shaded by attention received, in all layers and heads or one."""
        from attlas.views.text_page import text_overlay

        return text_overlay(self.numbers, layer, head)

    def shaded(self, layer: int | str | None = None, head: int | None = None) -> PaperFigure:
        """A figure for a paper: words shaded by attention received; in one head, "L2H10"."""
        from attlas.views.text_figures import text_figure

        return text_figure(self.numbers, *layer_and_head(layer, head), self.selection)

    def lines(self, layer: int | str, head: int | None = None) -> PaperFigure:
        """A figure for a paper: lines from each token to those that it attends to in one head."""
        from attlas.views.text_figures import lines_figure

        return lines_figure(self.numbers, *layer_and_head(layer, head), self.selection)

    def matrix(self, layer: int | str, head: int | None = None) -> PaperFigure:
        """A figure for a paper: the weights of one head, queries down and keys across."""
        from attlas.views.text_figures import matrix_figure

        chosen = layer_and_head(layer, head)
        return matrix_figure(self.numbers, *chosen, self.selection, self._answer)

    def page(self) -> str:
        """A self-contained page: choose layer and head, click tokens for their attention."""
        from attlas.views.text_page import text_page

        return text_page(self.numbers)

    def pictures(self) -> alt.LayerChart | alt.FacetChart:
        """A small picture of each head's attention over the text, layers down and heads across."""
        from attlas.views.charts import head_tiles

        layer, head = np.indices((self.n_layers, self.n_heads)).reshape(2, -1)
        size = self.grids.shape[-1]
        importance = None if self.importance is None else self.importance.reshape(-1)
        tiles = self.grids.reshape(-1, size, size).numpy()
        heads = pd.DataFrame({"layer": layer, "head": head})
        return head_tiles(heads, tiles, self.uniform_grids.numpy(), importance)

    def write(
        self,
        path: str | Path,
        layer: int | None = None,
        head: int | None = None,
        *,
        force: bool = False,
    ) -> Path:
        """Write the page to a file, or a picture of the shaded text to .svg, .png or .pdf.

        A page that Attlas wrote is replaced; any other file is overwritten only with `force`.
        """
        from attlas.views.text_page import write_text

        return write_text(self.numbers, path, layer, head, force=force)


@dataclass(frozen=True)
class TextLayer:
    """One layer of the attention of a text."""

    of: TextAttention
    number: int

    @property
    def weights(self) -> Tensor:
        """The weights of all heads, [head, query, key]."""
        return self.of[self.number]

    def head(self, head: int) -> Tensor:
        """The weights of one head, [query, key]."""
        return self.of[self.number, head]

    def to_frame(self) -> pd.DataFrame:
        """The weights of all heads as a table."""
        return self.of.to_frame(self.number)


def attention(
    model: Model,
    text: str | Text,
    importance: Floats | None = None,
    *,
    matrix: str | Iterable[str] = (),
    matrix_tokens: int = 1_024,
) -> TextAttention:
    """The attention of one text in all layers.

    All weights are kept if they take at most a gigabyte; otherwise attention received per token,
    the pattern of each head and the top words of each word. `importance` [layer, head] adds a view
    with heads weighted by it. `matrix` names heads, such as "L2H8,L0H2", whose weights between the
    first `matrix_tokens` tokens the page shows as matrices.
    """
    asked = parse_matrices(matrix, (model.n_layers, model.n_heads))
    check_tokens(matrix_tokens)

    def keep(n_tokens: int) -> TextPass:
        n_bytes = weight_bytes(model.n_layers, model.n_heads, n_tokens)
        return TextPass(n_bytes <= MOST_BYTES, asked, matrix_tokens)

    return text_attention(model, text, keep, importance)


def text_attention(
    model: Model,
    text: str | Text,
    keep: Callable[[int], TextPass],
    importance: Floats | None = None,
) -> TextAttention:
    """The attention of one text, of which `keep` keeps what it wants, given its tokens."""
    text = Text("text", text) if isinstance(text, str) else text
    if not isinstance(text, Text):
        raise CorpusError(
            f"the text is a {type(text).__name__}; give one text, as a string or an attlas.Text"
        )
    if (problem := text.problem()) is not None:
        raise CorpusError(f"the text cannot be analysed: {problem}")
    encoded = model.encode([(0, text)])
    _check_importance(importance, model)
    batch = next(iter(model.batches(encoded)))
    seen = keep(len(encoded[0]))
    model.forward(batch, seen.add)
    if seen.total is None:
        raise ModelError(f"{model.name} yielded no attention")
    mean_tops = mean_tops_of(seen.total, model.n_layers)
    return TextAttention(
        batch,
        model.name,
        torch.stack(seen.received),
        torch.stack(seen.uniform),
        mean_tops,
        torch.stack(seen.grids),
        torch.stack(seen.uniform_grids),
        visible_of(seen.visible),
        pd.concat(seen.heads, ignore_index=True),
        torch.stack(seen.layers) if seen.small else None,
        seen.largest(mean_tops),
        importance,
        tuple(seen.matrices[one] for one in seen.asked),
        tuple(one for one in model.seams if one < len(encoded[0])),
        seen.exact,
    )


def _check_importance(importance: Floats | None, model: Model) -> None:
    """Refuse the importance of a model of another shape."""
    shape = model.n_layers, model.n_heads
    if importance is not None and importance.shape != shape:
        raise ModelError(
            f"importance has {importance.shape[0]} layers x {importance.shape[-1]} heads, "
            f"but the model has {shape[0]} x {shape[1]}"
        )


def weight_bytes(layers: int, heads: int, tokens: int) -> int:
    """The size of all weights of a text as float32.

    >>> weight_bytes(6, 12, 512) / 2**20
    72.0
    """
    return 4 * layers * heads * tokens**2
