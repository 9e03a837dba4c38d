"""Results that are worked out from studies, written as a study of their own: a manifest, tables and a result, so that they open, resume and report alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from attlas.studies.folder import RESULT, TABLES, Folder
from attlas.studies.opened import Study
from attlas.studies.run import table_kind
from attlas.studies.store import arrow, write_parquet
from attlas.support.files import write_errors, write_json
from attlas.support.json import to_json


@dataclass(frozen=True)
class Experiment:
    """A finished experiment: `result` is what the command prints with --json, `study` its tables, manifest and report."""

    study: Study
    result: dict[str, Any]


E = TypeVar("E", bound=Experiment)
Write = Callable[
    [Path], object
]  # writes further result files into a folder, under the names they shall have


def found_or_run(
    place: Folder,
    identity: Mapping[str, str],
    fresh: bool,
    kind: type[E],
    run: Callable[[], E],
    details: Mapping[str, Mapping[str, str]] | None = None,
) -> E:
    """The experiment that a folder holds if it was made from the same inputs and is complete, else what `run` makes and writes there."""
    with place.claim(identity, fresh, details) as found:
        if found is not None:
            return kind(Study(place.path, found), place.result(found))
        return run()


def write_derived(
    place: Folder,
    manifest: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
    result: Mapping[str, Any] | None = None,
    write: Write = lambda stage: None,
) -> Study:
    """Write tables, the result if there is one, and what `write` writes, then say that all is there; `manifest` describes model and corpus as a study's does."""
    shape = manifest["model"]["n_layers"], manifest["model"]["n_heads"]
    about = {}
    with place.staging() as stage, write_errors(place.path):
        (stage / TABLES).mkdir()
        for name, frame in frames.items():
            rows = write_parquet(stage / TABLES / f"{name}.parquet", [arrow(frame)])
            about[name] = {"rows": rows, "kind": table_kind(frame, *shape)}
        if result is not None:
            write_json(stage / RESULT, to_json(result))
        write(stage)
        place.publish(stage, {**manifest, "tables": about})
    return Study.open(place.path)


def named_source(train: Any, test: Any) -> str:
    """What a corpus is called in a manifest."""
    source = train if test is None else test
    named = str(getattr(source, "name", source if isinstance(source, str | Path) else "texts"))
    return named if named.startswith(("embedded:", "synthetic")) else Path(named).name
