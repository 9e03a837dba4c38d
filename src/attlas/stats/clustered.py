"""How often is each answer right, with intervals that allow for cases of one text being alike?

For every kind of case (a relation, a kind of mention) one row of sums over texts is kept: of n
cases in a text, how many h and b each answer and each baseline got right, their squares and
products. The variance of a share over texts needs nothing else, so a corpus of any length takes the
same memory, and the sums of its parts add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from attlas.stats.intervals import student, wilson
from attlas.support.arrays import Array, Floats

DIFFERENCE = ("difference", "difference_low", "difference_high")  # columns of tables


def proportions_of(
    frame: pd.DataFrame, kind: str, answers: int, baselines: int
) -> dict[str, ClusteredProportions]:
    """The shares of each kind of case, from a table of sums with one row per kind."""
    sums: Floats = frame.drop(columns=kind).to_numpy(dtype=np.float64)
    return {
        str(name): ClusteredProportions(row, answers, baselines)
        for name, row in zip(frame[kind], sums, strict=True)
    }


def paired_differences(frame: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """How often two answers are right on the same cases, one row per kind, paired by text.

    Each frame has a row per text and kind, as `attlas.core.cases.add_followed` adds them; kinds or
    texts that only one has are left out.
    """
    both, rows = frame.merge(other, on=["of", "kind", "cases"], validate="one_to_one"), []
    for kind, some in both.groupby("kind", sort=True):
        columns = (some[name].to_numpy() for name in ("right_x", "right_y", "cases"))
        shares = ClusteredProportions.of(*columns)
        difference = dict(zip(DIFFERENCE, shares.difference(0, 0), strict=True))
        rows.append({"kind": kind, **difference, "n": shares.cases, "texts": shares.texts})
    return pd.DataFrame(rows, columns=["kind", *DIFFERENCE, "n", "texts"])


@dataclass(frozen=True)
class ClusteredProportions:
    """The shares of one kind of case that are right, with 95% intervals, from sums over texts."""

    sums: Floats  # texts, n, nn; h, hh, hn per answer; b, bb, bn per baseline; hb per pair
    n_answers: int
    n_baselines: int

    @classmethod
    def of(cls, right: Array, others: Array, cases: Array) -> ClusteredProportions:
        """One answer and one baseline, from how many cases of each text they got right: [text]."""
        counts = np.stack([right, others, cases]).astype(np.float64)
        h, b, n = counts[:, counts[2] > 0]
        sums = [len(n), n.sum(), n @ n, h.sum(), h @ h, h @ n, b.sum(), b @ b, b @ n, h @ b]
        return cls(np.array(sums), 1, 1)

    @property
    def texts(self) -> int:
        return int(self.sums[0])

    @property
    def cases(self) -> int:
        return int(self.sums[1])

    @property
    def answers(self) -> Floats:
        """The share of cases that each answer gets right."""
        return self._answer_sums[0] / self.sums[1]

    @property
    def baselines(self) -> Floats:
        """The share of cases that each baseline gets right."""
        return self._baseline_sums[0] / self.sums[1]

    @property
    def _answer_sums(self) -> Floats:
        """The sums of h, h^2 and h n: [sum, answer]."""
        return self.sums[3 : 3 + 3 * self.n_answers].reshape(3, -1)

    @property
    def _baseline_sums(self) -> Floats:
        """The sums of b, b^2 and b n: [sum, baseline]."""
        first = 3 + 3 * self.n_answers
        return self.sums[first : first + 3 * self.n_baselines].reshape(3, -1)

    @property
    def _products(self) -> Floats:
        """The sums of h b: [answer, baseline]."""
        first = 3 + 3 * (self.n_answers + self.n_baselines)
        return self.sums[first:].reshape(self.n_answers, self.n_baselines)

    def interval(self, answer: int) -> tuple[float, float]:
        """The 95% interval of an answer's share."""
        return self._interval(self._answer_sums[:, answer])

    def baseline_interval(self, baseline: int) -> tuple[float, float]:
        """The 95% interval of a baseline's share."""
        return self._interval(self._baseline_sums[:, baseline])

    def _interval(self, sums: Floats) -> tuple[float, float]:
        """Wilson's interval, for as many independent cases as would vary this much.

        If all or none are right, no variation is observed: then there are as many as texts. Texts
        of one case each are independent: Wilson's as it is.
        """
        texts, n, nn = self.sums[:3]
        right, squares, with_n = map(float, sums)
        share = right / n
        if n == texts:
            return wilson(share, float(n))
        spread = self._spread(squares, with_n, share, nn, texts) / n**2
        independent = share * (1 - share) / n
        effective = n / max(1.0, spread / independent) if independent > 0 else texts
        return wilson(share, float(effective), student(int(texts)))

    def difference(self, answer: int, baseline: int) -> tuple[float, float, float]:
        """An answer's share minus a baseline's on the same cases, and its 95% interval.

        It is never narrower than that many independent cases allow, even if all texts agree.
        """
        texts, n, nn = self.sums[:3]
        h, hh, hn = map(float, self._answer_sums[:, answer])
        b, bb, bn = map(float, self._baseline_sums[:, baseline])
        hb = float(self._products[answer, baseline])
        gap = (h - b) / n
        if texts < 2:
            return float(gap), -1.0, 1.0
        z = student(int(texts))
        size = (abs(gap) * n + z * z / 2) / (n + z * z)
        spread = self._spread(hh - 2 * hb + bb, hn - bn, gap, nn, texts) / n**2
        half = z * float(np.sqrt(max(spread, size * (1 - size) / n)))
        return float(gap), float(max(-1.0, gap - half)), float(min(1.0, gap + half))

    def row(self, answer: int, baseline: int) -> dict[str, float]:
        """Columns of a table: an answer's share, its interval and its lead on a baseline."""
        difference = dict(zip(DIFFERENCE, self.difference(answer, baseline), strict=True))
        share = self._share_row(float(self.answers[answer]), self.interval(answer))
        return share | difference

    def baseline_row(self, baseline: int) -> dict[str, float]:
        """Columns of a table: a baseline's share and its interval."""
        share = float(self.baselines[baseline])
        return self._share_row(share, self.baseline_interval(baseline))

    def _share_row(self, share: float, interval: tuple[float, float]) -> dict[str, float]:
        low, high = interval
        return {"accuracy": share, "low": low, "high": high, "n": self.cases, "texts": self.texts}

    @staticmethod
    def _spread(squares: float, with_n: float, share: float, nn: float, texts: float) -> float:
        """The sum over texts of (right - share x cases) squared, for a sample of texts."""
        return max(0.0, squares - 2 * share * with_n + share**2 * nn) * texts / max(1.0, texts - 1)
