"""Coreference heads: the head that finds antecedents best, chosen on some documents and scored on others, compared with rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pandas as pd

from attlas.coreference.antecedents import ALL, AntecedentCounts, choose_heads, score_heads
from attlas.coreference.windows import TOKENS, Cut, cut
from attlas.corpora.annotated import documents
from attlas.experiments.probe import Probe, pass_of
from attlas.models import Model, load
from attlas.studies import Study
from attlas.support.errors import MeasureError


class CoreferenceHeads(Probe):
    """The head whose mentions attend most to an antecedent, chosen in `fit`, scored in `evaluate` (Clark et al. 2019, Table 2).

    A mention with an antecedent in its window is right if its head word attends most, of the head words of all mentions before it, to that of an antecedent. Documents are cut between
    sentences in windows of `tokens` (128 in the paper; None: as many as the model takes); what the cut loses is counted in `cut_`.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        tokens: int | None = TOKENS,
        cache: str | Path | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.tokens = tokens
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def fit(self, texts: Any, y: Any = None) -> Self:
        """Choose the best head for all mentions and for each kind of them."""
        self.study_, self.cut_ = self.counts(texts)
        self.chosen_ = choose_heads(self.study_.table("antecedents_sums"), self.shape_)
        return self

    def counts(self, texts: Any) -> tuple[Study, Cut]:
        """The study that counts for every head, and what cutting the documents lost."""
        model = load(self.model) if not isinstance(self.model, Model) else self.model
        self.shape_ = (model.n_layers, model.n_heads)
        found = cut(model, documents(texts), self.tokens)
        return pass_of(
            model, found.texts, AntecedentCounts(), self.cache, self.workers, self.progress
        ), found

    def evaluate(self, texts: Any) -> pd.DataFrame:
        """The chosen heads and the baselines on other documents: a row for each and each kind of mention.

        `head` is the one head chosen for all mentions, `head_by_kind` the one chosen for the kind, `head_back` the one whose antecedents attend most to the mention; the difference is that
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
