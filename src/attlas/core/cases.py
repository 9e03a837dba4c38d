"""Sums over texts of how often answers and baselines are right, by kind of case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from attlas.core.states import Rows, Tally
from attlas.support.arrays import Array, Bools


def width(answers: int, baselines: int) -> int:
    """How many sums a kind of case has."""
    return 3 + 3 * answers + 3 * baselines + answers * baselines


def add_cases(
    tally: Tally, kinds: Sequence[str], texts: Array, answers: Bools, baselines: Bools
) -> None:
    """Add cases with their kinds and texts, [case, answer] and [case, baseline] true if right."""
    if not len(kinds):
        return
    names, kind = np.unique(np.asarray(kinds, dtype=object), return_inverse=True)
    order = np.lexsort([texts, kind])
    kind, texts = kind[order], np.asarray(texts)[order]
    # a group: one kind in one text
    begins = np.flatnonzero(np.r_[True, (kind[1:] != kind[:-1]) | (texts[1:] != texts[:-1])])
    n = np.diff(np.r_[begins, len(kind)]).astype(np.float64)
    h = np.add.reduceat(answers[order].astype(np.float64), begins, axis=0)  # group answer
    b = np.add.reduceat(baselines[order].astype(np.float64), begins, axis=0)  # group baseline
    of = kind[begins]
    rows = []
    for number in range(len(names)):
        mine = of == number
        nn, hh, bb = n[mine], h[mine], b[mine]
        rows.append(
            np.concatenate(
                [
                    [len(nn), nn.sum(), nn @ nn],
                    hh.sum(0),
                    np.square(hh).sum(0),
                    nn @ hh,
                    bb.sum(0),
                    np.square(bb).sum(0),
                    nn @ bb,
                    (hh.T @ bb).reshape(-1),
                ]
            )
        )
    tally.add([str(name) for name in names], np.array(rows))


def add_followed(
    rows: Rows, followed: Mapping[str, int], kinds: Sequence[str], texts: Array, answers: Bools
) -> None:
    """Add a row per text and kind: its cases, and how many the answer of this kind got right.

    Rows of two passes over the same texts are paired; sums over texts are not.
    """
    counts: dict[tuple[int, str], list[int]] = {}
    for case, (text, kind) in enumerate(zip(np.asarray(texts).tolist(), kinds, strict=True)):
        if kind in followed:
            one = counts.setdefault((text, kind), [0, 0])
            one[0] += int(answers[case, followed[kind]])
            one[1] += 1
    if counts:
        right, cases = np.array(list(counts.values())).T
        columns = {"kind": np.array([kind for _, kind in counts], dtype=object)}
        of = np.array([text for text, _ in counts])
        rows.add(of, {"of": of, **columns, "right": right, "cases": cases})


def sums_frame(tally: Tally, kind: str) -> pd.DataFrame:
    """The sums as a table: a row for each kind of case, its name in the column `kind`."""
    names, sums = tally.table()
    frame = pd.DataFrame(sums, columns=[f"s{number}" for number in range(tally.width)])
    frame.insert(0, kind, names)
    return frame
