"""A study in a notebook: what it found, all its heads by any column, the card of the chosen one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attlas.views.all_heads import heads_grid
from attlas.views.card_parts import HeadCards
from attlas.views.findings import facts, findings, opening, warnings
from attlas.views.modules import View
from attlas.views.notebook import (
    NOT_STORED,
    Panel,
    Selection,
    Shown,
    framed_page,
    picture_html,
)
from attlas.views.numbers import head_name
from attlas.views.overlay import Overlay
from attlas.views.paper import Interactive
from attlas.views.parts import Part, TintedText
from attlas.views.picture import tinted_svg
from attlas.views.placed import parts_page
from attlas.views.report import headline, render, study_html
from attlas.views.section import Section, Tables

SUMMARY = View("summary", has_words=False)


@dataclass(frozen=True, eq=False)
class StudySummary:
    """The run, its warnings and the findings that open its report."""

    study: Tables
    sections: Mapping[str, Section]
    view: View = SUMMARY

    @property
    def data(self) -> dict[str, Any]:
        known = opening(findings(self.study, self.sections))
        return {
            "facts": [list(one) for one in facts(self.study, self.sections)],
            "warnings": list(warnings(self.study, self.sections)),
            "findings": [
                {
                    "sentence": one.sentence,
                    "verdict": one.verdict,
                    "head": _name(one.claim.head),
                }
                for one in known
            ],
        }

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return []


def _name(head: tuple[int, int] | None) -> str:
    return "" if head is None else head_name({"layer": head[0], "head": head[1]})


def study_panel(study: Tables, sections: Mapping[str, Section], selection: Selection) -> Panel:
    """What a notebook shows of a study."""
    known = [one.claim.group for one in opening(findings(study, sections))]
    grid, card = heads_grid(study, sections, known), HeadCards.of(study, sections)
    parts: tuple[tuple[Part | None, str], ...] = (
        (StudySummary(study, sections), "whole"),
        (grid, ""),
        (card, ""),
    )
    drawn = [(part, kind) for part, kind in parts if part is not None]
    return Panel(
        tuple(part for part, _ in drawn),
        lambda words: study_html(study, sections),
        lambda: render(study, sections),
        selection,
        headline(study.manifest),
        tuple(kind for _, kind in drawn),
        "two",
    )


def heads_interactive(
    study: Tables,
    sections: Mapping[str, Section],
    selection: Selection,
    column: str,
    is_named: bool,
) -> Interactive:
    """All heads in a notebook: by a column that the code names, or by any."""

    def parts() -> tuple[Part, ...]:
        grid = heads_grid(study, sections, [column])
        return () if grid is None else (grid,)

    values = {"column": column} if is_named else {}
    return Interactive(parts, selection, values, has_words=False)


@dataclass(frozen=True, eq=False)
class StudyText(Shown):
    """One text of a study, its words shaded by the attention that they receive."""

    title: str
    overlay: Overlay
    selection: Selection

    @property
    def part(self) -> TintedText:
        """The text as a part of a page."""
        return TintedText(self.title, self.overlay)

    @property
    def panel(self) -> Panel:
        part = self.part
        return Panel(
            (part,), self._picture, lambda: parts_page(self.title, [part], {}), self.selection
        )

    def _picture(self, words: bool) -> str:
        shown = self.overlay if words else self.overlay.without_words
        caption = f"{self.title}. Tint: attention received, mean of all heads."
        return picture_html(tinted_svg(shown), caption, "" if words else NOT_STORED)

    def __repr__(self) -> str:
        return f"StudyText({self.title})"

    def _repr_html_(self) -> str:
        return framed_page(self.panel.page())
