"""How close is each head's attention to a simple pattern?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attlas.core.attention import Attention
from attlas.support.arrays import Array
from attlas.topology.graphs import band_parts, stacked
from attlas.topology.head_features import HeadFeatures
from attlas.topology.kernels import sums

TEMPLATES = ("self", "first", "previous", "next", "comma", "full_stop", "separator")


def template_distances(layer: Attention) -> Array:
    """The distance of each head's weights A from each template T: [text, head, template].

    It is |A - T| / sqrt(|A|^2 + |T|^2) in Frobenius norms: 0 is equal, 1 nothing in common. T is
    one on the diagonal (`self`), in the first column (`first`), or next to the diagonal
    (`previous`, `next`); for commas, full stops and separators every row is uniform over the tokens
    of that kind (a text that has none is at distance 1). Only real tokens count (Kushnareva et al.
    2021 included padding).
    """
    n, heads, batch = layer.n_tokens, layer.n_heads, layer.batch
    squares, near, received = layer.by_form(  # |A|^2, sums of three diagonals, of columns
        dense=lambda layer: sums.dense_sums(stacked(layer.weights)),
        banded=lambda layer: sums.band_sums(*band_parts(layer)),
    )
    texts = len(squares) // heads
    squares, near = squares.reshape(texts, heads), near.reshape(texts, heads, 3)
    received = received.reshape(texts, heads, n)
    kinds = batch.mask(frozenset(",")), batch.mask(frozenset(".")), batch.sep
    marks = np.stack([kind.cpu().numpy() for kind in kinds], -1).astype(np.float64)
    counts = marks.sum(1)  # text kind, of marks [text, token, kind]
    share = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)
    fixed = np.stack([near[..., 1], received[..., 0], near[..., 0], near[..., 2]], -1)
    common = np.empty((len(marks), heads, len(TEMPLATES)))  # the inner product of A and T
    common[..., :4], common[..., 4:] = fixed, np.matmul(received, marks) * share[:, None]
    template_squares = np.concatenate(
        [np.broadcast_to([n, n, n - 1.0, n - 1.0], (len(marks), 4)), n * share], axis=-1
    )[:, None]
    both_squares = squares[..., None] + template_squares  # |A|^2 + |T|^2
    return np.sqrt(np.maximum(both_squares - 2 * common, 0) / both_squares)


@dataclass(frozen=True, kw_only=True)
class Templates(HeadFeatures):
    """The `template_distances` of every head of every text: `L3.H7.previous`, ..."""

    name: ClassVar[str] = "templates"
    clause: ClassVar[str] = (
        "the normalised Frobenius distance of each head's attention matrix to simple patterns, "
        "compared with the distance of uniform attention"
    )
    references: ClassVar[tuple[str, ...]] = ("kushnareva2021",)

    @property
    def features(self) -> tuple[str, ...]:
        return TEMPLATES

    def values(self, layer: Attention) -> Array:
        return template_distances(layer)
