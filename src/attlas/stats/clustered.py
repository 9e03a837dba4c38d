"""Cases by kind: how often each of many answers is right, beside baselines, with intervals that know that the cases of a text belong together.

For every kind of case (a relation, a sort of mention) a row of sums over texts is kept: how many cases h, b each answer and each baseline got right in a text
of n cases, their squares and products. That is all that the variance of a share over texts needs, so a corpus of any length takes the same memory and
parts of it add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.stats.intervals import student, wilson

Floats = npt.NDArray[np.float64]


def shares_of(frame: pd.DataFrame, kind: str, answers: int, baselines: int) -> dict[str, Shares]:
    """The sums of a table, read."""
    sums: Floats = frame.drop(columns=kind).to_numpy(dtype=np.float64)
    return {
        str(name): Shares(row, answers, baselines)
        for name, row in zip(frame[kind], sums, strict=True)
    }


@dataclass(frozen=True)
class Shares:
    """The sums of one kind of case, read: shares that are right with their 95 % intervals."""

    sums: Floats
    n_answers: int
    n_baselines: int

    @classmethod
    def of(
        cls, right: npt.NDArray[Any], others: npt.NDArray[Any], cases: npt.NDArray[Any]
    ) -> Shares:
        """One answer beside one other, from how many cases each got right in every text: [text] each."""
        h, b, n = (np.asarray(part, dtype=np.float64) for part in (right, others, cases))
        there = n > 0
        h, b, n = h[there], b[there], n[there]
        return cls(
            np.array([len(n), n.sum(), n @ n, h.sum(), h @ h, h @ n, b.sum(), b @ b, b @ n, h @ b]),
            1,
            1,
        )

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
        """Wilson's, with as many cases as would vary so much if they were independent.

        If all or none are right, nothing is seen to vary: then there are no more than texts. Texts of one case each are independent: Wilson's as it is.
        """
        texts, n, nn = self.sums[:3]
        share = right / n
        if n == texts:
            return wilson(share, float(n))
        spread = self._spread(squares, with_n, share, nn, texts) / n**2
        alone = share * (1 - share) / n  # if all cases were independent
        return wilson(
            share,
            float(n / max(1.0, spread / alone)) if alone > 0 else float(texts),
            student(int(texts)),
        )

    def difference(self, answer: int, baseline: int) -> tuple[float, float, float]:
        """By how much an answer is right more often than a baseline on the same cases, and its 95 % interval."""
        texts, n, nn = self.sums[:3]
        h, hh, hn = (float(part[answer]) for part in self._three(3, self.n_answers))
        b, bb, bn = (
            float(part[baseline]) for part in self._three(3 + 3 * self.n_answers, self.n_baselines)
        )
        hb = float(
            self.sums[
                3 + 3 * (self.n_answers + self.n_baselines) + answer * self.n_baselines + baseline
            ]
        )
        gap = (h - b) / n
        if texts < 2:
            return float(gap), -1.0, 1.0
        z = student(int(texts))
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
