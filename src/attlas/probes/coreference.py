"""Coreference heads: the head that finds antecedents best, chosen on some documents and scored on others, beside rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from attlas.core.annotations import KINDS, coreference_of
from attlas.core.text import Text
from attlas.corpora.coreference import documents as read_documents
from attlas.models import Model, load
from attlas.probes.antecedents import DIRECTIONS, AntecedentCounts
from attlas.probes.cases import Shares, shares_of
from attlas.probes.passes import Probe, pass_of
from attlas.probes.sieve import BASELINES
from attlas.probes.windows import TOKENS, Cut, cut
from attlas.studies import Study
from attlas.support.errors import CorpusError, MeasureError

ALL = "all"
WITHOUT = "has an antecedent in its window; give more documents with coreference, or longer windows (--tokens)"
COLUMNS = ("who", "kind", "accuracy", "low", "high", "n", "texts", "layer", "head", "direction", "difference", "difference_low", "difference_high")  # fmt: skip


def documents(source: Any) -> list[Text]:
    """Documents with coreference from a CoNLL-U file with entities, LitBank's CoNLL, GAP's table, or texts; the first without mentions is an error."""
    corpus = read_documents(source)
    texts = list(corpus)
    for text in texts:
        if coreference_of(text.annotations) is None:
            raise CorpusError(
                f"text {text.id!r} of {corpus.name} has no coreference; give CoNLL-U with Entity=, LitBank's .conll or GAP's .tsv"
            )
    return texts


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
        size = self.shape_[0] * self.shape_[1]
        shares = self._shares(self.study_)
        self.chosen_ = {kind: int(found.answers[:size].argmax()) for kind, found in shares.items()}
        self.chosen_back_ = {kind: size + int(found.answers[size:].argmax()) for kind, found in shares.items()}
        if ALL not in self.chosen_:
            raise CorpusError(f"no mention {WITHOUT}")
        return self

    def counts(self, texts: Any) -> tuple[Study, Cut]:
        """The study that counts for every head, and what cutting the documents lost."""
        model = load(self.model) if not isinstance(self.model, Model) else self.model
        self.shape_ = (model.n_layers, model.n_heads)
        found = cut(model, documents(texts), self.tokens)
        return pass_of(model, found.texts, AntecedentCounts(), self.cache, self.workers, self.progress), found

    def evaluate(self, texts: Any) -> pd.DataFrame:
        """The chosen heads and the baselines on other documents: a row for each and each kind of mention.

        `head` is the one head chosen for all mentions, `head_by_kind` the one chosen for the kind, `head_back` the one whose antecedents attend most to the mention; the difference is that
        from the rules.
        """
        if not hasattr(self, "chosen_"):
            raise MeasureError("heads must be chosen before they are scored; call fit with other documents first")
        self.scored_, self.scored_cut_ = self.counts(texts)
        rows: list[dict[str, Any]] = []
        for kind, shares in self._in_order(self._shares(self.scored_)):
            rows.append(self._head("head", kind, shares, self.chosen_[ALL]))
            if kind != ALL and kind in self.chosen_:
                rows.append(self._head("head_by_kind", kind, shares, self.chosen_[kind]))
            rows.append(self._head("head_back", kind, shares, self.chosen_back_[ALL]))
            rows += [_baseline(name, number, kind, shares) for number, name in enumerate(BASELINES)]
        if not rows:
            raise CorpusError(f"no mention {WITHOUT}")
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def score(self, texts: Any, y: Any = None) -> float:
        """The share of mentions whose antecedent the chosen head finds."""
        table = self.evaluate(texts)
        return float(table[(table["who"] == "head") & (table["kind"] == ALL)]["accuracy"].iloc[0])

    def _shares(self, study: Study) -> dict[str, Shares]:
        answers = len(DIRECTIONS) * self.shape_[0] * self.shape_[1]
        return shares_of(study.table("antecedents_sums"), "kind", answers, len(BASELINES))

    @staticmethod
    def _in_order(shares: dict[str, Shares]) -> list[tuple[str, Shares]]:
        return [(kind, shares[kind]) for kind in (ALL, *KINDS) if kind in shares]

    def _head(self, who: str, kind: str, shares: Shares, answer: int) -> dict[str, Any]:
        direction, layer, head = (int(part) for part in np.unravel_index(answer, (len(DIRECTIONS), *self.shape_)))
        low, high = shares.interval(answer)
        gap, gap_low, gap_high = shares.difference(answer, list(BASELINES).index("rules"))
        return {
            "who": who, "kind": kind, "accuracy": float(shares.answers[answer]), "low": low, "high": high, "n": shares.cases, "texts": shares.texts,
            "layer": layer, "head": head, "direction": DIRECTIONS[direction], "difference": gap, "difference_low": gap_low, "difference_high": gap_high,
        }  # fmt: skip


def _baseline(who: str, number: int, kind: str, shares: Shares) -> dict[str, Any]:
    low, high = shares.baseline_interval(number)
    size = {"n": shares.cases, "texts": shares.texts}
    return {"who": who, "kind": kind, "accuracy": float(shares.baselines[number]), "low": low, "high": high, **size}
