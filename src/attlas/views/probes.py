"""What sections of probes share: training and test texts, and what could not be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attlas.views.findings import overlap
from attlas.views.section import Prose, Section, Tables


def probe_section(
    words: Prose,
    needs: tuple[str, ...],
    notes: Callable[[Tables], list[str]] = lambda study: [],
    **options: Any,
) -> Section:
    """The section of a probe; the first of the tables that it needs is its own."""

    def about(study: Tables) -> Mapping[str, Any]:
        return study.study_with_table(needs[0]).manifest

    return words.section(
        needs=needs,
        evidence="Evidence from probes",
        texts_used=lambda study: _texts(about(study)),
        warnings=lambda study: _warnings(about(study)),
        notes=lambda study: [*_notes(about(study)), *notes(study)],
        **options,
    )


def _texts(manifest: Mapping[str, Any]) -> dict[str, float]:
    """How many texts a probe had of each kind."""
    texts = (manifest.get("probe") or {}).get("texts", {})
    kinds = {"train": "training texts", "test": "test texts"}
    return {kind: texts[part] for part, kind in kinds.items() if part in texts}


def _warnings(manifest: Mapping[str, Any]) -> list[str]:
    """A warning if texts of a probe are on both sides."""
    probe = manifest.get("probe")
    return overlap(probe["texts"]["in_both"], probe["kind"].capitalize()) if probe else []


def _notes(manifest: Mapping[str, Any]) -> list[str]:
    """What a probe could not use."""
    probe = manifest.get("probe")
    lost = (
        [f"{count:,} {reason}" for reason, count in probe["lost"].items() if count] if probe else []
    )
    return [f"Not scored: {', '.join(lost)}."] if lost else []
