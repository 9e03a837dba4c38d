"""The card of a head: what it does in one sentence, its numbers by section, and example texts."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from attlas.support.errors import StudyError
from attlas.views.claims import Finding, judged_claims
from attlas.views.findings import origin, source
from attlas.views.head_rows import HeadExample, HeadRow, finding_row
from attlas.views.numbers import head_name, number
from attlas.views.section import Section, Tables, shown
from attlas.views.tables import TextTable
from attlas.views.texts import excerpt

SMALL = 0.01  # numbers that two places do not show


@dataclass(frozen=True, repr=False)
class HeadCard:
    """All that the sections of a study know of one head.

    `finding` is the strongest one about it: None if no section compares it with a control.
    """

    layer: int
    head: int
    origin: str
    finding: Finding | None
    comparisons: int  # of this head
    rows: Mapping[str, tuple[HeadRow, ...]]  # by title of the section
    examples: tuple[HeadExample, ...] = ()

    @property
    def name(self) -> str:
        """The name of the head."""
        return head_name({"layer": self.layer, "head": self.head})

    @property
    def sentence(self) -> str:
        """What the head does, with control and verdict."""
        if self.finding is None:
            return f"{self.name}: not compared with a control."
        if self.finding.verdict == "nothing beyond chance":
            return f"{self.name}: nothing beyond chance (comparisons: {self.comparisons:,})."
        return f"{self.finding.sentence} ({self.finding.verdict})"

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON."""
        found = self.finding
        return {
            "head": self.name,
            "layer": self.layer,
            "index": self.head,
            "origin": self.origin,
            "sentence": self.sentence,
            "finding": None if found is None else found.record(),
            "comparisons": self.comparisons,
            "rows": [row.record() for rows in self.rows.values() for row in rows],
            "examples": [one.record() for one in self.examples],
        }

    @property
    def table(self) -> TextTable:
        """The rows of all sections."""
        cells = [
            (title if at == 0 else "", *_cells(row))
            for title, rows in self.rows.items()
            for at, row in enumerate(rows)
        ]
        titles = ("section", "number", "value", "control", "", "n", "verdict")
        words = (True, True, False, False, True, False, True)
        return TextTable(titles, tuple(cells), words)

    @property
    def example_table(self) -> TextTable:
        """The example texts, from the lowest score to the highest."""
        first = self.examples[0] if self.examples else None
        score = first.title if first else "score"
        rows = tuple(
            (f"{one.quantile:.0%}", number(one.score), number(one.control), excerpt(one.begins))
            for one in self.examples
        )
        titles = ("quantile", score, "uniform attention", "text")
        return TextTable(titles, rows, (False, False, False, True))

    def _repr_html_(self) -> str:
        words = f"<h3>{self.name}</h3><p>{escape(self.origin)}</p><p>{escape(self.sentence)}</p>"
        examples = self.example_table.html() if self.examples else ""
        return f"{words}{self.table.html() if self.rows else ''}{examples}"

    def __repr__(self) -> str:
        return self.sentence


def head_card(study: Tables, sections: Mapping[str, Section], layer: int, head: int) -> HeadCard:
    """The card of a head, from all sections of a study that are of its model."""
    layer, head = check_head(study, layer, head)
    found: list[Finding] = []
    rows: dict[str, tuple[HeadRow, ...]] = {}
    examples: list[HeadExample] = []
    for name, section in _of_the_model(study, sections):
        own = head_findings(study, name, section, layer, head)
        others = (replace(row, section=name) for row in section.head(study, layer, head))
        found += own
        if every := (*(replace(finding_row(one), section=name) for one in own), *others):
            rows[section.title] = every
        examples += (replace(one, section=name) for one in section.examples(study, layer, head))
    best = min(found, key=lambda one: (one.rank[0], one.is_general, one.rank), default=None)
    where = origin(study.manifest)
    return HeadCard(layer, head, where, best, len(found), rows, tuple(examples))


def head_findings(
    study: Tables, name: str, section: Section, layer: int, head: int
) -> list[Finding]:
    """The claims of a section about a head, judged with all others of the section."""
    where = origin(source(study, section).manifest)
    judged = judged_claims(section.claims(study), section.smallest_effect)
    return [
        replace(one, section=name, origin=where)
        for one in judged
        if one.claim.head == (layer, head)
    ]


def check_head(study: Tables, layer: int, head: int) -> tuple[int, int]:
    """Refuse a head that the model of a study does not have."""
    model = study.manifest.get("model") or {}
    if not model:
        raise StudyError("this result is of no model with heads; open a study of one")
    layer, head = operator.index(layer), operator.index(head)
    layers, heads = study.n_layers, study.n_heads
    if not (0 <= layer < layers and 0 <= head < heads):
        raise StudyError(
            f"there is no head L{layer}H{head}: {model['name']} has layers 0 to {layers - 1} "
            f"with heads 0 to {heads - 1}"
        )
    return layer, head


def _of_the_model(study: Tables, sections: Mapping[str, Section]) -> Iterator[tuple[str, Section]]:
    """The sections that are shown, without those of another model."""
    own = _weights(study.manifest)
    for name, section in shown(study, sections):
        if _weights(source(study, section).manifest) == own:
            yield name, section


def _weights(manifest: Mapping[str, Any]) -> Any:
    return (manifest.get("model") or {}).get("state_sha256")


def _cells(row: HeadRow) -> tuple[str, ...]:
    """A row as it is written: two places, or two digits where value and control are smaller."""
    small = max(abs(row.value), abs(row.control or 0)) < SMALL
    written = (lambda value: f"{value:.2g}") if small else number
    value = written(row.value)
    if row.low is not None and row.high is not None:
        value += f"\u00a0[{written(row.low)},\u00a0{written(row.high)}]"
    if row.unit:
        value += f" {row.unit}"
    control = "" if row.control is None else written(row.control)
    n = "" if row.n is None else f"{row.n:,}"
    return row.label, value, control, row.control_name or "none", n, row.verdict or ""
