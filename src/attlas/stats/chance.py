"""What would chance give? Random permutations, how many of them, and p-values.

All permutations come from one generator, whatever they are for. How many are drawn depends only on
what one draw costs; it is the same for one text and for a corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attlas.stats.jit import numba
from attlas.support.arrays import Ints

SHUFFLES = 100  # of the scores of a text, for the mean of a metric by chance
TESTS = 1000  # of a table, for a p-value
RUNS = 5  # of the model on perturbed texts
REFITS = 3  # of a classifier
ROUNDING = 1e-12  # two statistics this close are equal


def permutations(n: int, draws: int, seed: int | Sequence[int]) -> Ints:
    """Draw random permutations of the numbers below n: [draw, position].

    Give each text a seed of its own, such as (seed, its number), so that texts of one length do not
    share their permutations.

    >>> permutations(3, 2, seed=0).shape
    (2, 3)
    """
    return shuffled(n, draws, np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def p_value(statistic: float, by_chance: Any) -> float:
    """How often chance reaches a statistic, itself counted as one draw (Phipson and Smyth 2010).

    >>> p_value(0.9, [0.1, 0.95, 0.3])
    0.5
    """
    chance = np.asarray(by_chance, dtype=np.float64)
    return float((1 + (chance >= statistic - ROUNDING).sum()) / (1 + len(chance)))


@numba.njit(nogil=True, cache=True)
def shuffled(n: int, rows: int, seed: np.uint64) -> Ints:
    """Shuffle the numbers below n: [row, position]; a seed gives the same with every numpy.

    Fisher and Yates' shuffle with the generator SplitMix64 (Steele, Lea and Flood 2014), of which
    the upper 32 bits choose.
    """
    out = np.empty((rows, n), dtype=np.int64)
    state = np.uint64(seed)
    for row in range(rows):
        for last in range(n):
            state += np.uint64(0x9E3779B97F4A7C15)
            mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
            other = np.int64(((mixed >> np.uint64(32)) * np.uint64(last + 1)) >> np.uint64(32))
            out[row, last] = out[row, other]
            out[row, other] = last
    return out
