"""Heads on a page: a grid coloured by any column, which all pictures of heads of a page follow.

What is tinted, and how much, is decided here; the modules of `static/` draw it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.stats.correlations import spearman
from attlas.views.charts import MUTED
from attlas.views.modules import View
from attlas.views.packing import LETTERS, roots
from attlas.views.shades import Tint, control_name, tint, with_marks
from attlas.views.tables import Column

HEADS = View("heads", has_words=False)
FINDER = View("finder", has_words=False)
SCATTER = View("scatter", has_words=False)
TILES = View("tiles", has_words=False)
LARGEST_TILE = 32  # rows and columns of a small heat map
MOST_CELLS = 160_000  # of all small heat maps
ALIKE = 0.95  # a rank correlation of two columns that say the same
STEPS = len(LETTERS) ** 2 - 1  # of a shade in two letters
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class HeadColumn:
    """A number of every head, in the order of layers and heads, as a page has it.

    `name` is that of its table and column, `group` what a menu lists it under. A head that is not
    in the table has no number. `mark` is where on the legend, from 0 to 1, the control lies.
    """

    name: str
    column: Column
    values: Floats
    controls: Floats
    tint: Tint
    mark: float | None
    group: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """The column as JSON."""
        own = self.tint
        return {
            "name": self.name,
            "label": self.column.title,
            "group": self.group,
            "kind": self.column.kind,
            "control": control_name(self.column) if np.isfinite(self.controls).any() else "",
            "values": _short(self.values),
            "controls": _constant(self.controls),
            "shades": packed_shades(own.shades, own.signed),
            "signed": own.signed,
            "ticks": own.ticks,
            "says": own.says.removeprefix(f"{self.column.title}; "),
            "mark": self.mark,
            **({"marks": list(own.marks)} if any(own.marks) else {}),
        }


@dataclass(frozen=True, eq=False)
class HeadGrid:
    """The grid of heads, one column of which is shown at a time."""

    layers: int
    heads: int
    columns: tuple[HeadColumn, ...]
    first: str = ""
    second: str = ""  # to compare the first with
    names: Mapping[str, str] = field(default_factory=dict)  # what heads are known for
    view: View = HEADS

    @property
    def data(self) -> Any:
        return {
            "layers": self.layers,
            "heads": self.heads,
            "first": self.first or self.columns[0].name,
            "second": self.second or self._across,
            "columns": [column.data for column in self.columns],
            "names": dict(self.names),
        }

    @property
    def _across(self) -> str:
        """Entropy, or the last column, if it does not rank the heads as the first column does."""
        first = next((one for one in self.columns if one.name == self.first), self.columns[0])
        entropy = [one for one in self.columns if one.column.name == "entropy"]
        others = (*entropy, *reversed(self.columns))
        able = (one.name for one in others if abs(spearman(one.values, first.values)) < ALIKE)
        return next(able, self.columns[-1].name)

    def html(self, number: int, columns: tuple[str, ...] = ()) -> str:
        """Its element; `columns` are those that it takes from a grid with more."""
        options = {"columns": json.dumps(columns), "first": self.first} if columns else {}
        return self.view.html(number, options=options)

    def pictures(self) -> list[str]:
        return []

    def is_within(self, other: HeadGrid) -> bool:
        """Whether another grid has all its columns, as they are here."""
        known = {one.name: one for one in other.columns}
        return (self.layers, self.heads) == (other.layers, other.heads) and all(
            one.name in known and replace(known[one.name], group=one.group).data == one.data
            for one in self.columns
        )


@dataclass(frozen=True, eq=False)
class HeadTiles:
    """The average attention of every head as a small picture, and that of uniform attention."""

    layers: int
    heads: int
    tiles: Floats  # head of a layer, query, key
    uniform: Floats  # layer query key
    view: View = TILES

    @property
    def data(self) -> Any:
        side = _tile_side(self.tiles.shape[-1], len(self.tiles) + self.layers)
        return {
            "layers": self.layers,
            "heads": self.heads,
            "side": side,
            "tiles": roots(_coarser(self.tiles, side)),
            "uniform": roots(_coarser(self.uniform, side)),
        }

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return []


def _tile_side(side: int, count: int) -> int:
    """How many cells a small heat map has on a side: all, or as many as a page has room for.

    >>> _tile_side(64, 78), _tile_side(64, 1056), _tile_side(9, 78)
    (32, 8, 9)
    """
    while side > LARGEST_TILE or (side % 2 == 0 and count * side**2 > MOST_CELLS):
        if side % 2:
            break
        side //= 2
    return side


def _coarser(tiles: Floats, side: int) -> Floats:
    """Sums over keys and means over queries of blocks of cells: a row per tile."""
    count, size = len(tiles), tiles.shape[-1]
    step = size // side
    blocks = np.nan_to_num(tiles).reshape(count, side, step, side, step)
    return np.asarray(blocks.sum(4).mean(2).reshape(count, side * side))


def head_grid_part(
    frame: pd.DataFrame, columns: Sequence[Column], first: str | None = None, table: str = ""
) -> HeadGrid:
    """The grid of a table with one row per head."""
    layers, heads = int(frame["layer"].max()) + 1, int(frame["head"].max()) + 1
    places = (frame["layer"] * heads + frame["head"]).to_numpy(dtype=np.int64)
    own = tuple(_head_column(frame, column, places, layers * heads, table) for column in columns)
    known = {one.column.name: one.name for one in own}
    return HeadGrid(layers, heads, own, known.get(first or "", own[0].name))


def _head_column(
    frame: pd.DataFrame, column: Column, places: npt.NDArray[np.int64], count: int, table: str
) -> HeadColumn:
    nothing = pd.Series(np.nan, index=frame.index)
    values = frame[column.name].to_numpy(dtype=np.float64)
    controls = frame.get(column.control, nothing).to_numpy(dtype=np.float64)
    own = tint(column, values.tolist(), controls.tolist())
    if (muted := f"{column.name}{MUTED}") in frame:
        own = with_marks(own, values.tolist(), frame[muted].tolist(), column.least)

    marks = np.full(count, "", dtype="U1")
    marks[places] = own.marks or ""

    def placed(numbers: Floats) -> Floats:
        out = np.full(count, np.nan)
        out[places] = numbers
        return out

    return HeadColumn(
        f"{table}.{column.name}" if table else column.name,
        column,
        placed(values),
        placed(controls),
        replace(own, shades=placed(own.shades), marks=tuple(marks.tolist())),
        _mark(own, column, values, controls),
    )


def _mark(own: Tint, column: Column, values: Floats, controls: Floats) -> float | None:
    """Where the control lies on the legend: at the end at which the tint starts, or within it."""
    if own.signed:
        return 0.5
    known = controls[np.isfinite(controls)]
    if not len(known):
        return None
    if column.kind != "plain":
        return 0.0
    low = min(0.0, float(np.nanmin(values)))
    size = float(np.nanmax(values)) - low
    alike = known.max() - known.min() < size / 100
    share = (float(known.mean()) - low) / size if alike else 2.0
    return round(share, 4) if 0 <= share <= 1 else None


def packed_shades(shades: Floats, signed: bool) -> str:
    """A shade in two letters, which its module unpacks; one that is not 0 never becomes 0.

    >>> packed_shades(np.array([0.0, 0.5, 1.0]), signed=False)
    'AAgA__'
    >>> packed_shades(np.array([-1.0, 0.0, 1.0]), signed=True)
    'ABgA__'
    """
    middle = STEPS // 2 + 1 if signed else 0
    size = np.abs(np.nan_to_num(shades))
    steps = np.where(size > 0, np.maximum(1, np.rint(size * (STEPS - middle))), 0)
    codes = (middle + np.sign(np.nan_to_num(shades)) * steps).astype(np.int64)
    side = len(LETTERS)
    return "".join(LETTERS[code // side] + LETTERS[code % side] for code in codes)


def _short(values: Floats) -> list[float | None]:
    """Numbers to four digits, as JSON.

    >>> _short(np.array([0.123456, np.nan, 2.0]))
    [0.1235, None, 2.0]
    """
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def _constant(values: Floats) -> float | list[float | None] | None:
    """Numbers, or the one that they all are, or nothing."""
    short = _short(values)
    return short[0] if len({*short}) == 1 else short
