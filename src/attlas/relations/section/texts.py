"""Texts with their triples, from tables: phrases by role, and the attention between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from attlas.language.words import Span

STATUS = {
    "right": "also in the data",
    "found": "not in the data",
    "missed": "in the data, missed",
}
STRONGEST, MEAN = "the head with the largest weight", "the mean of all heads"


@dataclass(frozen=True)
class Line:
    """Attention from one part of a triple to another, by role: `h`, `t`, `r`."""

    source: str
    target: str
    mean: float
    weight: float


@dataclass(frozen=True)
class Shown:
    """A triple of a text: its spans by role, its relation, and the attention between its phrases.

    `status` says whether the data has it.
    """

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
        """The text of a span, with single spaces."""
        return " ".join(self.string[slice(*span)].split())

    @property
    def pieces(self) -> list[tuple[Span, tuple[tuple[int, str], ...]]]:
        """The text cut wherever a phrase begins or ends; each piece with its triples and roles."""
        spans = [
            (span, index, role)
            for index, one in enumerate(self.triples)
            for role, span in one.spans.items()
        ]
        cuts = sorted({0, len(self.string), *(end for span, _, _ in spans for end in span)})
        return [
            (
                (start, stop),
                tuple(
                    (index, role)
                    for span, index, role in spans
                    if span[0] <= start and stop <= span[1]
                ),
            )
            for start, stop in pairwise(cuts)
        ]

    @property
    def data(self) -> list[dict[str, Any]]:
        """What triples.js draws of each triple: pieces by role, its characters, its lines."""
        marked = [roles for _, roles in self.pieces if roles]
        return [
            {
                "marks": {
                    role: [mark for mark, roles in enumerate(marked) if (index, role) in roles]
                    for role in one.spans
                },
                "spans": sorted(one.spans.values()),
                "lines": [
                    [line.source, line.target, _short(line.mean), _short(line.weight)]
                    for line in one.lines
                ],
                "strongest": one.strongest,
            }
            for index, one in enumerate(self.triples)
        ]

    @property
    def summary(self) -> str:
        counts = {status: sum(one.status == status for one in self.triples) for status in STATUS}
        found = counts["right"] + counts["found"]
        count = f"{found} {'triple' if found == 1 else 'triples'}"
        judged = f", {counts['right']} of them in the data, {counts['missed']} missed"
        return count + (judged if self.judged else " predicted")


def texts_of(
    texts: pd.DataFrame, triples: pd.DataFrame, lines: pd.DataFrame, judged: bool = True
) -> tuple[TripleText, ...]:
    """The tables `relation_texts`, `relation_triples` and `relation_lines` as texts to draw.

    Triples that were found come first, those that were missed after.
    """
    out = []
    for text in texts.to_dict("records"):
        own = lines[lines["text"] == text["text"]]
        rows = triples[triples["text"] == text["text"]].to_dict("records")
        rows.sort(key=lambda row: (row["status"] == "missed", abs(row["triple"])))
        shown = tuple(
            _shown(row, own[own["triple"] == row["triple"]].to_dict("records")) for row in rows
        )
        out.append(TripleText(str(text["text"]), str(text["string"]), shown, judged))
    return tuple(out)


def _shown(row: dict[Any, Any], lines: Sequence[dict[Any, Any]]) -> Shown:
    spans = {
        role: (int(row[f"{name}_start"]), int(row[f"{name}_stop"]))
        for role, name in (("h", "head"), ("t", "tail"), ("r", "words"))
    }
    spans = {role: span for role, span in spans.items() if span[0] >= 0}
    role = {span: name for name, span in reversed(spans.items())}
    between = tuple(
        Line(
            role[one["from_start"], one["from_stop"]],
            role[one["to_start"], one["to_stop"]],
            float(one["mean"]),
            float(one["weight"]),
        )
        for one in lines
        if one["mean"] == one["mean"] and one["weight"] == one["weight"]
    )
    strongest = (
        f"L{int(lines[0]['strongest_layer'])}H{int(lines[0]['strongest_head'])}" if lines else ""
    )
    return Shown(
        spans,
        str(row["name"] or row["relation"]),
        float(row["probability"]),
        row["status"] if row["status"] in STATUS else "found",
        between,
        strongest,
    )


def _short(value: float) -> float:
    return float(f"{value:.3g}")
