"""CoreferenceHeads: the head that finds antecedents best, compared with rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from attlas.coreference.antecedents import ALL, AntecedentCounts, choose_heads, score_heads
from attlas.coreference.windows import TOKENS, Cut, cut
from attlas.corpora.annotated import documents
from attlas.experiments.probe import ModelProbe
from attlas.studies import Study
from attlas.support.errors import MeasureError


@dataclass(kw_only=True, eq=False, repr=False)
class CoreferenceHeads(ModelProbe):
    """The head whose mentions attend most to an antecedent (Clark et al. 2019, Table 2).

    It is chosen in `fit` and scored in `evaluate`. A mention with an antecedent in its window is
    right if its head word attends most, of the head words of all mentions before it, to that of an
    antecedent. Documents are split between sentences into windows of `tokens` (128 there;
    None: as many as the model takes); `cut_` counts the antecedents that are lost by it.
    """

    tokens: int | None = TOKENS

    def fit(self, texts: Any, y: Any = None) -> Self:
        """Choose the best head for all mentions and for each kind of them."""
        self.study_, self.cut_ = self.counts(texts)
        self.chosen_ = choose_heads(self.study_.table("antecedents_sums"), self.shape_)
        return self

    def counts(self, texts: Any) -> tuple[Study, Cut]:
        """The study that counts for every head, and what splitting the documents loses."""
        self.shape_ = (self.model_.n_layers, self.model_.n_heads)
        windows = cut(self.model_, documents(texts), self.tokens)
        return self.study(windows.texts, AntecedentCounts()), windows

    def evaluate(self, texts: Any) -> pd.DataFrame:
        """The chosen heads and the baselines on other documents, one row per kind of mention each.

        `head` is the one head chosen for all mentions, `head_by_kind` the one chosen for the kind,
        `head_back` the one whose antecedents attend most to the mention; the difference is that
        from the rules.
        """
        if not hasattr(self, "chosen_"):
            raise MeasureError(
                "heads must be chosen before they are scored; call fit with other documents first"
            )
        self.scored_, self.scored_cut_ = self.counts(texts)
        return score_heads(self.chosen_, self.scored_.table("antecedents_sums"), self.shape_)

    def score(self, texts: Any, y: Any = None) -> float:
        """The share of mentions whose antecedent the chosen head finds."""
        table = self.evaluate(texts)
        return float(table[(table["who"] == "head") & (table["kind"] == ALL)]["accuracy"].iloc[0])
