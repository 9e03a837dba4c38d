"""The card of a head: what it does in one sentence, its numbers by section, and example texts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

from attlas.support.errors import StudyError
from attlas.views.card_pictures import multiples_html
from attlas.views.claims import Finding, judged_claims
from attlas.views.findings import origin, source
from attlas.views.head_profiles import HeadProfile
from attlas.views.head_rows import Head, HeadExample, HeadRow, finding_row
from attlas.views.notebook import NOT_STORED, Panel, Selection, Shown
from attlas.views.numbers import head_name, number, percent, written
from attlas.views.section import Section, Tables, shown
from attlas.views.tables import TextTable
from attlas.views.texts import excerpt


@dataclass(frozen=True, repr=False)
class HeadCard(Shown):
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
    profiles: tuple[HeadProfile, ...] = field(default=(), compare=False)  # of all heads
    key_numbers: frozenset[str] = frozenset()
    known: KnownHeads | None = field(default=None, compare=False)
    selection: Selection = field(default_factory=Selection, compare=False)

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
            (percent(one.quantile), number(one.score), number(one.control), excerpt(one.begins))
            for one in self.examples
        )
        titles = ("quantile", score, "uniform attention", "text")
        return TextTable(titles, rows, (False, False, False, True))

    @property
    def panel(self) -> Panel:
        """The card of this head; another head can be chosen in it."""
        from attlas.views.card_parts import HeadCards
        from attlas.views.placed import parts_page

        if self.known is None:
            raise StudyError("this card was made without its study; call study.head() again")
        parts, values = (HeadCards(self.known),), {"head": self.name}
        return Panel(
            parts,
            lambda words: self._numbers() + (self._texts() if words else self._without_texts()),
            lambda: parts_page(self.name, parts, values),
            self.selection,
            values=values,
        )

    def _repr_html_(self) -> str:
        return self._numbers() + self._texts()

    def _numbers(self) -> str:
        place = f"layer {self.layer}, head {self.head}; {self.origin}"
        words = f"<h3>{self.name}</h3><p>{escape(place)}</p><p><b>{escape(self.sentence)}</b></p>"
        pictures = multiples_html(self.profiles, (self.layer, self.head))
        return f"{words}{pictures}{self.table.html() if self.rows else ''}"

    def _texts(self) -> str:
        return self.example_table.html() if self.examples else ""

    def _without_texts(self) -> str:
        return f"<p>{escape(NOT_STORED)}</p>" if self.examples else ""

    def __repr__(self) -> str:
        return self.sentence


@dataclass(frozen=True, eq=False)
class KnownHeads:
    """All that the sections of a study know of the heads of its model, each section asked once."""

    study: Tables
    sections: tuple[tuple[str, Section], ...]

    @classmethod
    def of(cls, study: Tables, sections: Mapping[str, Section]) -> KnownHeads:
        """What the sections that are of the model of a study know."""
        return cls(study, tuple(_of_the_model(study, sections)))

    @property
    def heads(self) -> list[Head]:
        """All heads of the model."""
        layers, heads = range(self.study.n_layers), range(self.study.n_heads)
        return [(layer, head) for layer in layers for head in heads]

    @cached_property
    def findings(self) -> dict[str, dict[Head, list[Finding]]]:
        """The claims about heads, each judged with all others of its section, by section."""
        return {name: _by_head(_findings(self.study, name, one)) for name, one in self.sections}

    @cached_property
    def rows(self) -> dict[str, dict[Head, list[HeadRow]]]:
        """The rows of heads by section: first what is claimed."""
        out: dict[str, dict[Head, list[HeadRow]]] = {}
        for name, section in self.sections:
            claimed, others = self.findings[name], section.head_rows(self.study)
            out[name] = {
                head: [
                    replace(row, section=name)
                    for row in (*map(finding_row, claimed.get(head, ())), *others.get(head, ()))
                ]
                for head in dict.fromkeys((*claimed, *others))
            }
        return out

    @cached_property
    def profiles(self) -> tuple[HeadProfile, ...]:
        """The small pictures of all heads."""
        return tuple(
            replace(one, section=name)
            for name, section in self.sections
            for one in section.profiles(self.study)
            if one.is_known
        )

    @cached_property
    def examples(self) -> dict[Head, tuple[HeadExample, ...]]:
        """The example texts of each head."""
        out: dict[Head, tuple[HeadExample, ...]] = {}
        for name, section in self.sections:
            for head, some in section.examples(self.study).items():
                own = tuple(replace(one, section=name) for one in some)
                out[head] = (*out.get(head, ()), *own)
        return out

    @property
    def key_numbers(self) -> frozenset[str]:
        """The labels of the rows that open a card."""
        return frozenset(label for _, one in self.sections for label in one.key_numbers)

    def strongest(self, head: Head) -> Finding | None:
        """The strongest finding about a head; one that holds for all heads comes last."""
        found = (one for some in self.findings.values() for one in some.get(head, ()))
        return min(found, key=lambda one: one.rank, default=None)

    def n_comparisons(self, head: Head) -> int:
        """How many comparisons there are of a head."""
        return sum(len(some.get(head, ())) for some in self.findings.values())

    def card(self, head: Head) -> HeadCard:
        """The card of one head."""
        rows = {
            section.title: tuple(self.rows[name][head])
            for name, section in self.sections
            if head in self.rows[name]
        }
        return HeadCard(
            *head,
            origin(self.study.manifest),
            self.strongest(head),
            self.n_comparisons(head),
            rows,
            self.examples.get(head, ()),
            tuple(one for one in self.profiles if one.knows(*head)),
            self.key_numbers,
            self,
        )


def head_card(study: Tables, sections: Mapping[str, Section], layer: int, head: int) -> HeadCard:
    """The card of a head, from all sections of a study that are of its model."""
    checked = check_head(study, layer, head)
    return KnownHeads.of(study, sections).card(checked)


def _findings(study: Tables, name: str, section: Section) -> list[Finding]:
    """The claims of a section about heads, judged with all others of the section."""
    where = origin(source(study, section).manifest)
    judged = judged_claims(section.claims(study), section.smallest_effect)
    return [
        replace(one, section=name, origin=where) for one in judged if one.claim.head is not None
    ]


def _by_head(found: Iterable[Finding]) -> dict[Head, list[Finding]]:
    out: dict[Head, list[Finding]] = {}
    for one in found:
        if one.claim.head is not None:
            out.setdefault(one.claim.head, []).append(one)
    return out


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
    """A row as it is written."""
    largest = max(abs(row.value), abs(row.control or 0))
    value = written(row.value, largest)
    if row.low is not None and row.high is not None:
        value += f"\u00a0[{written(row.low, largest)},\u00a0{written(row.high, largest)}]"
    if row.unit:
        value += f" {row.unit}"
    control = "" if row.control is None else written(row.control, largest)
    n = "" if row.n is None else f"{row.n:,}"
    return row.label, value, control, row.control_name or "none", n, row.verdict or ""
