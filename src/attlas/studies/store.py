"""How tables and the states of shards are written and read."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save

from attlas.studies.folder import QUARANTINE, States
from attlas.support.arrays import Array
from attlas.support.files import atomic_write, write_bytes, write_errors, write_json


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
    with write_errors(path):
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


def write_quarantine(folder: Path, rows: Iterable[Mapping[str, Any]], before: bytes = b"") -> None:
    """Write the rows that were excluded, each with its reason, as lines of JSON, after others."""
    with atomic_write(folder / QUARANTINE) as file:
        file.write(before)
        for row in rows:
            line = json.dumps(row, ensure_ascii=False) + "\n"
            file.write(line.encode("utf-8", "backslashreplace"))


class ShardStore:
    """The results of finished shards: records, states of measures, rows of streamed tables."""

    def __init__(self, states: States) -> None:
        self.states = states
        self.folders: dict[int, Path] = {}

    def find(self, index: int, key: str) -> bool:
        """Whether a shard was finished by an earlier run and is whole."""
        folder = self.states.find(key)
        if folder is not None:
            self.folders[index] = folder
        return folder is not None

    def write(
        self,
        index: int,
        key: str,
        record: Mapping[str, Any],
        arrays: Mapping[str, Array],
        rows: Mapping[str, pd.DataFrame],
    ) -> None:
        """Write the results of a shard under the fingerprint of its inputs."""
        with self.states.make(key, shard=index) as folder:
            state = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            write_bytes(folder / "state.safetensors", state)
            for name, frame in rows.items():
                if len(frame):
                    write_parquet(folder / f"{name}.parquet", [arrow(frame)])
            write_json(folder / "record.json", record)
        self.folders[index] = self.states.folder / key
        _release_memory()

    def record(self, index: int) -> dict[str, Any]:
        return json.loads((self.folders[index] / "record.json").read_text())

    def arrays(self, index: int) -> dict[str, Array]:
        return load_file(self.folders[index] / "state.safetensors")

    def parts(self, count: int, table: str) -> Iterator[pa.Table]:
        """The rows of a streamed table, shard by shard."""
        for index in range(count):
            path = self.folders[index] / f"{table}.parquet"
            if path.is_file():
                with pq.ParquetFile(path) as file:
                    yield file.read()

    def tables(self, count: int) -> list[str]:
        """The streamed tables that any shard has rows of."""
        return sorted(
            {path.stem for index in range(count) for path in self.folders[index].glob("*.parquet")}
        )


def _release_memory() -> None:
    """Return free memory to the system, so that a long study takes no more than a short one."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; other libraries have none
        if trim is not None:
            trim(0)
