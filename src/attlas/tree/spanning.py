"""Spanning: the best dependency tree for scores of heads, with exactly one word attached to ROOT.

In numba, without the GIL, O(n^2). Edmonds' contraction, grown as one path: each component takes its
best head among the other words, a cycle becomes one component, and ROOT is taken only where no word
is left. As every tree with one word on ROOT beats every tree with more, that is the best of them,
and exactly so: no penalty is added to the scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.stats.jit import numba
from attlas.support.errors import MeasureError

Array = npt.NDArray[Any]


def spanning_tree(scores: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Heads of the tree with the largest sum of scores: [candidate, word] -> [word].

    Candidate 0 is ROOT; a word attached to it has the head -1. A score of -inf forbids a head;
    that of a word as its own head does not count.

    >>> no = -np.inf
    >>> spanning_tree([[0.0, 0.0, 1.0], [no, 5.0, 0.0], [6.0, no, 0.0], [1.0, 2.0, no]])
    array([ 1,  2, -1])
    """
    array = np.ascontiguousarray(scores, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] + 1:
        raise MeasureError(
            f"scores have the shape {list(array.shape)}; give [candidate, word], ROOT before the "
            "words"
        )
    if np.isnan(array).any() or (array == np.inf).any():
        raise MeasureError("scores have NaN or +inf; give finite numbers, or -inf to forbid a head")
    heads = _heads(array)
    if (heads == -1).sum() != min(len(heads), 1):
        raise MeasureError(
            "no tree with one word on ROOT is allowed by these scores; too many of them are -inf"
        )
    return heads


@numba.njit(nogil=True, cache=True)
def _heads(scores: Array) -> Array:
    """Heads by word; where no single tree is allowed, not exactly one of them is -1."""
    n = scores.shape[1]
    # component source: what its best edge from there is worth; the last source is ROOT
    gain = np.full((2 * n, n + 1), -np.inf)
    into = np.zeros((2 * n, n + 1), np.int64)  # component source: the word that edge goes to
    source = np.full(2 * n, -2, np.int64)  # component: the head it takes
    member = np.arange(n)  # word -> its component
    above = np.full(2 * n, -1, np.int64)  # component -> the one it was contracted into
    state = np.zeros(2 * n, np.int8)  # component: 1 while on the path, 2 when it is settled
    path, depth, used = np.empty(n + 1, np.int64), 0, n
    for word in range(n):
        gain[word, :n], gain[word, n], into[word] = scores[1:, word], scores[0, word], word
        gain[word, word] = -np.inf
    for word in range(n):
        if state[member[word]] == 2:
            continue
        path[0], depth = member[word], 1
        state[path[0]] = 1
        while depth:
            top = path[depth - 1]
            best = _best(gain[top], member, top)
            source[top] = best
            if best == -2:
                return np.full(n, -2)  # nothing may head it
            if best == n or state[member[best]] == 2:
                for step in range(depth):
                    state[path[step]] = 2
                depth = 0
            elif state[member[best]] == 1:
                depth = _contract(gain, into, source, member, above, path, depth, used)
                state[used] = 1
                used += 1
            else:
                path[depth] = member[best]
                state[member[best]] = 1
                depth += 1
    return _expanded(source, into, above, used, n)


@numba.njit(nogil=True, cache=True)
def _best(gain: Array, member: Array, component: int) -> int:
    """The source of the best edge from outside; ROOT if no other is there, -2 if none is."""
    n = member.shape[0]
    best = -2
    for source in range(n):
        if (
            member[source] != component
            and gain[source] > -np.inf
            and (best < 0 or gain[source] > gain[best])
        ):
            best = source
    return n if best < 0 and gain[n] > -np.inf else best


@numba.njit(nogil=True, cache=True)
def _contract(
    gain: Array,
    into: Array,
    source: Array,
    member: Array,
    above: Array,
    path: Array,
    depth: int,
    new: int,
) -> int:
    """Make the cycle at the end of the path one component; the path's new length."""
    n = member.shape[0]
    first = member[source[path[depth - 1]]]
    while True:
        depth -= 1
        part = path[depth]
        above[part] = new
        lost = gain[part, source[part]]
        for other in range(n + 1):
            if gain[part, other] - lost > gain[new, other]:
                gain[new, other], into[new, other] = gain[part, other] - lost, into[part, other]
        if part == first:
            break
    for word in range(n):
        if above[member[word]] == new:
            member[word] = new
    path[depth] = new
    return depth + 1


@numba.njit(nogil=True, cache=True)
def _expanded(source: Array, into: Array, above: Array, used: int, n: int) -> Array:
    """Heads by word, from the edges that components took.

    What enters a component replaces the edge of the part that it enters.
    """
    entered = np.full(used, -1, np.int64)  # component -> the word by which it is entered
    for component in range(used - 1, -1, -1):
        if entered[component] < 0:
            entered[component] = into[component, source[component]]
        word, part = entered[component], entered[component]
        if part == component:
            continue
        while above[part] != component:
            part = above[part]
        entered[part], source[part] = word, source[component]
    heads = source[:n].copy()
    for word in range(n):
        if heads[word] == n:
            heads[word] = -1
    return heads
