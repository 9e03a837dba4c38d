"""SyntaxHeads: the head that finds each relation best, compared with the best fixed offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from attlas.corpora.annotated import sentences
from attlas.experiments.probe import ModelProbe
from attlas.studies import Study
from attlas.support.errors import MeasureError
from attlas.syntax.arcs import ALL, MIN_CASES, ArcCounts, choose_heads, score_heads


@dataclass(kw_only=True, eq=False, repr=False)
class SyntaxHeads(ModelProbe):
    """The head and direction that find each relation best (Clark et al. 2019, Table 1).

    They are chosen in `fit` and scored in `evaluate` on other sentences. A head's answer for a word
    is the other word it attends to most (or that attends to it most). The baseline is the best
    fixed offset, chosen in `fit` too. Only relations with at least `min_cases` cases in both are
    listed. `convention="published"` chooses head and offset on the very sentences they are scored
    on, as the authors did, and needs no `fit`.

    >>> heads = SyntaxHeads(min_cases=20, progress=False).fit("embedded:sentences")
    >>> heads.chosen_[heads.chosen_["relation"] == "det"][["direction", "offset"]].values.tolist()
    [['dependent->head', 1]]
    """

    convention: str = "sound"
    min_cases: int = MIN_CASES

    def fit(self, texts: Any, y: Any = None) -> Self:
        """Choose the best head and the best offset of every relation."""
        self.study_ = self.counts(texts)
        self.chosen_ = self._chosen(self.study_)
        return self

    def evaluate(self, texts: Any) -> pd.DataFrame:
        """The chosen heads on other sentences: `all`, then one row per relation by frequency."""
        self.scored_ = self.counts(texts)
        if self.convention == "published":
            self.study_, self.chosen_ = self.scored_, self._chosen(self.scored_)
        elif not hasattr(self, "chosen_"):
            raise MeasureError(
                "heads must be chosen before they are scored; call fit with other sentences first"
            )
        sums = self.scored_.table("arcs_sums")
        return score_heads(self.chosen_, sums, self.shape_, self._measure, self.min_cases)

    def score(self, texts: Any, y: Any = None) -> float:
        """The share of words whose syntactic head is found by the head of their relation."""
        table = self.evaluate(texts)
        table = table[table["relation"] != ALL]
        return float((table["accuracy"] * table["n"]).sum() / table["n"].sum())

    def counts(self, texts: Any) -> Study:
        """The study that counts: every head, relation and direction."""
        parsed = sentences(texts)
        self.shape_ = (self.model_.n_layers, self.model_.n_heads)
        return self.study(parsed, self._measure)

    @property
    def _measure(self) -> ArcCounts:
        return ArcCounts(convention=self.convention)

    def _chosen(self, study: Study) -> pd.DataFrame:
        return choose_heads(study.table("arcs_sums"), self.shape_, self._measure, self.min_cases)
