"""A text with the phrases and lines of its likeliest triple, and the graph of all, as a picture."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attlas.language.words import Span
from attlas.relations.section.graph import graph, graph_parts, letter_cells
from attlas.relations.section.texts import STRONGEST, Line, TripleText
from attlas.views.picture import xml_text

COLUMNS, CHARACTER = 104, 7.2  # letters a line, and their width
LINE, ABOVE = 58, 34  # height of a line, and room over its words
INK = {"h": "#2068ab", "t": "#8a5599", "r": "#2f7f40"}
STYLE = (
    "text{fill:#1d2129}.soft,.edge text{fill:#6a7180}.node "
    "rect{fill:#f3f5f8;stroke:#c3c9d2}.edge "
    "path{fill:none;stroke:#8a8f98;stroke-width:1.4}.edge polygon{fill:#8a8f98}"
    ".edge.right path{stroke:#2f7f40}.edge.right polygon{fill:#2f7f40}.edge.missed "
    "path{stroke-dasharray:4 4}"
    + "".join(
        (
            f".mark.{role}{{fill:{ink};fill-opacity:.24}}.line.{role}{{stroke:{ink}"
            f";fill:none}}.tip.{role}{{fill:{ink}}}"
        )
        for role, ink in INK.items()
    )
)


def text_picture(one: TripleText) -> str:
    """The picture as SVG."""
    words, letters, lines = _laid_out(one.string)
    first = one.triples[0] if one.triples else None
    boxes = {role: _boxes(letters, span) for role, span in first.spans.items()} if first else {}
    parts = [f'<text class="soft" x="0" y="12">{xml_text(one.title[:COLUMNS])}</text>']
    parts += [
        (
            f'<rect class="mark {role}" x="{x:.1f}" y="{y - 14:.1f}" width="{wide:.1f}" '
            'height="19" rx="2"/>'
        )
        for role, mine in boxes.items()
        for x, y, wide in mine
    ]
    parts += [
        f'<text x="{x:.1f}" y="{y:.1f}" textLength="{wide:.1f}">{xml_text(word)}</text>'
        for word, x, y, wide in words
    ]
    order = sorted(boxes, key=lambda role: first.spans[role]) if first else []
    for line in first.lines if first else ():
        parts.append(_arc(line, boxes, order))
    below = lines * LINE + 30
    width, height = COLUMNS * CHARACTER, below
    if first:
        triples = graph(one)
        note = (
            f"lines: {STRONGEST}, {first.strongest}; {first.relation}"
            if first.strongest
            else first.relation
        )
        parts.append(f'<text class="soft" x="0" y="{below:.0f}">{xml_text(note[:COLUMNS])}</text>')
        parts.append(
            f'<g transform="translate(0 {below + 14:.0f})" font-family="DejaVu Sans, '
            f'Helvetica, Arial, sans-serif" font-size="11.5">{graph_parts(triples)}</g>'
        )
        width, height = max(width, triples.width), int(below + 14 + triples.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 24:.0f}" '
        f'height="{height + 16}" viewBox="-12 -6 {width + 24:.0f} {height + 16}">'
        f"<style>{STYLE}</style>"
        '<rect x="-12" y="-6" width="100%" height="100%" fill="#ffffff"/><g '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" '
        f'xml:space="preserve">{"".join(parts)}</g></svg>'
    )


def _laid_out(
    string: str,
) -> tuple[list[tuple[str, float, float, float]], list[tuple[float, float, float]], int]:
    """Words with their positions, position and width of each letter, and the number of lines."""
    words, letters = [], []
    column, line = 0, 0
    for run in re.findall(r"\n|[^\S\n]+|\S+", string):
        for start in range(0, len(run), COLUMNS):
            part = run[start : start + COLUMNS]
            wide = [letter_cells(letter) for letter in part]
            if run == "\n" or (column and column + sum(wide) > COLUMNS and not part.isspace()):
                column, line = 0, line + 1
            y = 18.0 + line * LINE + ABOVE
            if not part.isspace():
                words.append((part, column * CHARACTER, y, sum(wide) * CHARACTER))
            for cell in wide:
                letters.append((column * CHARACTER, y, 0.0 if run == "\n" else cell * CHARACTER))
                column += 0 if run == "\n" else cell
    return words, letters, line + 1


def _boxes(
    letters: Sequence[tuple[float, float, float]], span: Span
) -> list[tuple[float, float, float]]:
    """The boxes of a phrase, one for each line it stands on: left, base line, width."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, wide in letters[slice(*span)]:
        rows.setdefault(y, []).append((x, x + wide))
    return [
        (min(x for x, _ in row), y, max(stop for _, stop in row) - min(x for x, _ in row))
        for y, row in rows.items()
    ]


def _arc(
    line: Line, boxes: dict[str, list[tuple[float, float, float]]], order: Sequence[str]
) -> str:
    """A line from one phrase to another, as triples.js draws it.

    Above the words if it points forward in the text, below them if backward.
    """
    ends = [max(boxes[role], key=lambda box: box[2]) for role in (line.source, line.target)]
    onward = order.index(line.source) < order.index(line.target)
    near = abs(order.index(line.source) - order.index(line.target)) == 1
    middle = [x + wide / 2 for x, _, wide in ends]
    toward = 1 if middle[1] >= middle[0] else -1
    x1, x2 = (
        at + side * min(box[2] / 2, 44) * (0.75 if near else 0.2)
        for at, box, side in zip(middle, ends, (toward, -toward), strict=True)
    )
    tops, feet = [y - 15 for _, y, _ in ends], [y + 6 for _, y, _ in ends]
    if ends[0][1] == ends[1][1]:
        y1 = y2 = tops[0] if onward else feet[0]
        bow = ((18 if near else 40) + min(8, abs(x2 - x1) / 40)) * (-1 if onward else 1)
        leave, arrive = bow, bow
    else:
        y1, y2 = (feet[0], tops[1]) if onward else (tops[0], feet[1])
        leave, arrive = (24, -24) if onward else (-24, 24)
    size, up = 0.8 + 7 * max(line.weight, 0) ** 0.5, 1 if arrive < 0 else -1
    tip, shade = 2.5 + size / 2, min(1, 0.25 + 0.75 * max(line.weight, 0) ** 0.5)
    return (
        f'<path class="line {line.source}" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + leave:.1f} '
        f'{x2:.1f} {y2 + arrive:.1f} {x2:.1f} {y2 - up * tip:.1f}" stroke-width="{size:.2f}" '
        f'stroke-opacity="{shade:.2f}"/>'
        f'<polygon class="tip {line.source}" points="{x2:.1f},{y2:.1f} '
        f'{x2 - tip:.1f},{y2 - up * 2 * tip:.1f} {x2 + tip:.1f},{y2 - up * 2 * tip:.1f}" '
        f'fill-opacity="{min(1, shade + 0.2):.2f}"/>'
    )
