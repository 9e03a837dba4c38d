"""Syntax heads: the head that finds each relation best, chosen on some sentences and scored on others, beside the best fixed offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pandas as pd

from attlas.corpora.annotated import sentences
from attlas.experiments.probe import Probe, pass_of
from attlas.models import Model, load
from attlas.studies import Study
from attlas.support.errors import MeasureError
from attlas.syntax.arcs import ALL, MIN_CASES, ArcCounts, choose_heads, score_heads


class SyntaxHeads(Probe):
    """For every relation the head and direction that find it best, chosen in `fit`, scored in `evaluate` on other sentences (Clark et al. 2019, Table 1).

    A head's answer for a word is the other word it attends to most (or that attends to it most). The baseline is the best fixed offset, chosen in `fit` too. Only relations with at least
    `min_cases` cases in both are listed. `convention="published"` chooses head and offset on the very sentences they are scored on, as the paper did, and needs no `fit`.

    >>> heads = SyntaxHeads(min_cases=20, progress=False).fit("embedded:sentences")
    >>> heads.chosen_[heads.chosen_["relation"] == "det"][["direction", "offset"]].values.tolist()
    [['dependent->head', 1]]
    """

    def __init__(
        self,
        model: Any = None,
        *,
        convention: str = "sound",
        min_cases: int = MIN_CASES,
        cache: str | Path | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.convention = convention
        self.min_cases = min_cases
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def fit(self, texts: Any, y: Any = None) -> Self:
        """Choose the best head and the best offset of every relation."""
        self.study_ = self.counts(texts)
        self.chosen_ = self._chosen(self.study_)
        return self

    def evaluate(self, texts: Any) -> pd.DataFrame:
        """The chosen heads on other sentences: a row for each relation, most frequent first, `all` before them."""
        self.scored_ = self.counts(texts)
        if self.convention == "published":
            self.study_, self.chosen_ = self.scored_, self._chosen(self.scored_)
        elif not hasattr(self, "chosen_"):
            raise MeasureError(
                "heads must be chosen before they are scored; call fit with other sentences first"
            )
        return score_heads(
            self.chosen_,
            self.scored_.table("arcs_sums"),
            self.shape_,
            self._measure,
            self.min_cases,
        )

    def score(self, texts: Any, y: Any = None) -> float:
        """The share of words whose syntactic head is found if each is asked of its relation's head."""
        table = self.evaluate(texts)
        table = table[table["relation"] != ALL]
        return (
            float((table["accuracy"] * table["n"]).sum() / table["n"].sum())
            if len(table)
            else float("nan")
        )

    def counts(self, texts: Any) -> Study:
        """The study that counts: every head, relation and direction."""
        texts = sentences(texts)
        model = load(self.model) if not isinstance(self.model, Model) else self.model
        self.shape_ = (model.n_layers, model.n_heads)
        return pass_of(model, texts, self._measure, self.cache, self.workers, self.progress)

    @property
    def _measure(self) -> ArcCounts:
        return ArcCounts(convention=self.convention)

    def _chosen(self, study: Study) -> pd.DataFrame:
        return choose_heads(study.table("arcs_sums"), self.shape_, self._measure, self.min_cases)
