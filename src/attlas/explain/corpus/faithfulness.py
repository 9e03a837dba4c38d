"""Faithfulness over a corpus: what the answer loses without the tokens each method ranks first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attlas.core.states import Accumulator, Moments, Rows
from attlas.explain.corpus import ExplanationsState
from attlas.explain.estimate import estimate_at, number_columns, with_difference
from attlas.explain.faithfulness import MEASURED, Perturbation, order_of, output_drop, random_orders
from attlas.explain.methods import Explained
from attlas.models import Model


@dataclass(frozen=True)
class FaithfulnessOverTexts:
    """Tokens removed or masked in the order of each method's scores, and in random orders."""

    methods: tuple[str, ...]
    bins: tuple[float, ...]
    perturbations: tuple[Perturbation, ...]

    def start(self) -> dict[str, Accumulator]:
        ways = len(self.perturbations) * len(self.methods)
        moments = Moments.zeros(ways, 3, len(MEASURED), len(self.bins) + 1)
        return {"faithfulness_texts": Rows.empty(), "faithfulness": moments}

    def add(self, state: ExplanationsState, model: Model, explained: Explained) -> Counter[str]:
        batch, count = explained.batch, len(self.methods)
        for way, perturbation in enumerate(self.perturbations):
            orders = [
                [order_of(explained.scores[method].scores[text]) for method in self.methods]
                + random_orders(batch, text, perturbation)
                for text in range(batch.n_texts)
            ]
            drops = output_drop(model, batch, explained.target, orders, perturbation)
            drops = np.concatenate([drops, drops.mean(-1, keepdims=True)], -1)
            random = drops[:, count:].mean(1)
            for number, method in enumerate(self.methods):
                own = drops[:, number]
                state.faithfulness.add(way * count + number, with_difference(own, random, axis=1))
                means = np.stack([own, random], 1)[..., -1]  # text, value or control, measured
                columns = {
                    "text": np.array([text.id for text in batch.texts], dtype=object),
                    "how": np.full(batch.n_texts, perturbation.how, dtype=object),
                    "method": np.full(batch.n_texts, method, dtype=object),
                    **number_columns(MEASURED, means, "random"),
                }
                state.faithfulness_texts.add(np.array(batch.indices), columns)
        return Counter()

    def tables(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        """One row per way, method and number, over all bins (bin 0) and in each."""
        ways = [(one.how, method) for one in self.perturbations for method in self.methods]
        rows = [
            {
                "how": how,
                "method": method,
                "measured": measured,
                "bin": share,
                **estimate_at(state.faithfulness, (way, slice(None), column, index)).row("random"),
            }
            for way, (how, method) in enumerate(ways)
            for column, measured in enumerate(MEASURED)
            for index, share in [(-1, 0.0), *enumerate(self.bins)]
        ]
        return {"faithfulness": pd.DataFrame(rows)} if rows else {}
