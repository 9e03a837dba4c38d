"""Fingerprints of numpy's arrays and pandas' frames: dtype, shape and every value."""

from __future__ import annotations

import numpy as np
import pandas as pd

from attlas.support.arrays import Array
from attlas.support.fingerprint import Put, feed, framed


def feed_array(values: Array, put: Put) -> None:
    """Write dtype, shape and bytes of an array; objects one by one."""
    feed(("array", values.dtype.str, values.shape), put)
    if values.dtype.hasobject:
        feed(values.ravel().tolist(), put)
    else:
        framed(put, b"a", np.ascontiguousarray(values).tobytes())


feed.register(np.ndarray, feed_array)


@feed.register
def _(thing: np.generic, put: Put) -> None:
    feed(thing.item(), put)  # np.int64(1) and 1 are one value


@feed.register
def _(thing: pd.Series, put: Put) -> None:
    feed(("series", thing.name, str(thing.dtype)), put)
    feed(thing.index.tolist(), put)
    _feed_column(thing, put)


@feed.register
def _(thing: pd.DataFrame, put: Put) -> None:
    feed(("frame", list(thing.columns), [str(kind) for kind in thing.dtypes]), put)
    feed(thing.index.tolist(), put)
    for column in range(thing.shape[1]):
        _feed_column(thing.iloc[:, column], put)


def _feed_column(column: pd.Series, put: Put) -> None:
    """Missing values of every kind are one: NaN, NA, NaT and None."""
    values = column.to_numpy()
    if values.dtype.kind in "iufbc":
        feed_array(values, put)
    else:
        pairs = zip(column.tolist(), column.isna(), strict=True)
        feed([None if missing else value for value, missing in pairs], put)


@feed.register
def _(thing: pd.Timestamp, put: Put) -> None:
    framed(put, b"Timestamp", thing.isoformat().encode())
