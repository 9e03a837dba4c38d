"""How often is a text drawn in each bootstrap replicate, and to which half of the texts does it go?

Both follow from the text's id and content alone. A text is therefore drawn equally often in every
study, shard and batch: replicates of parts add up, and those of two models on one corpus are
paired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from attlas.core.text import Text
from attlas.support.arrays import Floats, Ints
from attlas.support.fingerprint import random_bytes

REPLICATES = 200
_BITS = 32  # of a random number
_MOST = 12  # draws of one text; more have a probability below 1e-10
_SHARES = accumulate(math.exp(-1) / math.factorial(draws) for draws in range(_MOST))
_BOUNDS = np.array([round(share * 2**_BITS) for share in _SHARES], dtype=np.int64)


class Draws(NamedTuple):
    """What the texts of a batch are drawn for."""

    weights: Floats  # text replicate: how often, Poisson(1)
    half: Ints  # text: 0 or 1


def draws(texts: Sequence[Text]) -> Draws:
    """How often each text is drawn in each replicate, and its half.

    >>> one = draws([Text("0", "A cat sat.")])
    >>> one.weights[0, :8].astype(int).tolist(), one.half.tolist()
    ([1, 1, 0, 0, 1, 1, 1, 0], [0])
    """
    content = b"".join(map(_random_bytes, texts))
    random = np.frombuffer(content, dtype="<u4").astype(np.int64)
    random = random.reshape(len(texts), REPLICATES + 1)  # the last one is for the half
    return Draws(poisson(random[:, :-1]), random[:, -1] & 1)


def poisson(random: Ints) -> Floats:
    """Random numbers of 32 bits as numbers with a Poisson distribution of mean 1.

    >>> poisson(np.array([0, 2**31, 2**32 - 1]))
    array([ 0.,  1., 12.])
    """
    return np.searchsorted(_BOUNDS, random, side="right").astype(np.float64)


def _random_bytes(text: Text) -> bytes:
    """Random numbers that depend on the text alone: one per replicate, and one more."""
    return random_bytes((text.id, text.text), (REPLICATES + 1) * _BITS // 8)
