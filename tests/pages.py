"""Reports as tests want them: drawn with the sections of the whole catalogue."""

from __future__ import annotations

from pathlib import Path

from attlas import catalogue
from attlas.studies.opened import Study
from attlas.views import findings as told, report
from attlas.views.section import Fact, Section, shown

SECTIONS = catalogue.sections()


def sections(study: Study) -> list[tuple[str, Section]]:
    return shown(study, SECTIONS)


def findings(study: Study) -> list[str]:
    return told.findings(study, SECTIONS)


def facts(study: Study) -> list[Fact]:
    return told.facts(study, SECTIONS)


def render(study: Study) -> str:
    return report.render(study, SECTIONS)


def write_charts(study: Study, folder: Path, kind: str = "svg") -> list[Path]:
    return report.write_charts(study, SECTIONS, folder, kind)
