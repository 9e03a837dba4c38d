"""Values that are costly to compute, kept under the fingerprint of what they were made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.studies.folder import States
from attlas.support.errors import StudyError
from attlas.support.files import write_json

VALUE, ARRAYS, FRAME, FRAMES = "value.json", "arrays.npz", "frame.parquet", "frame-{}.parquet"
MARK = "array "  # before the names of arrays, some of which numpy would take for options


class Cache:
    """Entries in a folder, each with a checksum of every file: a damaged one is made again.

    Several processes may share a folder: entries appear whole, by one rename.
    """

    def __init__(self, folder: Path) -> None:
        self.entries = States(folder)

    def find(self, key: str) -> Any:
        """The value under a key; `MISSING` if there is none or it is damaged."""
        folder = self.entries.find(key)
        return MISSING if folder is None else read_value(folder)

    def keep(self, key: str, value: Any) -> Any:
        """Keep a value under a key; returns it as it will be read again."""
        with self.entries.make(key) as folder:
            write_value(folder, value)
            return read_value(folder)


MISSING = object()


def write_value(folder: Path, value: Any) -> None:
    """Write a frame, frames or arrays by name, or a plain value into a folder."""
    if isinstance(value, pd.DataFrame):
        value.to_parquet(folder / FRAME)
    elif isinstance(value, Mapping) and value and _are_frames(value):
        for name, frame in value.items():
            frame.to_parquet(folder / FRAMES.format(name))
    elif isinstance(value, Mapping) and value and _are_arrays(value):
        np.savez(folder / ARRAYS, **{f"{MARK}{name}": one for name, one in value.items()})
    else:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise StudyError(
                f"a {type(value).__name__} cannot be cached ({error}); return a DataFrame, a "
                "mapping of DataFrames or of arrays, or plain JSON"
            ) from error
        write_json(folder / VALUE, {"value": value})


def read_value(folder: Path) -> Any:
    """Read what `write_value` wrote; frames by name come in the order of their names."""
    if (folder / FRAME).is_file():
        return pd.read_parquet(folder / FRAME)
    before, after = FRAMES.split("{}")
    frames = sorted(folder.glob(FRAMES.format("*")))
    if frames:
        return {
            path.name.removeprefix(before).removesuffix(after): pd.read_parquet(path)
            for path in frames
        }
    if (folder / ARRAYS).is_file():
        with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
            return {name.removeprefix(MARK): arrays[name] for name in arrays.files}
    return json.loads((folder / VALUE).read_bytes())["value"]


def _are_frames(value: Mapping[str, Any]) -> bool:
    return all(isinstance(one, pd.DataFrame) and name.isidentifier() for name, one in value.items())


def _are_arrays(value: Mapping[str, Any]) -> bool:
    return all(isinstance(one, np.ndarray) and not one.dtype.hasobject for one in value.values())
