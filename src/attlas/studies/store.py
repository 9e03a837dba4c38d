"""The files of a study: every one is written beside its place and then moved there, so that none is ever half written."""

from __future__ import annotations

import ctypes
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save

from attlas.core.errors import StudyError
from attlas.core.files import LOCK, write_bytes, write_json, writing

Array = npt.NDArray[Any]

MANIFEST, TABLES, STATES, QUARANTINE, REPORT = (
    "manifest.json",
    "tables",
    "states",
    "quarantine.jsonl",
    "report.html",
)
IMPORTANCE = "importance"  # a study of its own, made first where explanations need it
OWN = (MANIFEST, TABLES, STATES, QUARANTINE, LOCK, REPORT, IMPORTANCE)


def arrow(frame: pd.DataFrame) -> pa.Table:
    """A frame as an Arrow table whose column types do not depend on the values in it."""
    columns = {}
    for name in frame.columns:
        values = frame[name].to_numpy()
        columns[str(name)] = (
            pa.array(values, from_pandas=True)
            if values.dtype.kind in "iufb"
            else pa.array(values.astype(object), pa.string(), from_pandas=True)
        )
    return pa.table(columns)


def write_parquet(path: Path, parts: Iterable[pa.Table]) -> int:
    """Write a table from its parts, one after the other; how many rows it has."""
    writer, rows = None, 0
    with writing(path):
        try:
            for part in parts:
                if writer is None:
                    writer = pq.ParquetWriter(path, part.schema, compression="zstd")
                writer.write_table(part, row_group_size=max(1, part.num_rows))
                rows += part.num_rows
        finally:
            if writer is not None:
                writer.close()
    return rows


class ShardStore:
    """The results of finished shards: DIR/states/00012/ with a record, the states of all measures and the rows of streamed tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, index: int) -> Path:
        return self.folder / f"{index:06d}"

    def has(self, index: int) -> bool:
        return self.place(index).is_dir()

    def clear_unfinished(self) -> None:
        """Remove what a run that was stopped left half done."""
        for path in self.folder.glob("*.tmp"):
            shutil.rmtree(path)

    def write(
        self, index: int, record: Mapping[str, Any], arrays: Mapping[str, Array], rows: Mapping[str, pd.DataFrame]
    ) -> None:
        """Write a shard's folder beside its place, then move it there."""
        place = self.place(index)
        beside = place.with_name(f"{place.name}.tmp")
        with writing(place):
            try:
                shutil.rmtree(beside, ignore_errors=True)
                beside.mkdir(parents=True)
                write_bytes(
                    beside / "state.safetensors",
                    save({name: np.ascontiguousarray(array) for name, array in arrays.items()}),
                )
                for name, frame in rows.items():
                    if len(frame):
                        write_parquet(beside / f"{name}.parquet", [arrow(frame)])
                write_json(beside / "record.json", record)
                beside.rename(place)
            except BaseException:
                shutil.rmtree(beside, ignore_errors=True)
                raise

        _give_back()

    def record(self, index: int) -> dict[str, Any]:
        return json.loads((self.place(index) / "record.json").read_text())

    def arrays(self, index: int) -> dict[str, Array]:
        return load_file(self.place(index) / "state.safetensors")

    def parts(self, count: int, table: str) -> Iterator[pa.Table]:
        """The rows of a streamed table, shard by shard."""
        for index in range(count):
            path = self.place(index) / f"{table}.parquet"
            if path.is_file():
                with pq.ParquetFile(path) as file:
                    yield file.read()

    def tables(self, count: int) -> list[str]:
        """The streamed tables that any shard has rows of."""
        return sorted({path.stem for index in range(count) for path in self.place(index).glob("*.parquet")})


def _give_back() -> None:
    """Give memory that is free but still held back to the system, so that a long study stays as small as a short one."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; other libraries have none
        if trim is not None:
            trim(0)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a study folder; None where there is no folder or an empty one."""
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"{folder} is a file; give a folder for the study")
    path = folder / MANIFEST
    if path.is_file():
        try:
            manifest = json.loads(path.read_text())
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or "status" not in manifest or "identity" not in manifest:
            raise StudyError(f"{path} is not the manifest of a study; choose another folder")
        return manifest
    if folder.is_dir() and any(entry.name.removesuffix(".tmp") not in OWN for entry in folder.iterdir()):
        raise StudyError(f"{folder} is not empty and holds no study; choose another folder")
    return None


def same_study(folder: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Refuse to write over another study."""
    differ = [name for name in ours if theirs.get(name) != ours[name]]
    if differ:
        raise StudyError(
            f"{folder} belongs to another study (its {', '.join(differ)} differ); choose another folder, or pass fresh=True (--fresh) to throw it away"
        )


def clear(folder: Path) -> None:
    """Remove a study's own files and nothing else."""
    for name in (
        MANIFEST,
        QUARANTINE,
        f"{MANIFEST}.tmp",
        f"{QUARANTINE}.tmp",
    ):  # the manifest first: without it nothing is a study
        (folder / name).unlink(missing_ok=True)
    for name in (TABLES, STATES, f"{TABLES}.tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)
