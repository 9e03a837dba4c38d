"""Syntax heads: the head that finds each relation best, chosen on some sentences and scored on others, beside the best fixed offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from attlas.models import Model, load
from attlas.probes.arcs import ALL, DIRECTIONS, NOT_SCORED, ArcCounts
from attlas.probes.cases import Shares, shares_of
from attlas.probes.passes import Probe, pass_of
from attlas.probes.trees import sentences
from attlas.studies import Study
from attlas.support.errors import CorpusError, MeasureError

MIN_CASES = 100
MORE = "give more sentences, or ask for fewer cases with min_cases (--min-cases)"
COLUMNS = (
    "layer", "head", "relation", "direction", "accuracy", "low", "high", "baseline", "offset", "difference", "difference_low", "difference_high", "n", "texts", "chosen_accuracy", "chosen_n",
)  # fmt: skip


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
        self.chosen_ = self._best(self.study_)
        return self

    def evaluate(self, texts: Any) -> pd.DataFrame:
        """The chosen heads on other sentences: a row for each relation, most frequent first, `all` before them."""
        self.scored_ = self.counts(texts)
        if self.convention == "published":
            self.study_, self.chosen_ = self.scored_, self._best(self.scored_)
        elif not hasattr(self, "chosen_"):
            raise MeasureError("heads must be chosen before they are scored; call fit with other sentences first")
        shares = self._shares(self.scored_)
        chosen = self.chosen_.to_dict("records")
        rows = [row for one in chosen if (row := self._scored(one, shares.get(one["relation"]))) is not None]
        if not any(row["relation"] != ALL for row in rows):
            raise CorpusError(f"no relation has {self.min_cases} cases both to choose on and to score on; {MORE}")
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        first = table["relation"] == ALL
        return pd.concat(
            [table[first], table[~first].sort_values("n", ascending=False, kind="stable")], ignore_index=True
        )

    def score(self, texts: Any, y: Any = None) -> float:
        """The share of words whose syntactic head is found if each is asked of its relation's head."""
        table = self.evaluate(texts)
        table = table[table["relation"] != ALL]
        return float((table["accuracy"] * table["n"]).sum() / table["n"].sum()) if len(table) else float("nan")

    def counts(self, texts: Any) -> Study:
        """The study that counts: every head, relation and direction."""
        texts = sentences(texts)
        model = load(self.model) if not isinstance(self.model, Model) else self.model
        self.shape_ = (model.n_layers, model.n_heads)
        return pass_of(model, texts, self._measure, self.cache, self.workers, self.progress)

    @property
    def _measure(self) -> ArcCounts:
        return ArcCounts(convention=self.convention)

    def _shares(self, study: Study) -> dict[str, Shares]:
        answers = len(DIRECTIONS) * self.shape_[0] * self.shape_[1]
        return shares_of(study.table("arcs_sums"), "relation", answers, len(self._measure.offsets))

    def _best(self, study: Study) -> pd.DataFrame:
        """The best head and offset of every relation with enough cases."""
        rows = []
        for name, shares in self._shares(study).items():
            if shares.cases < self.min_cases or name.partition(":")[0] in NOT_SCORED:
                continue
            answer, offset = int(shares.answers.argmax()), int(shares.baselines.argmax())
            direction, layer, head = (int(part) for part in np.unravel_index(answer, (len(DIRECTIONS), *self.shape_)))
            rows.append({
                "layer": layer, "head": head, "relation": name, "direction": DIRECTIONS[direction], "offset": self._measure.offsets[offset],
                "accuracy": float(shares.answers[answer]), "n": shares.cases, "answer": answer, "baseline": offset,
            })  # fmt: skip
        if not rows:
            raise CorpusError(f"no relation has {self.min_cases} cases; {MORE}")
        return pd.DataFrame(rows)

    def _scored(self, chosen: dict[str, Any], shares: Shares | None) -> dict[str, Any] | None:
        """A chosen head and offset on the cases of its relation; None if there are too few."""
        if shares is None or shares.cases < self.min_cases:
            return None
        answer, offset = chosen["answer"], chosen["baseline"]
        low, high = shares.interval(answer)
        gap, gap_low, gap_high = shares.difference(answer, offset)
        return {
            **{name: chosen[name] for name in ("layer", "head", "relation", "direction", "offset")},
            "accuracy": float(shares.answers[answer]), "low": low, "high": high, "baseline": float(shares.baselines[offset]),
            "difference": gap, "difference_low": gap_low, "difference_high": gap_high, "n": shares.cases, "texts": shares.texts,
            "chosen_accuracy": chosen["accuracy"], "chosen_n": chosen["n"],
        }  # fmt: skip
