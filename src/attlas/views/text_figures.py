"""The attention of one text as figures: shaded words, lines between tokens, a matrix of weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attlas.core.alignment import word_sums
from attlas.core.importance import received_by
from attlas.support.errors import AttlasError, ModelError
from attlas.views.lines import FAINT, Lines, lines_svg
from attlas.views.matrices import MOST_TOKENS, HeadCodes, HeadMatrices, weight_codes
from attlas.views.matrix import MOST_CELLS, Matrix, matrix_svg, uniform_weights
from attlas.views.notebook import Answer, Selection
from attlas.views.numbers import decimal, number
from attlas.views.paper import Interactive, PaperFigure
from attlas.views.parts import LinedSentences, Part
from attlas.views.picture import CHARACTER, heading_svg, legend_svg, stacked, tinted_svg
from attlas.views.tables import TextTable
from attlas.views.text_page import TextNumbers, TextPart, text_overlay

MOST_LINES = 100  # tokens with lines between them
MOST_ROWS = 24  # of the table of a figure


def text_figure(
    one: TextNumbers,
    layer: int | None = None,
    head: int | None = None,
    selection: Selection | None = None,
) -> PaperFigure:
    """The text with its words shaded by the attention that they receive."""
    one.check(layer, head)
    shown, where = text_overlay(one, layer, head), _where(one, layer, head)
    about = [_about(one)]

    def draw(width: float) -> str:
        columns = int((width - 16) / CHARACTER)
        return stacked(
            heading_svg(f"Attention received, {where}", about, width),
            tinted_svg(shown, columns=columns),
        )

    caption = (
        f"Attention received by the words of a text, {where} of {_about(one)}, as a multiple of "
        "what uniform attention would give each word. A word at or below it has no tint; "
        f"the darkest tint is {decimal(shown.darkest, 1)} times as much, or more."
    )
    table = _words_table(one, layer, head)
    widget = _interactive(one, layer, head, selection, lambda: (TextPart(one),))
    return PaperFigure(caption, table, draw, interactive=widget)


def lines_figure(
    one: TextNumbers, layer: int | None, head: int | None, selection: Selection | None = None
) -> PaperFigure:
    """Lines from each token to those that it attends to, in one head."""
    matrix = _matrix(one, layer, head)
    if len(one.tokens) > MOST_LINES:
        raise AttlasError(
            f"lines are drawn for at most {MOST_LINES} tokens, not {len(one.tokens):,}; "
            "use matrix(), or a shorter text"
        )
    where = _where(one, layer, head)
    above = np.where(matrix.weights > matrix.uniform, matrix.weights, 0.0)
    lines = Lines("", matrix.tokens, above)
    faint = f", or below {number(FAINT)}" if ((above > 0) & (above < FAINT)).any() else ""

    def draw(width: float) -> str:
        return stacked(
            heading_svg(
                f"Attention weights, {where}", [_about(one), "queries left, keys right"], width
            ),
            lines_svg(lines, "", width),
            legend_svg(f"no line: uniform attention or less{faint}", "1", width),
        )

    caption = (
        f"Attention weights, {where} of {_about(one)}: queries on the left, keys on the right; the "
        f"darker a line, the larger the weight. Weights at or below uniform attention{faint} have "
        "no line."
    )
    widget = _interactive(one, layer, head, selection, lambda: (LinedSentences((lines,)),))
    return PaperFigure(caption, _pairs_table(matrix), draw, interactive=widget)


def matrix_figure(
    one: TextNumbers,
    layer: int | None,
    head: int | None,
    selection: Selection | None = None,
    answer: Answer | None = None,
) -> PaperFigure:
    """The weights of one head, queries down and keys across."""
    matrix, where = _matrix(one, layer, head), _where(one, layer, head)

    def draw(width: float) -> str:
        return stacked(
            heading_svg(
                f"Attention weights, {where}", [_about(one), "rows: queries, columns: keys"], width
            ),
            matrix_svg(matrix, width),
            legend_svg("no tint: uniform attention or less", number(matrix.darkest), width),
        )

    image = " The cells are an image." if len(one.tokens) > MOST_CELLS else ""
    caption = (
        f"Attention weights, {where} of {_about(one)}: each row is a query, each column a key. "
        "Tints start at uniform attention over the keys that a query sees; the darkest is "
        f"{number(matrix.darkest)}.{image}"
    )

    def parts() -> tuple[Part, ...]:
        seen = matrix.uniform > 0
        count = min(len(one.tokens), MOST_TOKENS)
        codes = weight_codes(matrix.weights, seen)[:count, :count]
        own = HeadCodes(_where(one, layer, head), codes, seen.sum(1)[:count])
        return (HeadMatrices(one.id, one.tokens[:count], one.word_of, len(one.tokens), (own,)),)

    widget = _interactive(one, layer, head, selection, parts, answer)
    return PaperFigure(caption, _pairs_table(matrix), draw, interactive=widget)


def _interactive(
    one: TextNumbers,
    layer: int | None,
    head: int | None,
    selection: Selection | None,
    parts: Callable[[], tuple[Part, ...]],
    answer: Answer | None = None,
) -> Interactive:
    """What a notebook draws in place of a picture of one text, in the head that it shows."""
    values = {} if layer is None or head is None else {"head": f"L{layer}H{head}"}
    return Interactive(parts, selection or Selection(), values, answer)


def _matrix(one: TextNumbers, layer: int | None, head: int | None) -> Matrix:
    one.check(layer, head)
    if layer is None or head is None:
        raise AttlasError("give one head, by layer and head: 2, 10 or L2H10")
    if one.weights is None:
        raise ModelError(
            f"the weights of {len(one.tokens):,} tokens were not kept, as they take more than a "
            "gigabyte; use a shorter text"
        )
    weights = one.weights[layer, head].astype(np.float64)
    return Matrix(one.tokens, weights, uniform_weights(one.weights[layer]))


def _where(one: TextNumbers, layer: int | None, head: int | None) -> str:
    """The layer and the head that are shown.

    One head is L2H10; the rest are means.
    """
    weighted = "" if one.importance is None else ", weighted by importance"
    if layer is not None and head is not None:
        return f"L{layer}H{head}"
    if layer is not None:
        return f"mean of the heads of L{layer}{weighted}"
    heads = "heads" if head is None else f"heads H{head}"
    return f"mean of the {heads} of all layers{weighted}"


def _about(one: TextNumbers) -> str:
    return f"{one.model} on a text of {len(one.tokens):,} tokens"


def _words_table(one: TextNumbers, layer: int | None, head: int | None) -> TextTable:
    """The words that receive most attention for their uniform attention."""
    received = received_by(one.by_head, layer, head, one.importance)
    even = one.uniform.mean(0) if layer is None else one.uniform[layer]
    sums, uniform = (word_sums(values, one.word_of, len(one.words)) for values in (received, even))
    ratio = np.divide(sums, uniform, out=np.zeros_like(sums), where=uniform > 0)
    order = np.argsort(-ratio, kind="stable")[:MOST_ROWS]
    rows = tuple(
        (one.words[word], number(sums[word]), number(uniform[word]), decimal(ratio[word], 1))
        for word in order
    )
    return TextTable(("word", "received", "uniform", "ratio"), rows)


def _pairs_table(matrix: Matrix) -> TextTable:
    """The largest weights above uniform attention."""
    above = np.where(matrix.weights > matrix.uniform, matrix.weights, 0.0)
    order = np.argsort(-above, axis=None, kind="stable")[:MOST_ROWS]
    pairs = zip(*np.unravel_index(order, above.shape), strict=True)
    rows = tuple(
        (
            matrix.tokens[query],
            matrix.tokens[key],
            number(above[query, key]),
            number(matrix.uniform[query, key]),
        )
        for query, key in pairs
        if above[query, key] > 0
    )
    return TextTable(("query", "key", "weight", "uniform"), rows, (True, True, False, False))
