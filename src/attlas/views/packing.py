"""Arrays inside a page: typed, compressed, in letters. packing.js reads them."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating[Any]]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"  # small numbers
TYPES = {"u1": "<u1", "u2": "<u2", "i4": "<i4", "f4": "<f4"}
STEPS = 65_535  # of the root of a share
FAINTEST = 1e-6  # a weight that has a code of its own
LOG_STEPS = 254
LOG_ERROR = float(np.expm1(-np.log(FAINTEST) / LOG_STEPS / 2))  # relative, of a weight


def deflated(content: bytes) -> str:
    """Bytes, compressed, in letters; the same letters every time."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def packed(values: Array, kind: str) -> dict[str, Any]:
    """An array as JSON: its type, and its bytes.

    >>> unpacked(packed(np.array([[1, 300]]), "u2"))
    array([  1, 300], dtype=uint16)
    """
    rows = np.ascontiguousarray(values, dtype=TYPES[kind])
    planes = (
        rows.reshape(-1).view(np.uint8).reshape(-1, rows.itemsize).T
    )  # bytes of a kind together
    return {"type": kind, "bytes": deflated(planes.tobytes())}


def unpacked(packed: dict[str, Any]) -> Array:
    """The array of JSON, without its shape."""
    kind = np.dtype(TYPES[packed["type"]])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["bytes"])), dtype=np.uint8)
    return np.ascontiguousarray(planes.reshape(kind.itemsize, -1).T).view(kind).reshape(-1)


def roots(values: Floats) -> dict[str, Any]:
    """Numbers of 0 and more, [row, column], as the root of their share of the row's largest.

    >>> codes = roots(np.array([[0.0, 0.5, 2.0]]))
    >>> unpacked(codes["codes"]), codes["scales"]
    (array([    0, 32768, 65535], dtype=uint16), [2.0])
    """
    top = values.max(axis=1, initial=0.0).astype(np.float64)
    share = np.clip(values / np.where(top > 0, top, 1)[:, None], 0, 1)
    codes = np.rint(np.sqrt(share) * STEPS)
    return {"codes": packed(codes, "u2"), "scales": [float(f"{value:.6g}") for value in top]}


def logs(weights: Floats) -> dict[str, Any]:
    """Weights from 0 to 1 as logarithms: 0 is none; each is rounded by at most LOG_ERROR.

    >>> unpacked(logs(np.array([0.0, 1e-6, 1.0])))
    array([  0,   1, 255], dtype=uint8)
    """
    sizes = np.log(np.maximum(weights, FAINTEST)) / np.log(FAINTEST)  # 1 at the faintest
    codes = 1 + np.rint((1 - sizes) * LOG_STEPS)
    return packed(np.where(weights < FAINTEST / 2, 0, np.minimum(codes, 255)), "u1")
