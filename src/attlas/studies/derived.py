"""Results that are worked out from studies, written as a study of their own: a manifest, tables and a result, so that they open, resume and report alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from attlas.core.files import claimed, write_json, writing
from attlas.studies import store
from attlas.studies.opened import Study
from attlas.studies.run import table_kind

RESULT = "result.json"


@dataclass(frozen=True)
class Experiment:
    """A finished experiment: `result` is what the command prints with --json, `study` its tables, manifest and report."""

    study: Study
    result: dict[str, Any]


E = TypeVar("E", bound=Experiment)


def remembered(folder: Path, identity: Mapping[str, Any], fresh: bool, kind: type[E], run: Callable[[], E]) -> E:
    """The experiment that a folder holds, or `run`, if it holds none that is complete; another one, or a study, is refused, or thrown away if `fresh`."""
    with writing(folder):
        manifest = store.read_manifest(folder)
    if manifest is not None and not fresh:
        begun = manifest["status"] != "complete" and manifest["identity"].get("kind") == identity["kind"]
        if not begun:  # what was only begun has no claim on the folder; what it read is found by its content
            store.same_study(folder, manifest["identity"], dict(identity))
        there = (folder / RESULT).is_file() and (folder / store.TABLES).is_dir()
        if manifest["status"] == "complete" and there:
            return kind(Study.open(folder), json.loads((folder / RESULT).read_text()))
    with claimed(folder):
        write_json(folder / store.MANIFEST, {"status": "running", "identity": identity})
        return run()


def write_derived(
    folder: Path,
    manifest: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
    result: Mapping[str, Any] | None = None,
) -> Study:
    """Write the result, if there is one, and tables, and then the manifest, which says that all is there; `manifest` describes model, corpus and identity as a study's does."""
    beside, place = folder / f"{store.TABLES}.tmp", folder / store.TABLES
    shape = manifest["model"]["n_layers"], manifest["model"]["n_heads"]
    about = {}
    if result is not None:
        write_json(folder / RESULT, result)
    with writing(place):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for name, frame in frames.items():
            rows = store.write_parquet(beside / f"{name}.parquet", [store.arrow(frame)])
            about[name] = {"rows": rows, "kind": table_kind(frame, *shape)}
        shutil.rmtree(place, ignore_errors=True)
        beside.rename(place)
    write_json(folder / store.MANIFEST, {"status": "complete", **manifest, "tables": about})
    return Study.open(folder)


def plain(value: Any, null: bool = False) -> Any:
    """Numbers as JSON has them, in mappings and lists; with `null`, what is not a number is None.

    >>> plain({"a": (np.float64(0.5), np.int64(2))}), plain([float("nan")], null=True)
    ({'a': [0.5, 2]}, [None])
    """
    if isinstance(value, Mapping):
        return {str(name): plain(one, null) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, null) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if null and isinstance(value, float) and value != value else value


def named_source(train: Any, test: Any) -> str:
    """What a corpus is called in a manifest."""
    source = train if test is None else test
    named = str(getattr(source, "name", source if isinstance(source, str | Path) else "texts"))
    return named if named.startswith(("embedded:", "synthetic")) else Path(named).name
