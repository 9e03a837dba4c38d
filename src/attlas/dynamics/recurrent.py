"""Kernels of the LSTM over texts of many lengths, all steps in one call.

Tokens are in the order of `Steps`. Gates are in the order input, forget, output, candidate.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  np.dot calls it: loaded here to limit its threads

from attlas.stats.jit import numba

# tanh x = x P(x²) / Q(x²) in single precision, fitted by least squares of the relative error on
# [0, 8.2]: off by at most 4e-7, and vectorisable
P0, P1, P2, P3, P4, P5 = (
    np.float32(one)
    for one in (
        0.9999999759503226,
        0.12967664573218124,
        0.002973222228583433,
        9.757063323628533e-06,
        -1.4304934121305797e-08,
        2.235552654584148e-11,
    )
)
Q1, Q2, Q3 = (
    np.float32(one) for one in (0.46300976244643416, 0.023976802277225175, 0.0002354184348574054)
)
END, ONE, HALF = np.float32(8.2), np.float32(1), np.float32(0.5)


@numba.njit(cache=True, inline="always")
def _tanh(value):  # type: ignore[no-untyped-def]
    value = END if value > END else value
    value = -END if value < -END else value
    square = value * value
    above = P0 + square * (P1 + square * (P2 + square * (P3 + square * (P4 + square * P5))))
    return value * above / (ONE + square * (Q1 + square * (Q2 + square * Q3)))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _activate(gate, width, single):  # type: ignore[no-untyped-def]
    """Sigmoid of the first three gates and tanh of the last, in place."""
    if single:
        for at in range(3 * width):
            gate[at] = HALF + HALF * _tanh(HALF * gate[at])
        for at in range(3 * width, 4 * width):
            gate[at] = _tanh(gate[at])
    else:
        for at in range(3 * width):
            gate[at] = 1 / (1 + math.exp(-gate[at]))
        for at in range(3 * width, 4 * width):
            gate[at] = math.tanh(gate[at])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def forward(gates, turned, sizes, cells, bent, states):  # type: ignore[no-untyped-def]
    """Compute gates (in place, from their inputs), cells, their tanh (`bent`) and states.

    `turned` is the transposed matrix of states.
    """
    width, single = states.shape[1], states.itemsize == 4
    room = np.empty((sizes[0], 4 * width), dtype=states.dtype)
    before, start = -1, 0
    for step in range(len(sizes)):
        size = sizes[step]
        if before >= 0:
            np.dot(states[before : before + size], turned, out=room[:size])
        for row in range(size):
            gate, cell, bend, state = (
                gates[start + row],
                cells[start + row],
                bent[start + row],
                states[start + row],
            )
            if before >= 0:
                added = room[row]
                for at in range(4 * width):
                    gate[at] += added[at]
            _activate(gate, width, single)
            if before >= 0:
                last = cells[before + row]
                for at in range(width):
                    cell[at] = gate[at] * gate[3 * width + at] + gate[width + at] * last[at]
            else:
                for at in range(width):
                    cell[at] = gate[at] * gate[3 * width + at]
            if single:
                for at in range(width):
                    bend[at] = _tanh(cell[at])
            else:
                for at in range(width):
                    bend[at] = math.tanh(cell[at])
            for at in range(width):
                state[at] = gate[2 * width + at] * bend[at]
        before, start = start, start + size


@numba.njit(cache=True, nogil=True, error_model="numpy")
def backward(grad, gates, cells, bent, by_state, sizes, out):  # type: ignore[no-untyped-def]
    """The gradient of the gates' inputs (`out`) from that of the states, which is changed."""
    width = cells.shape[1]
    carried = np.zeros((sizes[0], width), dtype=cells.dtype)  # of the cell, from the step after
    room = np.empty((sizes[0], width), dtype=cells.dtype)
    stop = len(cells)
    for step in range(len(sizes) - 1, -1, -1):
        size = sizes[step]
        start = stop - size
        before = start - sizes[step - 1] if step else -1
        for row in range(size):
            gate, to, bend, state, by_cell = (
                gates[start + row],
                out[start + row],
                bent[start + row],
                grad[start + row],
                carried[row],
            )
            for at in range(width):
                inlet, forget, outlet, fresh = (
                    gate[at],
                    gate[width + at],
                    gate[2 * width + at],
                    gate[3 * width + at],
                )
                moved = by_cell[at] + state[at] * outlet * (1 - bend[at] * bend[at])
                to[at] = moved * fresh * inlet * (1 - inlet)
                to[2 * width + at] = state[at] * bend[at] * outlet * (1 - outlet)
                to[3 * width + at] = moved * inlet * (1 - fresh * fresh)
                to[width + at] = moved * forget * (1 - forget)
                by_cell[at] = moved * forget
            if before >= 0:
                last = cells[before + row]
                for at in range(width):
                    to[width + at] *= last[at]
            else:
                for at in range(width):
                    to[width + at] = 0
        if before >= 0:
            np.dot(out[start:stop], by_state, out=room[:size])
            for row in range(size):
                onto, part = grad[before + row], room[row]
                for at in range(width):
                    onto[at] += part[at]
        stop = start
