"""Agreement over a corpus: every method compared with the first, with chance as control."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.batch import Batch
from attlas.core.masks import TokenMask
from attlas.core.states import Moments, Rows, State
from attlas.explain.agreement import CONVENTIONS, METRICS, compare
from attlas.explain.estimate import estimate_at
from attlas.explain.methods import Explained
from attlas.models import Model

Floats = npt.NDArray[np.float64]
Masks = dict[str, npt.NDArray[np.bool_]]  # keep: [text, token]


@dataclass
class AgreementState(State):
    """Rows for each text and pair, and means over texts."""

    agreement_texts: Rows
    agreement: Moments  # pair: value, chance, difference; metric


@dataclass(frozen=True)
class AgreementOverTexts:
    """The sizes of scores compared on the tokens that each of `keep` keeps, by each convention."""

    methods: tuple[str, ...]
    keep: tuple[str, ...]
    p: float
    top: float
    permutations: int
    seed: int

    @cached_property
    def masks(self) -> list[TokenMask]:
        return [TokenMask.of(keep) for keep in self.keep]

    @cached_property
    def pairs(self) -> list[tuple[str, str, str, str]]:
        """What is compared: left, right, which tokens, by which convention."""
        return [
            (left, self.methods[0], keep, convention)
            for left in self.methods[1:]
            for keep in self.keep
            for convention in CONVENTIONS
        ]

    def start(self) -> AgreementState:
        return AgreementState(Rows.empty(), Moments.zeros(len(self.pairs), 3, len(METRICS)))

    def add(self, state: AgreementState, model: Model, explained: Explained) -> Counter[str]:
        """Compare all pairs in every text; count the texts too short to compare under a mask."""
        batch = explained.batch
        sizes = {name: np.abs(one.scores) for name, one in explained.scores.items()}
        masks = {
            keep: mask.mask(batch).cpu().numpy()
            for keep, mask in zip(self.keep, self.masks, strict=True)
        }
        if not self.pairs:
            return Counter(not_compared=0)
        for text in range(batch.n_texts):
            values = self._compare(sizes, masks, batch, text)
            for pair, (value, chance) in enumerate(values):
                state.agreement.add(pair, np.stack([value, chance, value - chance])[None])
            self._add_rows(state, masks, batch, text, values)
        too_short = np.any([mask.sum(1) < 2 for mask in masks.values()], axis=0)
        return Counter(not_compared=int(too_short.sum()))

    def _compare(
        self, sizes: dict[str, Floats], masks: Masks, batch: Batch, text: int
    ) -> npt.NDArray[np.float64]:
        """Values and chances in one text: [pair, 2, metric]."""
        seed = (self.seed, batch.texts[text].number)
        return np.array(
            [
                compare(
                    sizes[left][text],
                    sizes[right][text],
                    masks[keep][text],
                    convention=convention,
                    p=self.p,
                    top=self.top,
                    permutations=self.permutations,
                    seed=seed,
                )
                for left, right, keep, convention in self.pairs
            ]
        )

    def _add_rows(
        self, state: AgreementState, masks: Masks, batch: Batch, text: int, values: Floats
    ) -> None:
        count = len(self.pairs)
        names = ("left", "right", "keep", "convention")
        columns = dict(zip(names, np.array(self.pairs, dtype=object).T, strict=True))
        kept = [masks[keep][text].sum() for _, _, keep, _ in self.pairs]
        numbers = {
            f"{metric}{end}": values[:, side, column]
            for column, metric in enumerate(METRICS)
            for side, end in enumerate(("", "_chance"))
        }
        ids = np.full(count, batch.texts[text].id, dtype=object)
        state.agreement_texts.add(
            np.full(count, batch.indices[text]),
            {"text": ids, **columns, "kept": np.array(kept, dtype=np.int64), **numbers},
        )

    def tables(self, state: AgreementState) -> dict[str, pd.DataFrame]:
        rows = [
            {
                "left": left,
                "right": right,
                "keep": keep,
                "convention": convention,
                "metric": metric,
                "p": 1.0 if convention == "published" else self.p,
                "top": self.top,
                **estimate_at(state.agreement, (pair, slice(None), column)).row("chance"),
            }
            for pair, (left, right, keep, convention) in enumerate(self.pairs)
            for column, metric in enumerate(METRICS)
        ]
        return {"agreement": pd.DataFrame(rows)} if rows else {}
