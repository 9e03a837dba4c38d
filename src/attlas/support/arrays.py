"""Types of arrays, named once; at run time they are `Any`, because `--help` imports no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]  # numbers or strings of any type
    Floats = npt.NDArray[np.float64]
    Floats32 = npt.NDArray[np.float32]
    AnyFloats = npt.NDArray[np.floating[Any]]
    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]
    Strings = npt.NDArray[np.str_]
else:
    Array = Floats = Floats32 = AnyFloats = Ints = Bools = Strings = Any
