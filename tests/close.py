"""How far two float32 results may be apart when only the order and the grouping of their sums
differ.

Another CPU, another number of threads or another library adds the same terms in another order. A
tolerance in a test follows from that,
never from what one machine gave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

EPSILON = float(np.finfo(np.float32).eps)  # from 1 to the next float32
DEVIATIONS = 2.0
"""One rounding is off by at most half an epsilon, evenly spread: a standard deviation of 0.29.
Errors of n roundings add up like a random walk, to sqrt(n) times that; both results have them,
which makes 0.41; and the largest of a million entries is five standard deviations off, which makes
2."""


def bound(magnitude: float, terms: float) -> float:
    """The largest difference between two sums of so many float32 terms whose partial sums are at
    most `magnitude`.
    """
    return DEVIATIONS * EPSILON * magnitude * math.sqrt(terms)


def terms_of(network: nn.Module) -> int:
    """The terms summed one after another in a pass through a network: the inputs of all its linear
    maps.
    """
    linear = [module for module in network.modules() if isinstance(module, nn.Linear | Conv1D)]
    return sum(
        module.in_features if isinstance(module, nn.Linear) else module.nx for module in linear
    )


def close(
    actual: Any, expected: Any, terms: float, magnitude: float | None = None, name: str = ""
) -> None:
    """Assert that float32 results are equal up to the rounding of so many terms.

    `magnitude` is the largest absolute value of what was summed; if not given, of what is compared.
    Give it where terms cancel: the
    difference of two entropies is as inexact as the entropies. NaN equals NaN, an infinity itself.
    """
    left, right = _array(actual), _array(expected)
    assert left.shape == right.shape or not right.shape, (
        f"{name or 'shape'}: {left.shape}, expected {right.shape}"
    )
    right = np.broadcast_to(right, left.shape)
    finite = np.isfinite(left) & np.isfinite(right)
    if magnitude is None:
        magnitude = float(
            max(np.abs(left[finite]).max(initial=0), np.abs(right[finite]).max(initial=0))
        )
    allowed = bound(magnitude, terms)
    with np.errstate(invalid="ignore"):
        apart = np.where(finite, np.abs(left - right), np.where(_same(left, right), 0, np.inf))
    if apart.max(initial=0) <= allowed:
        return
    place = np.unravel_index(int(apart.argmax()), apart.shape)
    raise AssertionError(
        f"{name + ': ' if name else ''}{left[place]:.9g} at {tuple(map(int, place))}, "
        f"expected {right[place]:.9g}: off by {apart[place]:.3g}, "
        f"allowed {allowed:.3g} ({DEVIATIONS:g} x {EPSILON:.3g} x magnitude {magnitude:.3g} "
        f"x sqrt({terms:g} terms)); "
        f"{int((apart > allowed).sum())} of {apart.size} entries are off by more"
    )


def close_tables(
    actual: pd.DataFrame,
    expected: pd.DataFrame,
    terms: float,
    magnitudes: Mapping[str, float] | None = None,
) -> None:
    """Assert that two tables have the same columns and rows: floating numbers `close`, each column
    by its own magnitude, all else equal.
    """
    numbers = list(expected.select_dtypes("floating").columns)
    pd.testing.assert_frame_equal(actual.drop(columns=numbers), expected.drop(columns=numbers))
    assert list(actual.columns) == list(expected.columns)
    for name in numbers:
        close(actual[name], expected[name], terms, (magnitudes or {}).get(name), name)


def _array(values: Any) -> npt.NDArray[np.float64]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)


def _same(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    return (left == right) | (np.isnan(left) & np.isnan(right))
