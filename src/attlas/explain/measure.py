"""Which tokens does a model's prediction depend on, and does attention agree?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from attlas.core.batch import Batch
from attlas.core.measure import BatchReport, Measure, Outputs, Shape
from attlas.explain.corpus import ExplanationsState, Part
from attlas.explain.corpus.agreement import AgreementOverTexts
from attlas.explain.corpus.attributions import Attributions
from attlas.explain.corpus.faithfulness import FaithfulnessOverTexts
from attlas.explain.corpus.plausibility import PlausibilityOverTexts
from attlas.explain.experiment import USUAL, Explain
from attlas.explain.explanation import ExplainOptions
from attlas.explain.faithfulness import BINS, Perturbation, blank
from attlas.explain.importance import importance_grid
from attlas.explain.methods import METHODS, Settings, explain_batch, settings_of
from attlas.models import Model
from attlas.stats.chance import RUNS, SHUFFLES
from attlas.support.errors import AttlasError, MeasureError
from attlas.support.options import same_option, seed_option

KEEPS = ("all", "ordinary", "keywords")


@dataclass(frozen=True, kw_only=True)
class Explanations(Measure[ExplanationsState]):
    """Every text explained by each method; see docs/explain.md for the tables.

    The other methods are compared with the first by the size of their scores, on the tokens that
    each of `keep` keeps, by both conventions. `faithfulness` (remove, mask) tests whether the
    prediction depends on the tokens; texts with a rationale are scored against it. The options are
    those of `attlas.explain.explain`; `share` is that of `plausibility`.
    """

    name: ClassVar[str] = "explanations"
    clause: ClassVar[str] = (
        "the dependence of each prediction on each token by attribution and by attention, their "
        "agreement compared with permuted scores, and their faithfulness compared with a random "
        "order of tokens"
    )
    references: ClassVar[tuple[str, ...]] = ("hou2022", "deyoung2020")
    needs: ClassVar[frozenset[str]] = frozenset({"network"})
    costly: ClassVar[bool] = True
    methods: tuple[str, ...] = USUAL
    target: str | int | None = None
    of: str = "probability"
    position: int | None = same_option(Explain, "position", None)
    baseline: str = "padding"
    at: str = "embeddings"
    tolerance: float = same_option(Explain, "tolerance", 0.01)
    max_evaluations: int = same_option(Explain, "max_evaluations", 500)
    importance: Any = None  # layer head: kept as tuples
    keep: tuple[str, ...] = KEEPS
    p: float = same_option(Explain, "p", 0.9)
    top: float = same_option(Explain, "top", 0.05)
    permutations: int = same_option(Explain, "permutations", SHUFFLES)
    faithfulness: tuple[str, ...] = ()
    bins: tuple[float, ...] = same_option(Explain, "bins", BINS)
    draws: int = same_option(Explain, "draws", RUNS)
    share: float | None = same_option(Explain, "share", None)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        for name in ("methods", "keep", "faithfulness", "bins"):
            object.__setattr__(self, name, _as_tuple(getattr(self, name)))
        super().__post_init__()
        grid = None if isinstance(self.importance, tuple) else importance_grid(self.importance)
        if grid is not None:
            object.__setattr__(self, "importance", tuple(map(tuple, grid.tolist())))
        if self.at == "parts":
            raise MeasureError(
                "at='parts' is for single texts (explain); for a corpus choose embeddings or words"
            )
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise MeasureError(
                f"the methods are {', '.join(self.methods) or 'none'}; name at least one, each once"
            )
        for method in self.methods:
            METHODS.question(method)
        self.settings, self.parts  # noqa: B018  validates early

    @cached_property
    def settings(self) -> Settings:
        options = {name: getattr(self, name) for name in ExplainOptions.__annotations__}
        if self.importance is not None:
            options["importance"] = np.array(self.importance)
        return settings_of(**options)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What is collected from each explained batch."""
        perturbations = tuple(
            Perturbation(how, self.bins, self.draws, self.seed) for how in self.faithfulness
        )
        agreement = AgreementOverTexts(
            self.methods, self.keep, self.p, self.top, self.permutations, self.seed
        )
        agreement.masks  # noqa: B018  validates `keep`
        return (
            Attributions(self.methods, self.tolerance),
            agreement,
            FaithfulnessOverTexts(self.methods, self.bins, perturbations),
            PlausibilityOverTexts(self.methods, self.share, self.seed),
        )

    def check(self, model: Model, labels: Mapping[str, int] | None = None) -> None:
        self.settings.check(model, self.methods)
        if self.target == "label" and labels is not None and not labels:
            raise MeasureError(
                "the target is 'label', but no text has one; name the column with label=... "
                "(--label)"
            )
        if "mask" in self.faithfulness:
            blank(model)

    def start(self, model: Shape) -> ExplanationsState:
        empty: dict[str, Any] = {}
        for part in self.parts:
            empty |= part.start()
        return ExplanationsState(**empty)

    def finish_batch(self, state: ExplanationsState, batch: Batch, outputs: Outputs) -> BatchReport:
        return _add_batch(self, state, outputs.network, batch)

    def result(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        tables = {name: rows.frame() for name, rows in state.streamed().items() if rows.blocks}
        if not state.answers.rows:  # nothing could be explained
            return tables
        for part in self.parts:
            tables |= part.tables(state)
        return tables


def _add_batch(
    measure: Explanations, state: ExplanationsState, model: Model, batch: Batch
) -> BatchReport:
    """Explain a batch once and hand it to every part; a text that fails does not affect others."""
    counts = Counter(explained=0, unexplained=0, not_converged=0, not_compared=0)
    try:
        explained = explain_batch(model, batch, measure.methods, measure.settings)
    except AttlasError as error:
        if batch.n_texts == 1:
            counts["unexplained"] = 1
            return BatchReport([(batch.indices[0], str(error))], counts)
        report = BatchReport()
        for text in range(batch.n_texts):
            report.add(_add_batch(measure, state, model, batch[text : text + 1]))
        return report
    for part in measure.parts:
        counts.update(part.add(state, model, explained))
    return BatchReport([], counts)


def _as_tuple(given: Any) -> tuple[Any, ...]:
    if isinstance(given, str):
        return tuple(given.split("+"))
    return tuple(given) if isinstance(given, Iterable) else (given,)
