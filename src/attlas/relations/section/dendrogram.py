"""The dendrogram of relations: which ones have similar classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attlas.relations.section.graph import cells
from attlas.views import charts
from attlas.views.vega import alt

LEAF = 15  # pixels of a relation in the tree


@dataclass(frozen=True)
class Join:
    """Where a tree joins two nodes.

    The heights of both (leaves are 0, 1, ... from the top), how far out they and the join are, and
    how many relations it has.
    """

    node: int
    heights: tuple[float, float]
    children: tuple[float, float]
    distance: float
    size: int
    among: str  # the relations of each side, some of them


def tree(frame: pd.DataFrame) -> tuple[list[str], list[Join]]:
    """One dendrogram of `relations_tree`, laid out: leaves from top to bottom, and its joins.

    Leaves are in scipy's order: the left of each join first.
    """
    count = len(frame) + 1
    sides = {int(row.node): (int(row.left), int(row.right)) for row in frame.itertuples()}
    name = {
        int(node): str(label)
        for nodes, names in (("left", "left_name"), ("right", "right_name"))
        for node, label in zip(frame[nodes], frame[names], strict=True)
        if node < count
    }
    order: list[int] = []
    ahead = [int(frame["node"].iloc[-1])]
    while ahead:
        node = ahead.pop()
        if node < count:
            order.append(node)
        else:
            ahead += reversed(sides[node])
    height = {node: float(index) for index, node in enumerate(order)}
    distance, under = dict.fromkeys(order, 0.0), {node: [name[node]] for node in order}
    joins = []
    for row in frame.itertuples():
        node, (left, right) = int(row.node), sides[int(row.node)]
        height[node], distance[node] = (height[left] + height[right]) / 2, float(row.distance)
        under[node] = under[left] + under[right]
        joins.append(
            Join(
                node,
                (height[left], height[right]),
                (distance[left], distance[right]),
                distance[node],
                int(row.size),
                f"{_some(under[left])} | {_some(under[right])}",
            )
        )
    return [name[node] for node in order], joins


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def dendrogram(frame: pd.DataFrame) -> alt.HConcatChart:
    """The tree of relations from left to right; a reader may choose the linkage."""
    options = [str(name) for name in dict.fromkeys(frame["linkage"])]
    trees = {linkage: tree(frame[frame["linkage"] == linkage]) for linkage in options}
    leaves = [
        {"linkage": linkage, "place": index, "name": name}
        for linkage, (names, _) in trees.items()
        for index, name in enumerate(names)
    ]
    pieces = [
        {"linkage": linkage, **piece}
        for linkage, (_, joins) in trees.items()
        for piece in _pieces(joins)
    ]
    count = max(len(names) for names, _ in trees.values())
    scale = alt.Scale(domain=[-0.5, count - 0.5], reverse=True, nice=False, zero=False)
    wide = 12 + 6.1 * max(cells(name) for names, _ in trees.values() for name in names)
    names_chart = (
        alt.Chart(pd.DataFrame(leaves))
        .transform_filter("datum.linkage == linkage")
        .mark_text(align="right", baseline="middle", fontSize=11)
        .encode(
            y=alt.Y("place:Q", scale=scale, axis=None),
            x=alt.value(wide - 4),
            text="name:N",
            tooltip=alt.value(None),
        )
        .properties(width=wide, height=LEAF * count)
    )
    title, across = "distance at which they join", alt.Scale(zero=False, nice=False)
    joined = (
        alt.Chart(pd.DataFrame(pieces).round(5))
        .transform_filter("datum.linkage == linkage")
        .mark_rule(strokeWidth=1.5, color=charts.ACCENT)
        .encode(
            x=alt.X("x:Q", title=title, scale=across),
            x2="x2:Q",
            y=alt.Y("y:Q", scale=scale, axis=None),
            y2="y2:Q",
            tooltip=[
                alt.Tooltip("distance:Q", title="distance", format=".3f"),
                alt.Tooltip("size:Q", title="relations"),
                alt.Tooltip("among:N", title="joined"),
            ],
        )
        .properties(width=max(300, 620 - int(wide) // 2), height=LEAF * count)
    )
    menu = alt.binding_select(options=options, name="distance ")
    chosen = alt.param(name="linkage", value=options[0], bind=menu)
    return alt.hconcat(names_chart, joined, spacing=2).add_params(chosen)


def _pieces(joins: Sequence[Join]) -> list[dict[str, Any]]:
    """The lines of a tree: for each join one down, and one to each of the two that it joins."""
    begin, out = _begin([one.distance for one in joins]), []
    for one in joins:
        about = {"distance": round(one.distance, 4), "size": one.size, "among": one.among}
        end, (top, foot) = one.distance, one.heights
        out.append({**about, "x": end, "x2": end, "y": top, "y2": foot})
        for child, height in zip(one.children, one.heights, strict=True):
            out.append({**about, "x": max(child, begin), "x2": end, "y": height, "y2": height})
    return out


def _begin(distances: Sequence[float]) -> float:
    """Where the axis begins: at 0, or before the first join if that is in its second half.

    >>> _begin([0.2, 1.0]), round(_begin([0.8, 1.0]), 6)
    (0.0, 0.76)
    """
    low, high = min(distances), max(distances)
    return 0.0 if low < high / 2 else low - 0.2 * (high - low)
