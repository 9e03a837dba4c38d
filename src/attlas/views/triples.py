"""Texts with their triples: phrases marked, attention between them as lines, and the graph that the triples make."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import pandas as pd

from attlas.language.words import Span
from attlas.views.findings import number

ROLES = {"h": "head", "t": "tail", "r": "relation words"}
STATUS = {"right": "also in the data", "found": "not so in the data", "missed": "in the data, missed"}
STRONGEST, MEAN = "the head that weighs most for the relation", "the mean of all heads"
COLUMNS, CHARACTER, LINE, ABOVE = (
    104,
    7.2,
    58,
    34,
)  # of a picture: letters a line, their width, height of a line and room over its words
BOX, NODE, EDGE, GAP, LETTER = (
    24,
    34,
    26,
    42,
    7.0,
)  # of a graph: height of a phrase, rows of phrases and of relations, between columns, a letter
LONGEST = 38  # letters of a phrase or a relation in a graph
INK = {"h": "#2b5fa8", "t": "#cd5400", "r": "#008562"}
STYLE = (
    "text{fill:#1d2129}.soft,.edge text{fill:#6a7180}.node rect{fill:#f3f5f8;stroke:#c3c9d2}.edge path{fill:none;stroke:#8a8f98;stroke-width:1.4}.edge polygon{fill:#8a8f98}"
    ".edge.right path{stroke:#008562}.edge.right polygon{fill:#008562}.edge.missed path{stroke-dasharray:4 4}"
    + "".join(f".mark.{role}{{fill:{ink};fill-opacity:.24}}.line.{role}{{stroke:{ink};fill:none}}.tip.{role}{{fill:{ink}}}" for role, ink in INK.items())
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """Attention from one part of a triple to another, by role: `h`, `t`, `r`."""

    source: str
    target: str
    mean: float
    weight: float


@dataclass(frozen=True)
class Shown:
    """A triple of a text: its spans by role, what relation it is, how likely, whether the data has it, and the attention between its phrases."""

    spans: dict[str, Span]
    relation: str
    probability: float
    status: str
    lines: tuple[Line, ...] = ()
    strongest: str = ""  # head


@dataclass(frozen=True)
class TripleText:
    """A text and its triples."""

    title: str
    string: str
    triples: tuple[Shown, ...]
    judged: bool = True  # whether the data says which triples there are

    def phrase(self, span: Span) -> str:
        """What a span spells, blanks evened out."""
        return " ".join(self.string[slice(*span)].split())

    @property
    def pieces(self) -> list[tuple[Span, tuple[tuple[int, str], ...]]]:
        """The text cut wherever a phrase begins or ends: each piece with the triples it is of, and its role there."""
        spans = [(span, place, role) for place, one in enumerate(self.triples) for role, span in one.spans.items()]
        cuts = sorted({0, len(self.string), *(end for span, _, _ in spans for end in span)})
        return [
            ((start, stop), tuple((place, role) for span, place, role in spans if span[0] <= start and stop <= span[1]))
            for start, stop in pairwise(cuts)
        ]

    @property
    def data(self) -> list[dict[str, Any]]:
        """What triples.js draws: for each triple the marked pieces of each role, and its lines."""
        marked = [roles for _, roles in self.pieces if roles]
        return [
            {
                "marks": {role: [mark for mark, roles in enumerate(marked) if (place, role) in roles] for role in one.spans},
                "lines": [[line.source, line.target, _short(line.mean), _short(line.weight)] for line in one.lines], "strongest": one.strongest,
            }
            for place, one in enumerate(self.triples)
        ]  # fmt: skip

    @property
    def summary(self) -> str:
        counts = {status: sum(one.status == status for one in self.triples) for status in STATUS}
        found = counts["right"] + counts["found"]
        told = f"{found} {'triple' if found == 1 else 'triples'}"
        return (
            told + (f", {counts['right']} of them in the data, {counts['missed']} missed" if self.judged else " found")
        )  # fmt: skip


def texts_of(texts: pd.DataFrame, triples: pd.DataFrame, lines: pd.DataFrame, judged: bool = True) -> tuple[TripleText, ...]:  # fmt: skip
    """The tables `relation_texts`, `relation_triples` and `relation_lines` as texts to draw: triples that were found first, those that were missed after."""
    out = []
    for text in texts.to_dict("records"):
        own = lines[lines["text"] == text["text"]]
        rows = triples[triples["text"] == text["text"]].to_dict("records")
        rows.sort(key=lambda row: (row["status"] == "missed", abs(row["triple"])))
        shown = tuple(_shown(row, own[own["triple"] == row["triple"]].to_dict("records")) for row in rows)
        out.append(TripleText(str(text["text"]), str(text["string"]), shown, judged))
    return tuple(out)


def _shown(row: dict[Any, Any], lines: Sequence[dict[Any, Any]]) -> Shown:
    spans = {role: (int(row[f"{name}_start"]), int(row[f"{name}_stop"])) for role, name in (("h", "head"), ("t", "tail"), ("r", "words"))}  # fmt: skip
    spans = {role: span for role, span in spans.items() if span[0] >= 0}
    role = {span: name for name, span in reversed(spans.items())}
    between = tuple(
        Line(role[one["from_start"], one["from_stop"]], role[one["to_start"], one["to_stop"]], float(one["mean"]), float(one["weight"]))
        for one in lines
    )  # fmt: skip
    strongest = f"L{int(lines[0]['strongest_layer'])}.H{int(lines[0]['strongest_head'])}" if lines else ""
    return Shown(spans, str(row["name"] or row["relation"]), float(row["probability"]), str(row["status"]), between, strongest)  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def text_html(one: TripleText) -> str:
    """A text with the phrases of its first triple marked, the list of its triples to choose from, and their graph; lines are drawn by triples.js."""
    parts = []
    for (start, stop), roles in one.pieces:
        string = escape(one.string[start:stop])
        first = next((role for place, role in roles if place == 0), "")
        parts.append(f'<mark class="{first}">{string}</mark>' if roles else string)
    told = "<th></th>" if one.judged else ""
    rows = "".join(_row_html(one, place) for place in range(len(one.triples)))
    table = f'<table class="lists"><tr><th>triple</th><th>relation</th><th>probability</th>{told}</tr>{rows}</table>' if rows else "<p>No triple is likely enough.</p>"  # fmt: skip
    drawn = graph_svg(one) if one.triples else ""
    return f'<div class="phrases"><p dir="auto">{"".join(parts)}</p></div><p class="says id"></p><div class="beside"><div>{table}</div><div class="graph">{drawn}</div></div>'


def _row_html(one: TripleText, place: int) -> str:
    triple = one.triples[place]
    parts = " ".join(f'<b class="{role}" dir="auto">{escape(one.phrase(triple.spans[role]))}</b>' for role in ("h", "r", "t") if role in triple.spans)  # fmt: skip
    status = f'<td class="{triple.status}">{STATUS[triple.status]}</td>' if one.judged else ""
    pressed = "true" if place == 0 else "false"
    return f'<tr><td><button type="button" data-triple="{place}" aria-pressed="{pressed}">{parts}</button></td><td dir="auto">{escape(triple.relation)}</td><td>{number(triple.probability)}</td>{status}</tr>'


# the graph


@dataclass(frozen=True)
class Box:
    """Something with letters in a graph: where its middle is, and how wide it is."""

    label: str
    x: float
    y: float
    width: float


@dataclass(frozen=True)
class Graph:
    """Phrases as nodes, triples as edges; an edge is the box of its relation and the phrases it goes from and to."""

    nodes: dict[str, Box]
    edges: tuple[tuple[Box, str, str, str], ...]  # relation, head, tail, status
    width: float
    height: float


def graph(one: TripleText) -> Graph:
    """The triples of a text in columns: phrases that nothing points to on the left, what they point to further right, relations in columns of their own, so that no two labels meet."""
    pairs = [(one.phrase(triple.spans["h"]), one.phrase(triple.spans["t"])) for triple in one.triples]
    names = sorted({name for pair in pairs for name in pair}, key=lambda name: min((triple.spans[role] for triple, pair in zip(one.triples, pairs, strict=True) for role, said in zip("ht", pair, strict=True) if said == name)))  # fmt: skip
    depth = _depths(names, pairs)
    ends = [(head, tail) if depth[head] <= depth[tail] else (tail, head) for head, tail in pairs]  # left, right
    deepest = max(depth.values(), default=0)
    at: dict[str, float] = {}
    row, label_at, x, xs, label_xs = 0.0, [0.0] * len(pairs), 8.0, [], []
    for name in (name for name in names if depth[name] == 0):
        room = max(NODE, EDGE * sum(left == name for left, _ in ends))
        at[name], row = row + room / 2, row + room
    for column in range(deepest + 1):
        mine = [name for name in names if depth[name] == column]
        if column:
            wish = {name: _mean([label_at[place] for place, (_, right) in enumerate(ends) if right == name and depth[ends[place][0]] < column]) for name in mine}  # fmt: skip
            mine.sort(key=wish.__getitem__)
            at |= dict(zip(mine, _stacked([wish[name] for name in mine], NODE), strict=True))
        labels = [place for place, (left, _) in enumerate(ends) if depth[left] == column]
        labels.sort(key=lambda place: (at[ends[place][0]], place))
        wishes = []
        for place in labels:
            same = [other for other in labels if ends[other][0] == ends[place][0]]
            wishes.append(at[ends[place][0]] + EDGE * (same.index(place) - (len(same) - 1) / 2))
        for place, y in zip(labels, _stacked(wishes, EDGE), strict=True):
            label_at[place] = y
        wide = max(_width(_cut(name)) for name in mine) + 18
        xs.append(x + wide / 2)
        x += wide + GAP
        among = max((_width(_cut(one.triples[place].relation)) for place in labels), default=0.0) + 8
        label_xs.append(x + among / 2)
        x += among + GAP if labels else -GAP
    nodes = {name: Box(name, xs[depth[name]], at[name], _width(_cut(name)) + 18) for name in names}
    edges = tuple(
        (Box(triple.relation, label_xs[depth[left]], label_at[place], _width(_cut(triple.relation)) + 8), *pairs[place], triple.status)
        for place, (triple, (left, _)) in enumerate(zip(one.triples, ends, strict=True))
    )  # fmt: skip
    low = max([*(box.y for box in nodes.values()), *label_at], default=0.0)
    right = max([*(box.x + box.width / 2 for box in nodes.values()), *(box.x + box.width / 2 for box, *_ in edges)], default=0.0)  # fmt: skip
    return Graph(nodes, edges, right + 8, low + NODE / 2 + 4)


def _depths(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many steps each phrase is from one that nothing points to; where all are pointed to, from the first of them.

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
    return sum(map(_cells, string))


def _cells(letter: str) -> int:
    """How many columns a letter takes: wide ones two, marks on others none."""
    if unicodedata.combining(letter) or letter in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _width(string: str) -> float:
    return LETTER * cells(string)


def _cut(string: str) -> str:
    return string if len(string) <= LONGEST else string[: LONGEST - 1] + "…"


def _spelt(string: str) -> str:
    """Escaped; what XML cannot hold is a blank."""
    return escape("".join(letter if letter >= " " and letter not in "\ufffe\uffff" else " " for letter in string))


def graph_svg(one: TripleText) -> str:
    """The graph as a picture for a page."""
    drawn = graph(one)
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="triples" width="{drawn.width:.0f}" height="{drawn.height:.0f}" viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}" font-size="12.5">{_graph_parts(drawn)}</svg>'


def _graph_parts(drawn: Graph) -> str:
    parts = []
    for box, head, tail, status in drawn.edges:
        source, target = drawn.nodes[head], drawn.nodes[tail]
        left, right = box.x - box.width / 2, box.x + box.width / 2
        ways = []
        for node, lift in ((source, -3), (target, 3)):
            if node.x < box.x:  # a phrase of the same column on both sides: both ways end at the label's left
                level = lift if source.x == target.x else 0
                ways.append((left, box.y + level, node.x + node.width / 2, node.y + level, -1))
            else:
                ways.append((right, box.y, node.x - node.width / 2, node.y, 1))
        curves = "".join(f'<path d="M{x1:.1f} {y1:.1f}C{x1 + side * GAP / 2:.1f} {y1:.1f} {x2 - side * GAP / 2:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"/>' for x1, y1, x2, y2, side in ways)  # fmt: skip
        _, _, x, y, side = ways[1]
        tip = f'<polygon points="{x:.1f},{y:.1f} {x - side * 8:.1f},{y - 4:.1f} {x - side * 8:.1f},{y + 4:.1f}"/>'
        parts.append(f'<g class="edge {status}">{curves}{tip}<text x="{box.x:.1f}" y="{box.y + 4:.1f}" text-anchor="middle">{_spelt(_cut(box.label))}<title>{_spelt(box.label)}</title></text></g>')  # fmt: skip
    for box in drawn.nodes.values():
        parts.append(
            f'<g class="node"><rect x="{box.x - box.width / 2:.1f}" y="{box.y - BOX / 2:.1f}" width="{box.width:.1f}" height="{BOX}" rx="5"/>'
            f'<text x="{box.x:.1f}" y="{box.y + 4:.1f}" text-anchor="middle">{_spelt(_cut(box.label))}<title>{_spelt(box.label)}</title></text></g>'
        )  # fmt: skip
    return "".join(parts)


# a picture of all


def text_picture(one: TripleText) -> str:
    """A text with the phrases and lines of its likeliest triple, and the graph of all, as one picture."""
    words, places, lines = _laid_out(one.string)
    first = one.triples[0] if one.triples else None
    boxes = {role: _boxes(places, span) for role, span in first.spans.items()} if first else {}
    parts = [f'<text class="soft" x="0" y="12">{_spelt(one.title[:COLUMNS])}</text>']
    parts += [f'<rect class="mark {role}" x="{x:.1f}" y="{y - 14:.1f}" width="{wide:.1f}" height="19" rx="2"/>' for role, mine in boxes.items() for x, y, wide in mine]  # fmt: skip
    parts += [f'<text x="{x:.1f}" y="{y:.1f}" textLength="{wide:.1f}">{_spelt(word)}</text>' for word, x, y, wide in words]  # fmt: skip
    order = sorted(boxes, key=lambda role: first.spans[role]) if first else []
    for line in first.lines if first else ():
        parts.append(_arc(line, boxes, order))
    below = lines * LINE + 30
    width, height = COLUMNS * CHARACTER, below
    if first:
        drawn = graph(one)
        said = f"lines: {STRONGEST}, {first.strongest}; {first.relation}" if first.strongest else first.relation
        parts.append(f'<text class="soft" x="0" y="{below:.0f}">{_spelt(said[:COLUMNS])}</text>')
        parts.append(f'<g transform="translate(0 {below + 14:.0f})" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="11.5">{_graph_parts(drawn)}</g>')  # fmt: skip
        width, height = max(width, drawn.width), int(below + 14 + drawn.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 24:.0f}" height="{height + 16}" viewBox="-12 -6 {width + 24:.0f} {height + 16}"><style>{STYLE}</style>'
        f'<rect x="-12" y="-6" width="100%" height="100%" fill="#ffffff"/><g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" xml:space="preserve">{"".join(parts)}</g></svg>'
    )


def _laid_out(string: str) -> tuple[list[tuple[str, float, float, float]], list[tuple[float, float, float]], int]:
    """Words with their places, the place and width of each letter, and how many lines there are."""
    words, places = [], []
    column, line = 0, 0
    for run in re.findall(r"\n|[^\S\n]+|\S+", string):
        for start in range(0, len(run), COLUMNS):
            part = run[start : start + COLUMNS]
            wide = [_cells(letter) for letter in part]
            if run == "\n" or (column and column + sum(wide) > COLUMNS and not part.isspace()):
                column, line = 0, line + 1
            y = 18.0 + line * LINE + ABOVE
            if not part.isspace():
                words.append((part, column * CHARACTER, y, sum(wide) * CHARACTER))
            for cell in wide:
                places.append((column * CHARACTER, y, 0.0 if run == "\n" else cell * CHARACTER))
                column += 0 if run == "\n" else cell
    return words, places, line + 1


def _boxes(places: Sequence[tuple[float, float, float]], span: Span) -> list[tuple[float, float, float]]:
    """The boxes of a phrase, one for each line it stands on: left, base line, width."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, wide in places[slice(*span)]:
        rows.setdefault(y, []).append((x, x + wide))
    return [(min(x for x, _ in row), y, max(stop for _, stop in row) - min(x for x, _ in row)) for y, row in rows.items()]  # fmt: skip


def _arc(line: Line, boxes: dict[str, list[tuple[float, float, float]]], order: Sequence[str]) -> str:
    """A line from one phrase to another: over the words if it goes on in the text, under them if it goes back; as triples.js draws it."""
    ends = [max(boxes[role], key=lambda box: box[2]) for role in (line.source, line.target)]
    onward = order.index(line.source) < order.index(line.target)
    near = abs(order.index(line.source) - order.index(line.target)) == 1
    middle = [x + wide / 2 for x, _, wide in ends]
    toward = 1 if middle[1] >= middle[0] else -1
    x1, x2 = (at + side * min(box[2] / 2, 22) * (0.75 if near else 0.4) for at, box, side in zip(middle, ends, (toward, -toward), strict=True))  # fmt: skip
    tops, feet = [y - 15 for _, y, _ in ends], [y + 6 for _, y, _ in ends]
    if ends[0][1] == ends[1][1]:
        y1 = y2 = tops[0] if onward else feet[0]
        bow = min(34.0, 12 + abs(x2 - x1) / 12) * (-1 if onward else 1)
        leave, arrive = bow, bow
    else:
        y1, y2 = (feet[0], tops[1]) if onward else (tops[0], feet[1])
        leave, arrive = (24, -24) if onward else (-24, 24)
    size, up = 0.8 + 7 * max(line.weight, 0) ** 0.5, 1 if arrive < 0 else -1
    tip, shade = 2.5 + size / 2, min(1, 0.25 + 0.75 * max(line.weight, 0) ** 0.5)
    return (
        f'<path class="line {line.source}" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + leave:.1f} {x2:.1f} {y2 + arrive:.1f} {x2:.1f} {y2 - up * tip:.1f}" stroke-width="{size:.2f}" stroke-opacity="{shade:.2f}"/>'
        f'<polygon class="tip {line.source}" points="{x2:.1f},{y2:.1f} {x2 - tip:.1f},{y2 - up * 2 * tip:.1f} {x2 + tip:.1f},{y2 - up * 2 * tip:.1f}" fill-opacity="{min(1, shade + 0.2):.2f}"/>'
    )
