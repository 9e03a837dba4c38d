"""Results that are worked out from studies, written as a study of their own: a manifest and tables, so that they open and report alike."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.files import write_json, writing
from attlas.studies import store
from attlas.studies.opened import Study
from attlas.studies.run import table_kind


def write_derived(folder: Path, manifest: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> Study:
    """Write tables and then the manifest, which says that all is there; `manifest` describes model, corpus and identity as a study's does."""
    beside, place = folder / f"{store.TABLES}.tmp", folder / store.TABLES
    shape = manifest["model"]["n_layers"], manifest["model"]["n_heads"]
    about = {}
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
