"""What a command names: inputs by the bytes of their files, options by their values.

A finished result that was made from the same is opened without loading a model or parsing a corpus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attlas.studies.folder import COMPLETE, FORMAT, SOURCE, Folder, read_manifest
from attlas.studies.opened import Study
from attlas.support.fingerprint import File, fingerprint, source_digest

STUDY = "study"  # the kind of a result folder
COMMAND = "command"  # there: all inputs and options that the command line named
OPENED_FROM = "opened_from"  # in a manifest: each input by its files, and how they are opened
Named = Mapping[str, str]  # input -> fingerprint


def named_files(
    value: Any, files: Sequence[Path], how: Mapping[str, Any], is_model: bool = False
) -> str:
    """An input that is made of local files: their bytes, and how they are opened.

    The name counts where it is all there is, and that of a corpus where ids are made of it.
    """
    named = str(value) if not files or str(value).startswith("embedded:") else None
    content = [(None if is_model else path.name, File(path)) for path in files]
    return fingerprint((named, content, how))


def finished_study(folder: Path, named: Named) -> Study | None:
    """The finished study of the same files and options; None if it has to be made."""
    return finished_result(folder, STUDY, named, source_digest())


def finished_result(folder: Path, kind: str, named: Named, source: str) -> Study | None:
    """The finished result of a kind that was opened from all that is named, by the same code."""
    manifest = read_manifest(folder)
    if manifest is None or manifest["attlas"] < FORMAT or manifest["status"] != COMPLETE:
        return None
    if manifest["kind"] != kind or OPENED_FROM not in manifest:
        return None
    if not named.items() <= manifest[OPENED_FROM].items():
        return None
    if manifest["identity"].get(SOURCE) != source:
        return None
    Folder(folder, kind).check_files(manifest)
    return Study(folder, manifest)
