"""Ways to damage a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def removed(path: Path) -> None:
    path.unlink()


def flipped(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def changed(path: Path) -> None:
    """Change the numbers (in tables and arrays, those with a fraction); the file stays valid."""
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        numbers = frame.select_dtypes("floating").columns
        frame[numbers] += 1
        frame.to_parquet(path, index=False)
    elif path.suffix == ".safetensors":
        save_file(_more(load_file(path)), path)
    elif path.suffix == ".npz":
        with np.load(path) as arrays:
            more = _more(arrays)
        np.savez(path, **more)
    elif path.suffix == ".f16":
        path.write_bytes(np.frombuffer(path.read_bytes(), np.float16)[::-1].tobytes())
    else:
        path.write_text(json.dumps(_plus_one(json.loads(path.read_text()))))


def _more(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: one + 1 if one.dtype.kind == "f" else one for name, one in arrays.items()}


def _plus_one(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plus_one(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plus_one(one) for one in value]
    return value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value


DAMAGE: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (emptied, cut, removed, flipped, changed)
}
