"""All heads by every column of the sections of a report, with what each head is known for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from attlas.views.claims import Finding, judged_claims
from attlas.views.findings import source
from attlas.views.head_kinds import HeadKinds, head_kinds
from attlas.views.head_views import HeadColumn, HeadGrid, HeadTiles, head_grid_part
from attlas.views.heads import drawable
from attlas.views.numbers import head_name
from attlas.views.parts import Part
from attlas.views.section import Figure, Section, Tables, shown

Drawn = tuple[str, Section, Sequence[Figure]]  # a section by name with its figures


@dataclass(frozen=True, eq=False)
class AllHeads:
    """The grid that opens a report, and the head that is chosen at first, if any."""

    grid: HeadGrid
    head: str
    tiles: HeadTiles | None = None
    kinds: HeadKinds | None = None


def all_heads(
    study: Tables, sections: Mapping[str, Section], drawn: Sequence[Drawn], found: Sequence[Finding]
) -> AllHeads | None:
    """The columns of all grids of the model of a study; None if there are none.

    The first is that of the strongest finding about a head, which is chosen, or of any.
    """
    own = {name: one for name, one in shown(study, sections) if is_of_model(study, one)}
    size = (study.n_layers, study.n_heads) if own else (0, 0)
    grids = {
        name: [grid for grid in _grids(figures) if (grid.layers, grid.heads) == size]
        for name, _, figures in drawn
        if name in own
    }
    columns: dict[str, HeadColumn] = {}
    for name, some in grids.items():
        for column in (column for grid in some for column in grid.columns):
            columns.setdefault(column.name, replace(column, group=own[name].title))
    if not columns:
        return None
    able = [one for one in found if grids.get(one.section)]
    best = next((one for one in able if one.claim.head), None)
    shown_first = best or next(iter(able), None)
    first = _column_of(shown_first, grids[shown_first.section]) if shown_first else ""
    names = known_for(study, own.values())
    grid = HeadGrid(*size, tuple(columns.values()), first, names=names)
    figures = (one for name, _, some in drawn if name in own for one in some)
    tiles = next((part for one in figures for part in one.page if _fits(part, size)), None)
    kinds = head_kinds(study, list(own.items()))
    return AllHeads(grid, _name(best.claim.head if best else None), tiles, kinds)


def heads_grid(
    study: Tables, sections: Mapping[str, Section], wanted: Iterable[str] = ()
) -> HeadGrid | None:
    """All heads by every column that the sections declare; None if there are none.

    The first is that of `wanted` columns, by their names with or without their tables.
    """
    columns: dict[str, HeadColumn] = {}
    own = [one for _, one in shown(study, sections) if is_of_model(study, one)]
    for section in own:
        for table, declared in section.columns.items():
            frame = study.table(table) if study.has(table) else None
            able = [] if frame is None or frame.empty else drawable(frame, declared)
            grid = head_grid_part(frame, able, table=table) if able else None
            if grid is None or (grid.layers, grid.heads) != (study.n_layers, study.n_heads):
                continue
            for column in grid.columns:
                columns.setdefault(column.name, replace(column, group=section.title))
    if not columns:
        return None
    known, every = known_for(study, own), tuple(columns.values())
    named = (one.name for name in wanted for one in every if name in (one.name, one.column.name))
    return HeadGrid(study.n_layers, study.n_heads, every, next(named, ""), names=known)


def _fits(part: Part, size: tuple[int, int]) -> TypeGuard[HeadTiles]:
    return isinstance(part, HeadTiles) and (part.layers, part.heads) == size


def _grids(figures: Iterable[Figure]) -> list[HeadGrid]:
    return [part for one in figures for part in one.page if isinstance(part, HeadGrid)]


def _column_of(finding: Finding, grids: Sequence[HeadGrid]) -> str:
    """The column that a finding is about: that of its group or label, or the first."""
    group, label = finding.claim.group, finding.claim.label
    columns = [column for grid in grids for column in grid.columns]
    named = (one.name for one in columns if group == one.column.name or label == one.column.label)
    return next(named, grids[0].first)


def _name(head: tuple[int, int] | None) -> str:
    return "" if head is None else head_name({"layer": head[0], "head": head[1]})


def is_of_model(study: Tables, section: Section) -> bool:
    """Whether a section is of the model of a study, and not of another one next to it."""
    own, other = (one.manifest.get("model") or {} for one in (study, source(study, section)))
    return bool(own) and own.get("state_sha256") == other.get("state_sha256")


def known_for(study: Tables, sections: Iterable[Section]) -> dict[str, str]:
    """The strongest finding about each head in a few words: those with a signal.

    What holds for all heads is not what a head is known for.
    """
    best: dict[tuple[int, int], Finding] = {}
    for section in sections:
        for one in judged_claims(section.claims(study), section.smallest_effect):
            head = one.claim.head
            if head is None or one.verdict != "signal" or one.is_general:
                continue
            if head not in best or one.rank < best[head].rank:
                best[head] = one
    named = {_name(head): one.claim.words for head, one in sorted(best.items())}
    return {name: words.removeprefix(name).strip() for name, words in named.items()}
