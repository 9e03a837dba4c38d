"""Small pictures of every head, as data: what each head has over several x, next to a control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.views.shades import excess
from attlas.views.tables import Column, Kind

Floats = npt.NDArray[np.float64]
# bars across, bars with a label each, a line, a heat map, one bar for each head in their order
Picture = Literal["bars", "rows", "line", "tile", "ranks"]


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadProfile:
    """One small picture for each head of a model, NaN where a number is unknown.

    `values` are [layer, head, x], of a tile [layer, head, query, key], of ranks [layer, head].
    `control` has the shape of the values or can be broadcast to it, with NaN where there is none.
    `labels` name what is along x, `x` says what that is. The scale is a head's `own`, or one for
    `all` heads.
    """

    title: str
    picture: Picture
    values: Floats
    control: Floats
    control_name: str
    labels: tuple[str, ...] = ()
    x: str = ""
    unit: str = ""
    kind: Kind = "plain"
    scale: Literal["own", "all"] = "all"
    section: str = ""

    @property
    def is_known(self) -> bool:
        """Whether any number is known."""
        return bool(np.isfinite(self.values).any())

    @property
    def controls(self) -> Floats:
        """The control of every value."""
        return np.broadcast_to(self.control, self.values.shape)

    @property
    def shades(self) -> Floats:
        """Of a tile: from 0, at or on the wrong side of the control, to 1 for a head's largest.

        A root brings out what is faint.
        """
        sizes = np.nan_to_num(excess(self.kind, self.values, self.controls))
        top = sizes.max(axis=(2, 3), keepdims=True, initial=0.0)
        shares: Floats = np.sqrt(sizes / np.where(top > 0, top, 1.0))
        return shares

    def knows(self, layer: int, head: int) -> bool:
        """Whether a number of this head is known."""
        return bool(np.isfinite(self.values[layer, head]).any())

    def of_one(self, head: tuple[int, int]) -> HeadProfile:
        """The same of one head alone, as a model of one layer and one head."""
        parts = (one[head][None, None] for one in (self.values, self.controls))
        return replace(self, **dict(zip(("values", "control"), parts, strict=True)))


def head_values(frame: pd.DataFrame, names: Sequence[str], n_layers: int, n_heads: int) -> Floats:
    """Columns of a table with one row per head as [layer, head, column]; NaN where it has none.

    >>> frame = pd.DataFrame({"layer": [1], "head": [0], "share": [0.5]})
    >>> head_values(frame, ["share"], 2, 1).tolist()
    [[[nan]], [[0.5]]]
    """
    out = np.full((n_layers, n_heads, len(names)), np.nan)
    rows = frame[frame["layer"].between(0, n_layers - 1) & frame["head"].between(0, n_heads - 1)]
    numbers = rows.reindex(columns=list(names)).to_numpy(dtype=np.float64)
    out[rows["layer"].to_numpy(dtype=int), rows["head"].to_numpy(dtype=int)] = numbers
    return out


def column_profile(
    frame: pd.DataFrame, columns: Sequence[Column], shape: tuple[int, int], **about: Any
) -> list[HeadProfile]:
    """A picture of the columns of a table of heads, each next to its control; none if unknown."""
    known = [one for one in columns if one.name in frame and frame[one.name].notna().any()]
    if not known:
        return []
    values = head_values(frame, [one.name for one in known], *shape)
    control = head_values(frame, [one.control for one in known], *shape)
    options = {"kind": known[0].kind, "unit": known[0].unit, **about}
    labels = tuple(one.label for one in known)
    return [HeadProfile(values=values, control=control, labels=labels, **options)]


def pooled(tiles: Floats, size: int) -> Floats:
    """Square tiles with at most so many cells to a side: sums over keys, means over queries.

    >>> pooled(np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 2).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    cells = tiles.shape[-1]
    if cells <= size:
        return tiles
    edges = np.linspace(0, cells, size + 1).round().astype(int)
    queries = np.add.reduceat(tiles, edges[:-1], axis=-2) / np.diff(edges)[:, None]
    out: Floats = np.add.reduceat(queries, edges[:-1], axis=-1)
    return out
