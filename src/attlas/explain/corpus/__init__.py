"""What `Explanations` collects over a corpus: four parts that share one explained batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from attlas.core.states import Accumulator, Moments, Rows, State, Tally
from attlas.explain.methods import Explained
from attlas.models import Model


@dataclass
class ExplanationsState(State):
    """Rows for each text, token, pair or method, and what is summed over texts."""

    explanations: Rows
    attributions: Rows
    types: Tally  # answer and string: texts, occurrences, a total for each method
    answers: Tally  # answer: texts
    agreement_texts: Rows
    agreement: Moments  # pair: value, chance, difference; metric
    faithfulness_texts: Rows
    faithfulness: Moments  # way and method: value, random, difference; measured; bin, mean of bins
    plausibility_texts: Rows
    plausibility: Moments  # method: value, random, difference; metric


class Part(Protocol):
    """Some tables of the measure: attributions, agreement, faithfulness or plausibility."""

    def start(self) -> dict[str, Accumulator]:
        """This part of an empty state."""

    def add(self, state: ExplanationsState, model: Model, explained: Explained) -> Counter[str]:
        """Add an explained batch to the state; counts for the manifest."""

    def tables(self, state: ExplanationsState) -> dict[str, pd.DataFrame]:
        """The tables over all texts; rows per text or token are in the state."""
