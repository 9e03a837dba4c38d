"""Changes of heads on a page: A, B and B minus A next to each other, and the largest in a list.

Both follow the head and the number that are chosen on the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from attlas.views.head_views import SCATTER, HeadColumn, HeadGrid, head_grid_part
from attlas.views.modules import View
from attlas.views.tables import Column, Kind

CHANGES = View("changes")
RANKING = View("ranking")
NUMBERS = {  # of a change, as its module calls them
    "a": "value_a",
    "b": "value_b",
    "uniform": "uniform_a",
    "difference": "difference",
    "low": "corrected_low",
    "high": "corrected_high",
    "control": "uniform_difference",
    "halves": "halves",
    "seed": "seed_difference",
}


def ranking_rows(changes: pd.DataFrame) -> pd.DataFrame:
    """The heads of one number by change: first those that count, then by size."""
    order = changes.assign(size=changes["beyond"].abs())
    return order.sort_values(["counts", "size"], ascending=False, kind="stable").drop(
        columns="size"
    )


@dataclass(frozen=True, eq=False)
class Changes:
    """Numbers of all heads: `frame` B minus A by column, `both` their values in A and in B.

    `kinds` are those of the values. `first` is the column that is shown at first.
    """

    frame: pd.DataFrame
    both: pd.DataFrame
    columns: tuple[Column, ...]
    kinds: Mapping[str, Kind]
    first: str

    @property
    def plain(self) -> list[Column]:
        """The columns of the values, first all of B."""
        return [self._plain(one, letter) for letter in "ba" for one in self.columns]

    def _plain(self, one: Column, letter: str) -> Column:
        name = f"{one.name} {letter}"
        label = f"{one.label}, {letter.upper()}"
        control = f"{name}_uniform"
        return Column(name, label, one.unit, kind=self.kinds[one.name], control=control)

    @property
    def scatter(self) -> HeadGrid:
        """All heads by their values in A and in B."""
        grid = head_grid_part(self.both, self.plain, f"{self.first} b")
        return replace(grid, second=f"{self.first} a", view=SCATTER)

    @cached_property
    def grids(self) -> tuple[HeadGrid, HeadGrid, HeadGrid]:
        """A, B and B minus A; A and B have one scale, and columns go by the same names."""
        difference = head_grid_part(self.frame, self.columns, self.first)
        layers = difference.layers
        above = {f"{one.name} b": f"{one.name} a" for one in self.columns}
        above |= {f"{name}_uniform": f"{other}_uniform" for name, other in above.items()}
        own = self.both[["layer", "head", *above.values()]]
        other = self.both[["layer", "head", *above]].rename(columns=above)
        # B below A in one grid, so that one scale of colour serves both; then it is divided again
        stacked = pd.concat([own, other.assign(layer=other["layer"] + layers)], ignore_index=True)
        columns = [replace(self._plain(one, "a"), label=one.label) for one in self.columns]
        together = head_grid_part(stacked, columns)
        middle = layers * difference.heads
        first, second = (
            replace(
                difference,
                columns=tuple(
                    _part(column, named.name, part)
                    for column, named in zip(together.columns, difference.columns, strict=True)
                ),
            )
            for part in (slice(0, middle), slice(middle, None))
        )
        return first, second, difference


def _part(column: HeadColumn, name: str, part: slice) -> HeadColumn:
    """Some of the heads of a column, under another name."""
    own = column.tint
    shades = replace(own, shades=own.shades[part], marks=own.marks[part])
    return replace(
        column,
        name=name,
        values=column.values[part],
        controls=column.controls[part],
        tint=shades,
    )


@dataclass(frozen=True, eq=False)
class HeadChanges:
    """Three grids next to each other, with an answer in words for each number.

    `names` are what A and B are called, where that says more than their letters.
    """

    shown: Changes
    changes: pd.DataFrame
    answers: Mapping[str, str]
    names: tuple[str, str] = ("", "")
    view: View = CHANGES

    @property
    def data(self) -> Any:
        a, b, difference = (one.data for one in self.shown.grids)
        return {
            "a": a,
            "b": b,
            "difference": difference,
            "answers": dict(self.answers),
            "names": list(self.names),
            "changes": change_columns(self.changes, self.shown.grids[0]),
        }

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return []


@dataclass(frozen=True, eq=False)
class HeadRanking:
    """The heads of a number by change, with intervals and controls: the data is that of `of`."""

    of: HeadChanges
    view: View = RANKING

    @property
    def data(self) -> Any:
        return self.of.data

    def html(self, number: int) -> str:
        return self.view.html(number, options={"of": self.of.view.module})

    def pictures(self) -> list[str]:
        return []


def change_columns(changes: pd.DataFrame, grid: HeadGrid) -> dict[str, dict[str, Any]]:
    """The numbers of each head by column, in the order of layers and heads, as JSON.

    `counts` are the heads whose change is significant and large enough, in their order by size.
    """
    out = {}
    for key, rows in changes.groupby("key", sort=False):
        indices = (rows["layer"] * grid.heads + rows["head"]).to_numpy(dtype=np.int64)
        numbers: dict[str, Any] = {}
        for name, column in NUMBERS.items():
            values = rows[column].to_numpy(dtype=np.float64)
            every = np.full(grid.layers * grid.heads, np.nan)
            every[indices] = values
            if np.isfinite(values).any():
                numbers[name] = [float(f"{one:.4g}") if np.isfinite(one) else None for one in every]
        ranked = ranking_rows(rows)
        order = (ranked["layer"] * grid.heads + ranked["head"]).tolist()
        out[str(key)] = {**numbers, "order": order, "counts": int(ranked["counts"].sum())}
    return out
