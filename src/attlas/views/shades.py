"""How dark is a value? One rule for grids, strips, matrices and texts: by the kind of its column.

A value on the wrong side of its own control, or at it, has the colour of the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import floor, log10
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.views.tables import Column, Kind

Floats = npt.NDArray[np.floating[Any]]
# how columns of controls end
CONTROLS = {
    "_uniform": "uniform attention",
    "_random": "random weights",
    "_all": "all weights",
    "_matched": "words of similar frequency",
    "_stronger": "the stronger control",
    "_median": "the median head",
}
NONE = "no control"
DOT, RING = "·", "○"  # in cells of differences: not significant; significant but small


def excess(kind: Kind, values: Floats, controls: Floats) -> Floats:
    """How far values are on the side of their own controls that is of interest; 0 on the other.

    A signed value keeps its sign and a plain one counts from zero, or from the smallest below it. A
    control that is missing is not one, so that the value is plain.

    >>> values, controls = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    >>> excess("above", values, controls).tolist(), excess("below", values, controls).tolist()
    ([0.0, 0.25], [0.25, 0.0])
    >>> excess("signed", -values, controls).tolist()
    [-0.25, -0.75]
    """
    if kind == "signed":
        return values
    known = values[np.isfinite(values)]
    plain = values - min(0.0, float(known.min(initial=0.0)))
    if kind == "plain":
        return plain
    sizes = np.maximum(values - controls if kind == "above" else controls - values, 0)
    return np.where(np.isnan(controls), plain, sizes)


@dataclass(frozen=True)
class Tint:
    """Shades from 0 (no tint), or from -1 if they have a sign, to 1; and what they mean.

    `ticks` are what the legend says at both ends and in the middle, `says` what the tint starts at.
    `marks` stand in cells in place of their numbers, where they are not empty.
    """

    shades: Floats
    ticks: tuple[str, str, str]
    says: str
    signed: bool = False
    marks: tuple[str, ...] = field(default=(), repr=False)

    @property
    def places(self) -> list[float]:
        """The shades at which the legend has its ticks."""
        return [-1, 0, 1] if self.signed else [0, 0.5, 1]


def short(value: float, largest: float | None = None) -> str:
    """A number of a legend, with as many places as two digits of its largest number need.

    >>> short(0.3), short(-0.000123), short(41.84), short(0.0388, 0.96), short(0.0012, 3.14)
    ('.30', '−.00012', '42', '.04', '0')
    """
    size = abs(value if largest is None else largest)
    places = max(0, 1 - floor(log10(size))) if size else 0
    written = f"{abs(value):.{places}f}"
    if not float(written):
        return "0"
    sign = "\u2212" if value < 0 else ""
    return sign + (written.removeprefix("0") if written.startswith("0.") else written)


def tint(column: Column, values: Sequence[float], controls: Sequence[float]) -> Tint:
    """The shades of a column's values, each against its own control.

    Differences below the column's `least` have no tint.

    >>> tint(Column("cls", "[CLS]", kind="above", control="cls_uniform"), [0.1, 0.5], [0.3, 0.3])
    ... # doctest: +NORMALIZE_WHITESPACE
    Tint(shades=array([0., 1.]), ticks=('.30', '.40', '.50'),
         says='[CLS]; tint above uniform attention (.30)', signed=False)
    """
    own, control = (np.asarray(part, dtype=np.float64) for part in (values, controls))
    kind = column.kind if column.kind in ("signed", "plain") or _any(control) else "plain"
    sizes = excess(kind, own, control)
    least = 0.0 if kind == "plain" else column.least
    sizes = np.where(np.abs(sizes) < least, 0.0, sizes)
    top = max(float(np.nanmax(np.abs(sizes), initial=0.0)), least) or 1.0
    says = f"{column.title}; {_start(column, kind, control)}"
    ticks = _ticks(kind, own, control, top)
    return Tint((sizes / top).round(4), ticks, says, kind == "signed")


def with_marks(own: Tint, values: Sequence[float], muted: Sequence[bool], least: float) -> Tint:
    """A tint of differences, of which the muted ones are not significant: these have a dot.

    What is significant but below the smallest effect of interest has a ring.

    >>> own = Tint(np.array([0.5, 0.0, 1.0]), ("-1", "0", "1"), "change", signed=True)
    >>> marked = with_marks(own, [0.05, 0.01, 0.1], [True, False, False], 0.02)
    >>> marked.shades.tolist(), marked.marks
    ([0.0, 0.0, 1.0], ('·', '○', ''))
    """
    off = np.asarray(muted, dtype=bool)
    small = np.abs(np.asarray(values, dtype=np.float64)) < least
    marks = np.where(off, DOT, np.where(small, RING, ""))
    rings = f", ring: below {_written(least)}" if least else ""
    says = f"{own.says}; dot: not significant{rings}"
    shades = np.where(off, 0.0, own.shades)
    return replace(own, shades=shades, says=says, marks=tuple(marks.tolist()))


def control_name(column: Column) -> str:
    """What the control of a column is called; nothing if it has none.

    >>> control_name(Column("cls", "[CLS]", control="cls_uniform"))
    'uniform attention'
    """
    ends = (name for end, name in CONTROLS.items() if column.control.endswith(end))
    return column.control_name or next(ends, column.control.replace("_", " "))


def _start(column: Column, kind: Kind, control: Floats) -> str:
    """Where the tint starts, in words and in the numbers of the control."""
    small = f"; none below a difference of {_written(column.least)}" if column.least else ""
    if kind == "signed":
        return f"tint on both sides of zero{small}"
    if not _any(control):
        return f"plain scale: {NONE}"
    against = f"{control_name(column)} ({_between(control)})"
    if kind == "plain":
        return f"plain scale; {against}"
    low = "; low is interesting" if kind == "below" else ""
    return f"tint {kind} {against}{low}{small}"


def _written(least: float) -> str:
    """The smallest effect of interest, as it is declared."""
    return f"{least:g}".removeprefix("0")


def _ticks(kind: Kind, values: Floats, control: Floats, top: float) -> tuple[str, str, str]:
    """What the legend says; where controls differ, how far a value is from its own."""
    if kind == "signed":
        return short(-top), "0", short(top)
    if kind == "plain":
        known = values[np.isfinite(values)]
        low = min(0.0, float(known.min(initial=0.0)))
        return _scaled(low, low + top / 2, low + top)
    way = 1 if kind == "above" else -1
    low, high = float(np.nanmin(control)), float(np.nanmax(control))
    if high - low < top / 100:
        middle = (low + high) / 2
        return _scaled(middle, middle + way * top / 2, middle + way * top)
    sign = "+" if way > 0 else "\u2212"
    return "control", f"{sign}{short(top / 2, top)}", f"{sign}{short(top)}"


def _scaled(*ticks: float) -> tuple[str, str, str]:
    """Three numbers with as many places as the largest needs."""
    low, middle, high = (short(one, max(map(abs, ticks))) for one in ticks)
    return low, middle, high


def _between(values: Floats) -> str:
    """The range of numbers, as one where they are alike."""
    ends = float(np.nanmin(values)), float(np.nanmax(values))
    low, high = (short(one, max(map(abs, ends))) for one in ends)
    return low if low == high else f"{low} to {high}"


def _any(values: Floats) -> bool:
    return bool(np.isfinite(values).any())
