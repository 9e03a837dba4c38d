"""Agreement over a corpus: every method compared with the first, with chance as control."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.batch import Batch
from attlas.core.masks import TokenMask
from attlas.core.states import Accumulator, Moments, Rows
from attlas.explain.agreement import CONVENTIONS, METRICS, compare
from attlas.explain.corpus import ExplanationsState
from attlas.explain.estimate import estimate_at, number_columns, with_difference
from attlas.explain.methods import Explained
from attlas.explain.shifts import Band, tau_band
from attlas.models import Model
from attlas.support.arrays import Array, Bools, Floats

PAIR = ("left", "right", "keep", "convention")
Masks = dict[str, Bools]  # keep: [text, token]


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

    def start(self) -> dict[str, Accumulator]:
        moments = Moments.zeros(len(self.pairs), 3, len(METRICS))
        return {"agreement_texts": Rows.empty(), "agreement": moments}

    def add(self, state: ExplanationsState, model: Model, explained: Explained) -> Counter[str]:
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
                state.agreement.add(pair, with_difference(value, chance)[None])
            bands = [
                tau_band(sizes[left][text], sizes[right][text], masks[keep][text], convention)
                for left, right, keep, convention in self.pairs
            ]
            self._add_rows(state, masks, batch, text, values, bands)
        too_short = np.any([mask.sum(1) < 2 for mask in masks.values()], axis=0)
        return Counter(not_compared=int(too_short.sum()))

    def _compare(self, sizes: dict[str, Floats], masks: Masks, batch: Batch, text: int) -> Floats:
        """Values and chances in one text: [pair, 2, metric]."""
        options: dict[str, Any] = {"p": self.p, "top": self.top, "permutations": self.permutations}
        options["seed"] = (self.seed, batch.texts[text].number)
        return np.array(
            [
                compare(
                    sizes[left][text],
                    sizes[right][text],
                    masks[keep][text],
                    convention=convention,
                    **options,
                )
                for left, right, keep, convention in self.pairs
            ]
        )

    def _add_rows(
        self,
        state: ExplanationsState,
        masks: Masks,
        batch: Batch,
        text: int,
        values: Floats,
        bands: list[Band],
    ) -> None:
        count = len(self.pairs)
        kept = [masks[keep][text].sum() for _, _, keep, _ in self.pairs]
        columns = {
            "text": np.full(count, batch.texts[text].id, dtype=object),
            **dict(zip(PAIR, np.array(self.pairs, dtype=object).T, strict=True)),
            "kept": np.array(kept, dtype=np.int64),
            **number_columns(METRICS, values, "chance"),
            **band_columns(bands),
        }
        state.agreement_texts.add(np.full(count, batch.indices[text]), columns)

    def tables(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        rows = [
            {
                **dict(zip(PAIR, pair, strict=True)),
                "metric": metric,
                "p": 1.0 if pair[-1] == "published" else self.p,
                "top": self.top,
                **estimate_at(state.agreement, (number, slice(None), column)).row("chance"),
            }
            for number, pair in enumerate(self.pairs)
            for column, metric in enumerate(METRICS)
        ]
        return {"agreement": pd.DataFrame(rows)} if rows else {}


def band_columns(bands: list[Band]) -> dict[str, Array]:
    """The bands of tau under circular shifts: `tau_low`, `tau_high`, `tau_level`, `shifts`."""
    low, high, level, shifts = zip(*bands, strict=True)
    return {
        "tau_low": np.array(low),
        "tau_high": np.array(high),
        "tau_level": np.array(level),
        "shifts": np.array(shifts, dtype=np.int64),
    }
