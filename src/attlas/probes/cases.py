"""Cases by kind: how often each of many answers is right, beside baselines, with intervals that know that the cases of a text belong together.

For every kind of case (a relation, a sort of mention) a row of sums over texts is kept: how many cases h, b each answer and each baseline got right in a text
of n cases, their squares and products. That is all that the variance of a share over texts needs, so a corpus of any length takes the same memory and
parts of it add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

from attlas.core.intervals import wilson
from attlas.core.states import Floats, Tally

Bools = npt.NDArray[np.bool_]


def width(answers: int, baselines: int) -> int:
    """How many sums a kind of case has."""
    return 3 + 3 * answers + 3 * baselines + answers * baselines


def add_cases(tally: Tally, kinds: Sequence[str], texts: npt.NDArray[Any], answers: Bools, baselines: Bools) -> None:
    """Add cases: each one's kind and text, and whether each answer and each baseline is right ([case, answer], [case, baseline])."""
    if not len(kinds):
        return
    names, kind = np.unique(np.asarray(kinds, dtype=object), return_inverse=True)
    order = np.lexsort([texts, kind])
    kind, texts = kind[order], np.asarray(texts)[order]
    begins = np.flatnonzero(
        np.r_[True, (kind[1:] != kind[:-1]) | (texts[1:] != texts[:-1])]
    )  # a group: one kind in one text
    n = np.diff(np.r_[begins, len(kind)]).astype(np.float64)
    h = np.add.reduceat(answers[order].astype(np.float64), begins, axis=0)  # group answer
    b = np.add.reduceat(baselines[order].astype(np.float64), begins, axis=0)  # group baseline
    of = kind[begins]
    rows = []
    for number in range(len(names)):
        mine = of == number
        nn, hh, bb = n[mine], h[mine], b[mine]
        rows.append(
            np.concatenate([
                [len(nn), nn.sum(), nn @ nn],
                hh.sum(0), np.square(hh).sum(0), nn @ hh,
                bb.sum(0), np.square(bb).sum(0), nn @ bb,
                (hh.T @ bb).reshape(-1),
            ])
        )  # fmt: skip
    tally.add([str(name) for name in names], np.array(rows))


def sums_frame(tally: Tally, kind: str) -> pd.DataFrame:
    """The sums as a table: a row for each kind of case, its name in the column `kind`."""
    names, sums = tally.table()
    frame = pd.DataFrame(sums, columns=[f"s{number}" for number in range(tally.width)])
    frame.insert(0, kind, names)
    return frame


def shares_of(frame: pd.DataFrame, kind: str, answers: int, baselines: int) -> dict[str, Shares]:
    """The sums of a table, read."""
    sums: Floats = frame.drop(columns=kind).to_numpy(dtype=np.float64)
    return {str(name): Shares(row, answers, baselines) for name, row in zip(frame[kind], sums, strict=True)}


@dataclass(frozen=True)
class Shares:
    """The sums of one kind of case, read: shares that are right with their 95 % intervals."""

    sums: Floats
    n_answers: int
    n_baselines: int

    @classmethod
    def of(cls, right: npt.NDArray[Any], others: npt.NDArray[Any], cases: npt.NDArray[Any]) -> Shares:
        """One answer beside one other, from how many cases each got right in every text: [text] each."""
        h, b, n = (np.asarray(part, dtype=np.float64) for part in (right, others, cases))
        there = n > 0
        h, b, n = h[there], b[there], n[there]
        return cls(np.array([len(n), n.sum(), n @ n, h.sum(), h @ h, h @ n, b.sum(), b @ b, b @ n, h @ b]), 1, 1)

    @property
    def texts(self) -> int:
        return int(self.sums[0])

    @property
    def cases(self) -> int:
        return int(self.sums[1])

    def _three(self, first: int, size: int) -> list[Floats]:
        return [self.sums[first + part * size : first + (part + 1) * size] for part in range(3)]

    @property
    def answers(self) -> Floats:
        """The share of cases that each answer gets right."""
        return self._three(3, self.n_answers)[0] / self.sums[1]

    @property
    def baselines(self) -> Floats:
        """The share of cases that each baseline gets right."""
        return self._three(3 + 3 * self.n_answers, self.n_baselines)[0] / self.sums[1]

    def interval(self, answer: int) -> tuple[float, float]:
        """The 95 % interval of an answer's share."""
        return self._interval(*(float(part[answer]) for part in self._three(3, self.n_answers)))

    def baseline_interval(self, baseline: int) -> tuple[float, float]:
        """The 95 % interval of a baseline's share."""
        parts = self._three(3 + 3 * self.n_answers, self.n_baselines)
        return self._interval(*(float(part[baseline]) for part in parts))

    def _interval(self, right: float, squares: float, with_n: float) -> tuple[float, float]:
        """Wilson's, with as many cases as would vary so much if they were independent; no more than texts if all or none are right, where nothing is seen to vary."""
        texts, n, nn = self.sums[:3]
        share = right / n
        spread = self._spread(squares, with_n, share, nn, texts) / n**2
        alone = share * (1 - share) / n  # if all cases were independent
        return wilson(share, float(n / max(1.0, spread / alone)) if alone > 0 else float(texts), quantile(int(texts)))

    def difference(self, answer: int, baseline: int) -> tuple[float, float, float]:
        """By how much an answer is right more often than a baseline on the same cases, and its 95 % interval."""
        texts, n, nn = self.sums[:3]
        h, hh, hn = (float(part[answer]) for part in self._three(3, self.n_answers))
        b, bb, bn = (float(part[baseline]) for part in self._three(3 + 3 * self.n_answers, self.n_baselines))
        hb = float(self.sums[3 + 3 * (self.n_answers + self.n_baselines) + answer * self.n_baselines + baseline])
        gap = (h - b) / n
        if texts < 2:
            return float(gap), -1.0, 1.0
        z = quantile(int(texts))
        size = (abs(gap) * n + z * z / 2) / (
            n + z * z
        )  # no surer than so many independent cases could be, also where all texts agree
        spread = self._spread(hh - 2 * hb + bb, hn - bn, gap, nn, texts) / n**2
        half = z * float(np.sqrt(max(spread, size * (1 - size) / n)))
        return float(gap), float(max(-1.0, gap - half)), float(min(1.0, gap + half))

    @staticmethod
    def _spread(squares: float, with_n: float, share: float, nn: float, texts: float) -> float:
        """The sum over texts of (right - share x cases) squared, for a sample of texts."""
        return max(0.0, squares - 2 * share * with_n + share**2 * nn) * texts / max(1.0, texts - 1)


@cache
def quantile(texts: int) -> float:
    """How many standard errors a 95 % interval goes to each side, by Student's t over so many texts.

    >>> round(quantile(10), 2), round(quantile(1000), 2)
    (2.26, 1.96)
    """
    return float(student.ppf(0.975, max(1, texts - 1)))
