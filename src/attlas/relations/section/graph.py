"""The graph that the triples of a text make: phrases as nodes, relations between them."""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attlas.relations.section.texts import TripleText
from attlas.views.picture import shortened, xml_text

BOX, NODE, EDGE = 24, 34, 26  # height of a phrase; rows of phrases and of relations
GAP, LETTER = 42, 7.0  # between columns; a letter
LONGEST = 38  # letters of a phrase or a relation


@dataclass(frozen=True)
class Box:
    """Something with letters in a graph: where its middle is, and how wide it is."""

    label: str
    x: float
    y: float
    width: float


@dataclass(frozen=True)
class Graph:
    """Phrases as nodes, triples as edges: the box of a relation, the phrases it is from and to."""

    nodes: dict[str, Box]
    edges: tuple[tuple[Box, str, str, str], ...]  # relation, head, tail, status
    width: float
    height: float


def graph(one: TripleText) -> Graph:
    """The triples of a text in columns, so that no two labels meet.

    Phrases that nothing points to are on the left, what they point to further right, relations in
    columns of their own.
    """
    pairs = [
        (one.phrase(triple.spans["h"]), one.phrase(triple.spans["t"])) for triple in one.triples
    ]
    names = _in_reading_order(one, pairs)
    depth = _depths(names, pairs)
    ends = [(head, tail) if depth[head] <= depth[tail] else (tail, head) for head, tail in pairs]
    at, label_at = _heights(names, ends, depth)
    relations = [triple.relation for triple in one.triples]
    xs, label_xs = _columns(names, relations, ends, depth)
    nodes = {name: Box(name, xs[depth[name]], at[name], _width(_cut(name)) + 18) for name in names}
    boxes = [
        Box(relation, label_xs[depth[left]], label_at[index], _width(_cut(relation)) + 8)
        for index, (relation, (left, _)) in enumerate(zip(relations, ends, strict=True))
    ]
    edges = tuple(
        (box, *pair, triple.status)
        for box, pair, triple in zip(boxes, pairs, one.triples, strict=True)
    )
    low = max([*(box.y for box in nodes.values()), *label_at], default=0.0)
    right = max((box.x + box.width / 2 for box in (*nodes.values(), *boxes)), default=0.0)
    return Graph(nodes, edges, right + 8, low + NODE / 2 + 4)


def _in_reading_order(one: TripleText, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The phrases of all triples, by where each is first."""
    first: dict[str, tuple[int, int]] = {}
    for triple, pair in zip(one.triples, pairs, strict=True):
        for role, name in zip("ht", pair, strict=True):
            first[name] = min(first.get(name, triple.spans[role]), triple.spans[role])
    return sorted({name for pair in pairs for name in pair}, key=first.__getitem__)


def _heights(
    names: Sequence[str], ends: Sequence[tuple[str, str]], depth: dict[str, int]
) -> tuple[dict[str, float], list[float]]:
    """How far down each phrase and each relation is; `ends` are left and right."""
    at: dict[str, float] = {}
    row, label_at = 0.0, [0.0] * len(ends)
    for name in (name for name in names if depth[name] == 0):
        room = max(NODE, EDGE * sum(left == name for left, _ in ends))
        at[name], row = row + room / 2, row + room
    for column in range(max(depth.values(), default=0) + 1):
        mine = [name for name in names if depth[name] == column]
        if column:
            wish = {name: _mean(_arriving(name, column, ends, depth, label_at)) for name in mine}
            mine.sort(key=wish.__getitem__)
            at |= dict(zip(mine, _stacked([wish[name] for name in mine], NODE), strict=True))
        labels = [index for index, (left, _) in enumerate(ends) if depth[left] == column]
        labels.sort(key=lambda index: (at[ends[index][0]], index))
        wishes = []
        for index in labels:
            same = [other for other in labels if ends[other][0] == ends[index][0]]
            wishes.append(at[ends[index][0]] + EDGE * (same.index(index) - (len(same) - 1) / 2))
        for index, y in zip(labels, _stacked(wishes, EDGE), strict=True):
            label_at[index] = y
    return at, label_at


def _arriving(
    name: str,
    column: int,
    ends: Sequence[tuple[str, str]],
    depth: dict[str, int],
    label_at: Sequence[float],
) -> list[float]:
    """How far down the relations are that come to a phrase from the left."""
    return [
        label_at[index]
        for index, (left, right) in enumerate(ends)
        if right == name and depth[left] < column
    ]


def _columns(
    names: Sequence[str],
    relations: Sequence[str],
    ends: Sequence[tuple[str, str]],
    depth: dict[str, int],
) -> tuple[list[float], list[float]]:
    """The middle of each column of phrases, and of relations after it."""
    x, xs, label_xs = 8.0, [], []
    for column in range(max(depth.values(), default=-1) + 1):
        wide = max(_width(_cut(name)) for name in names if depth[name] == column) + 18
        xs.append(x + wide / 2)
        x += wide + GAP
        labels = [
            _width(_cut(relation))
            for relation, (left, _) in zip(relations, ends, strict=True)
            if depth[left] == column
        ]
        among = max(labels, default=0.0) + 8
        label_xs.append(x + among / 2)
        x += among + GAP if labels else -GAP
    return xs, label_xs


def _depths(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many steps each phrase is from one that nothing points to, or else from the first.

    >>> _depths(["a", "b", "c", "x", "y"], [("a", "b"), ("b", "c"), ("c", "a"), ("x", "y")])
    {'x': 0, 'y': 1, 'a': 0, 'b': 1, 'c': 2}
    """
    pointed = {tail for head, tail in pairs if head != tail}
    depth: dict[str, int] = {}
    for starts in ([name for name in names if name not in pointed], *([name] for name in names)):
        ahead = deque(name for name in starts if name not in depth)
        depth |= dict.fromkeys(ahead, 0)
        while ahead:
            name = ahead.popleft()
            for tail in [tail for head, tail in pairs if head == name and tail not in depth]:
                if tail not in depth:
                    depth[tail] = depth[name] + 1
                    ahead.append(tail)
    return depth


def _stacked(wishes: Sequence[float], step: float) -> Iterator[float]:
    """Places as near to the wishes, which go down, as a step between them allows."""
    last = -float("inf")
    for wish in wishes:
        last = max(wish, last + step, step / 2)
        yield last


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def cells(string: str) -> int:
    """How many columns a string takes.

    >>> cells("cat"), cells("世界"), cells("e\u0301")
    (3, 4, 1)
    """
    return sum(map(letter_cells, string))


def letter_cells(letter: str) -> int:
    """How many columns a letter takes: wide ones two, marks on others none."""
    if unicodedata.combining(letter) or letter in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _width(string: str) -> float:
    return LETTER * cells(string)


def _cut(string: str) -> str:
    return shortened(string, LONGEST)


def graph_svg(one: TripleText) -> str:
    """The graph as a picture for a page."""
    drawn = graph(one)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="triples" width="{drawn.width:.0f}" '
        f'height="{drawn.height:.0f}" viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}" '
        f'font-size="12.5">{graph_parts(drawn)}</svg>'
    )


def graph_parts(drawn: Graph) -> str:
    """The elements of the picture: ways with their relations, then phrases."""
    parts = []
    for box, head, tail, status in drawn.edges:
        source, target = drawn.nodes[head], drawn.nodes[tail]
        left, right = box.x - box.width / 2, box.x + box.width / 2
        ways = []
        for node, lift in ((source, -3), (target, 3)):
            if node.x < box.x:  # both phrases in one column: both ways end at the label's left
                level = lift if source.x == target.x else 0
                ways.append((left, box.y + level, node.x + node.width / 2, node.y + level, -1))
            else:
                ways.append((right, box.y, node.x - node.width / 2, node.y, 1))
        curves = "".join(
            (
                f'<path d="M{x1:.1f} {y1:.1f}C{x1 + side * GAP / 2:.1f} {y1:.1f} '
                f'{x2 - side * GAP / 2:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"/>'
            )
            for x1, y1, x2, y2, side in ways
        )
        _, _, x, y, side = ways[1]
        tip = (
            f'<polygon points="{x:.1f},{y:.1f} {x - side * 8:.1f},{y - 4:.1f} '
            f'{x - side * 8:.1f},{y + 4:.1f}"/>'
        )
        parts.append(
            f'<g class="edge {status}">{curves}{tip}<text x="{box.x:.1f}" '
            f'y="{box.y + 4:.1f}" text-anchor="middle">{xml_text(_cut(box.label))}'
            f"<title>{xml_text(box.label)}</title></text></g>"
        )
    for box in drawn.nodes.values():
        parts.append(
            f'<g class="node"><rect x="{box.x - box.width / 2:.1f}" '
            f'y="{box.y - BOX / 2:.1f}" width="{box.width:.1f}" height="{BOX}" rx="5"/>'
            f'<text x="{box.x:.1f}" y="{box.y + 4:.1f}" '
            f'text-anchor="middle">{xml_text(_cut(box.label))}<title>{xml_text(box.label)}'
            "</title></text></g>"
        )
    return "".join(parts)
