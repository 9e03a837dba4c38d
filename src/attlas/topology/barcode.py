"""At which weights do the components of an attention graph merge and its cycles appear?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from attlas.core.attention import Attention
from attlas.support.arrays import Array
from attlas.support.errors import MeasureError
from attlas.support.options import option
from attlas.topology.betti import BettiNumbers
from attlas.topology.experiment import check_thresholds
from attlas.topology.graphs import (
    band_parts,
    check_weights,
    in_precision,
    over_graphs,
    precision_of,
    refuse,
    stacked,
)
from attlas.topology.head_features import FeaturesState, HeadFeatures
from attlas.topology.kernels import trees

FLOOR = 1e-3  # weights up to here are not edges, as in the code of Kushnareva et al.
H1_TOKENS = 64  # H1 is computed for texts up to this length: its cost is cubic
H0_FEATURES = (
    "h0_sum",
    "h0_entropy",
    "h0_longest_death",
    "h0_deaths_from_0.75",
    "h0_deaths_from_0.5",
    "h0_deaths_to_0.25",
)
H1_FEATURES = (
    "h1_longest_birth",
    "h1_births_from_0.25",
    "h1_births_to_0.95",
    "h1_births_to_0.7",
    "h1_sum",
    "h1_entropy",
    "h1_std",
    "h1_count",
)


@dataclass(frozen=True, eq=False)
class Barcode:
    """The whole barcode of attention graphs as the threshold falls from 1 to 0.

    Every token is a component from the start. Components merge at the weights `h0` [..., n - 1],
    those of the maximum spanning tree; every other edge closes a cycle, at the weights `h1`
    [..., edge], and cycles never die. Both from high to low.
    """

    h0: Array
    h1: Array
    n: int  # tokens
    precision: str = "float64"  # of the weights as they were given

    def __iter__(self) -> Iterator[Array]:
        return iter((self.h0, self.h1))

    def betti(self, thresholds: Sequence[float]) -> BettiNumbers:
        """Betti numbers at any thresholds: [..., threshold]."""
        with np.errstate(over="ignore"):
            levels = np.asarray(
                in_precision(check_thresholds(thresholds), self.precision), dtype=self.h0.dtype
            )
        levels = np.maximum(levels, np.finfo(levels.dtype).smallest_subnormal)
        joined, closed = (
            np.stack([(bars >= level).sum(-1) for level in levels], axis=-1) for bars in self
        )
        return BettiNumbers(self.n - joined, closed)

    def curve(self) -> pd.DataFrame:
        """The Betti curves of one graph: `threshold beta0 beta1` at every change, highest first."""
        if self.h0.ndim > 1:
            raise MeasureError("curve() is for one graph; take the barcode of one matrix [n, n]")
        weights = np.concatenate([self.h0, self.h1])
        levels = np.unique(weights[weights > 0])[::-1]
        # both lists fall: the number of entries at or above a level is a rank in the reversed list
        joined, closed = (
            len(bars) - np.searchsorted(bars[::-1], levels, side="left") for bars in self
        )
        return pd.DataFrame({"threshold": levels, "beta0": self.n - joined, "beta1": closed})


def barcode(weights: Any, loops: bool = True) -> Barcode:
    """The barcode of attention graphs [..., n, n]: it gives Betti numbers at any threshold.

    An edge's weight is the larger of its two directions. With `loops` a token's attention to itself
    is a cycle too, as in `betti`.

    >>> bars = barcode([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [0.0, 0.1, 0.9]])
    >>> bars.h0, bars.h1
    (array([0.8, 0.1]), array([0.9, 0.5, 0.2, 0. ]))
    """
    h0, h1 = over_graphs(weights, lambda part, first: _bars(part, loops, first))
    return Barcode(h0, h1, np.shape(weights)[-1], precision_of(weights))


def _bars(graphs: Array, loops: bool, first: int) -> tuple[Array, Array]:
    _refuse_wrong(graphs, first)
    parent, joined = trees.dense_tree(graphs)
    return _falling(joined[:, 1:]), _falling(trees.other_edges(graphs, parent, loops))


def _refuse_wrong(graphs: Array, first: int = 0) -> None:
    wrong = ~np.isfinite(graphs).all((-1, -2)) | (graphs < 0).any((-1, -2))
    refuse(int(wrong.argmax()) if wrong.any() else -1, first)


def _falling(values: Array) -> Array:
    return np.sort(values, axis=-1)[:, ::-1].copy()


def rips_features(weights: Any, holes: bool = True) -> Array:
    """14 features of the Rips barcode of each head's attention: [..., n, n] -> [..., 14].

    Distance is 1 - max(W, W^T), where weights up to 0.001 count as 0. H0: sum and entropy of the
    bars' lengths, death of the longest, how many die at 0.75 or later, at 0.5 or later, and by
    0.25. H1 (holes that triangles fill, so not the beta1 of `betti`): birth of the longest bar, how
    many are born at 0.25 or later, by 0.95 and by 0.7, sum, entropy and standard deviation of
    lengths, and their number. Bars that never die and those of length 0 are excluded; without bars
    a feature is 0. Without `holes` the H1 features are NaN. (Kushnareva et al. 2021; their variance
    is a standard deviation.)
    """
    array = check_weights(weights)
    n, lead = array.shape[-1], array.shape[:-2]
    graphs = array.reshape(int(np.prod(lead)), n, n)
    _refuse_wrong(graphs)
    features = _features(trees.dense_tree(graphs)[1], graphs if holes else None)
    return features.reshape(*lead, features.shape[-1])


def _features(joined: Array, graphs: Array | None) -> Array:
    """All features from spanning trees [graph, n] and, for those of H1, matrices [graph, n, n]."""
    missing = np.full((len(joined), len(H1_FEATURES)), np.nan)
    holes = missing if graphs is None else h1_features(graphs)
    return np.concatenate([h0_features(joined[:, 1:]), holes], axis=-1)


def h0_features(joined: Array) -> Array:
    """H0 features from the weights of spanning trees: [graph, edge] -> [graph, 6]."""
    deaths = _distances(joined)
    total, entropy = _lengths(deaths)
    return np.stack(
        [
            total,
            entropy,
            deaths.max(-1, initial=0),
            (deaths >= 0.75).sum(-1),
            (deaths >= 0.5).sum(-1),
            ((deaths > 0) & (deaths <= 0.25)).sum(-1),
        ],
        -1,
    )


def _distances(weights: Array) -> Array:
    """1 - weight, a weight up to the floor counting as 0."""
    kept = np.where(weights > weights.dtype.type(FLOOR), weights, 0)
    return np.clip(1 - kept.astype(np.float64), 0, 1)


def _lengths(lengths: Array) -> tuple[Array, Array]:
    """Sum and entropy of bars' lengths, along the last axis."""
    total = lengths.sum(-1)
    shares = np.divide(
        lengths, total[..., None], out=np.zeros(lengths.shape), where=total[..., None] > 0
    )
    return total, np.sum(shares * -np.log(np.where(shares > 0, shares, 1)), axis=-1) + 0.0  # not -0


def h1_features(graphs: Array) -> Array:
    """H1 features of square matrices [graph, n, n] by gudhi: [graph, 8]."""
    gudhi = _gudhi()
    out = np.zeros((len(graphs), len(H1_FEATURES)))
    for number, weights in enumerate(graphs):
        distance = _distances(np.maximum(weights, weights.T))
        np.fill_diagonal(distance, 0)
        out[number] = _hole_features(_holes(gudhi, distance))
    return out


def _holes(gudhi: Any, distance: Array) -> Array:
    """H1 bars of a Rips complex: [bar, 2]; edges that change no bar are collapsed first."""
    if len(distance) < 4:  # a hole needs four points
        return np.zeros((0, 2))
    tree = gudhi.RipsComplex(distance_matrix=distance, max_edge_length=1.0).create_simplex_tree(
        max_dimension=1
    )
    tree.collapse_edges()
    tree.expansion(2)
    tree.compute_persistence(homology_coeff_field=2)
    bars = np.asarray(tree.persistence_intervals_in_dimension(1)).reshape(-1, 2)
    return bars[np.isfinite(bars).all(-1)]


def _hole_features(bars: Array) -> Array:
    if not len(bars):
        return np.zeros(len(H1_FEATURES))
    births, lengths = bars[:, 0], bars[:, 1] - bars[:, 0]
    total, entropy = _lengths(lengths)
    return np.array(
        [
            births[lengths.argmax()],
            (births >= 0.25).sum(),
            (births <= 0.95).sum(),
            (births <= 0.7).sum(),
            total,
            entropy,
            lengths.std(),
            len(bars),
        ]
    )


def _gudhi() -> Any:
    try:
        import gudhi
    except ImportError as error:
        raise MeasureError(
            "holes of the Rips complex need an extra; install it with: pip install "
            "'attlas[topology]', or omit them (holes=False, h1_tokens=0)"
        ) from error
    return gudhi


@dataclass(frozen=True, kw_only=True)
class BarcodeMeasure(HeadFeatures):
    """The 14 Rips barcode features of every head of every text: `L3.H7.h0_sum`, ...

    See `rips_features`. The eight of H1 need gudhi and are computed for texts of at most
    `h1_tokens` tokens (64; 0 without gudhi, and in `all`). Elsewhere they are NaN; `h1_texts` in
    `barcode_heads` is how many of the `texts` have them.
    """

    name: ClassVar[str] = "barcode"
    clause: ClassVar[str] = (
        "summaries of the persistence barcodes (H0, H1) of each head's attention graph with "
        "distance 1 - weight, compared with uniform attention"
    )
    references: ClassVar[tuple[str, ...]] = ("kushnareva2021",)
    h1_tokens: int | None = option(
        None, "Longest text for which H1 is computed, in tokens.", at_least=0, at_most=256
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.h1_tokens is None:
            object.__setattr__(self, "h1_tokens", H1_TOKENS if find_spec("gudhi") else 0)
        elif self.h1_tokens > 0:
            _gudhi()

    @classmethod
    def default(cls) -> Self:
        return cls(h1_tokens=0)  # H1 costs several times the forward pass

    @property
    def features(self) -> tuple[str, ...]:
        return H0_FEATURES + H1_FEATURES

    def values(self, layer: Attention) -> Array:
        joined = layer.by_form(
            dense=lambda layer: trees.dense_tree(stacked(layer.weights))[1],
            banded=lambda layer: trees.band_tree(*band_parts(layer)),
        )
        holes = layer.n_tokens <= (self.h1_tokens or 0)
        features = _features(joined, stacked(layer.dense().weights) if holes else None)
        return features.reshape(-1, layer.n_heads, len(self.features))

    def result(self, state: FeaturesState) -> dict[str, pd.DataFrame]:
        tables = super().result(state)
        counts = state.heads.mean.count.reshape(-1, len(self.features))
        tables["barcode_heads"] = tables["barcode_heads"].assign(
            texts=counts[:, 0], h1_texts=counts[:, -1]
        )
        return tables
