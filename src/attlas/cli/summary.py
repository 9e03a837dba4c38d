"""What is printed of a result, from `summary.json` in its folder where that is up to date.

The file is derived: it is used only if the manifest, which has the sha256 of every table, and all
code that makes a summary are those that it was made from.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from attlas.support.errors import AttlasError
from attlas.support.files import read_json, write_json
from attlas.support.fingerprint import fingerprint

if TYPE_CHECKING:
    from attlas.studies.opened import Study
    from attlas.views.summary import Summary


def summary_of(study: Study) -> Summary:
    """The summary of a result; made, and written for the next time, unless it is up to date."""
    from attlas.catalogue import has_plug_ins, sections
    from attlas.studies.folder import FORMAT, SUMMARY
    from attlas.views.summary import Summary, made_from

    path = study.folder / SUMMARY
    made = "" if study.others or has_plug_ins() else made_from(study)
    saved = _saved(path, made) if made else None
    if saved is not None:
        return saved
    from attlas.views.findings import summarize

    summary = Summary.from_dict(summarize(study, sections()).to_dict())
    if made:
        content = summary.to_dict()
        mark = {"attlas": FORMAT, "made_from": made, "sha256": fingerprint(content)}
        _write(path, {**mark, "summary": content})
    return summary


def _saved(path: Path, made_from: str) -> Summary | None:
    """The summary in a file; None if it is not there, not ours, not up to date, or damaged."""
    from attlas.studies.folder import is_our_summary
    from attlas.views.summary import Summary

    saved = (read_json(path) or {}) if is_our_summary(path) else {}
    if saved.get("made_from") != made_from:
        return None
    content = saved["summary"]
    return Summary.from_dict(content) if fingerprint(content) == saved.get("sha256") else None


def _write(path: Path, content: dict[str, object]) -> None:
    """Write a summary where nothing but one of ours is; without it, the next one is made again."""
    from attlas.studies.folder import is_our_summary

    if is_our_summary(path) or not (path.exists() or path.is_symlink()):
        with suppress(AttlasError, OSError):
            write_json(path, content)
