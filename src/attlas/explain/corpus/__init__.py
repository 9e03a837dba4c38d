"""What `Explanations` collects over a corpus: four parts that share one explained batch."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import pandas as pd

from attlas.core.states import State
from attlas.explain.methods import Explained
from attlas.models import Model


class Part(Protocol):
    """Some tables of the measure: attributions, agreement, faithfulness or plausibility."""

    def start(self) -> State:
        """The empty state of this part."""

    def add(self, state: Any, model: Model, explained: Explained) -> Counter[str]:
        """Add an explained batch to the state; counts for the manifest."""

    def tables(self, state: Any) -> dict[str, pd.DataFrame]:
        """The tables over all texts; rows per text or token are in the state."""
